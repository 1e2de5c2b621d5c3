"""What tests of the whole host share: the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen


@frozen
class Cli:
    """`unipi` as a child process, in an empty home, with one model that the simulator serves."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def serve_model(self, url: str, api: str = "anthropic-messages") -> None:
        """Make `sim/one` the model, at a simulator's `url`."""
        document = {
            "providers": {"sim": {"api": api, "base_url": url, "api_key_env": "SIM_KEY"}},
            "models": {"sim/one": {}},
        }
        (self.home / "models.json").write_text(json.dumps(document))

    def settings(self, **values: object) -> None:
        (self.home / "settings.json").write_text(json.dumps(values))

    def plugin(self, name: str, source: str) -> str:
        """Write a plugin file; returns its path, for `-e`."""
        path = self.folder / f"{name}.py"
        path.write_text(f"from unipi_hookspecs import *\n{source}")
        return str(path)

    def start(self, *args: str, **options: object) -> subprocess.Popen[str]:
        """Start `unipi …`, its output on pipes."""
        env = {"PATH": os.environ["PATH"], "UNIPI_HOME": str(self.home), "SIM_KEY": "x"}
        return subprocess.Popen(
            [sys.executable, "-m", "unipi", *args],
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            **options,
        )

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run `unipi …` to its end."""
        process = self.start(*args)
        out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(args, process.returncode, out, err)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    made.home.mkdir()
    return made
