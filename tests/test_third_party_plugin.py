"""The plugin of docs/first-plugin.md: built, installed in a fresh environment, listed, obeyed."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from unipi.sim import Call, Say, Simulator, run_simulator

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "first-plugin.md"


def block(language: str) -> str:
    """The page's first block in a language."""
    match = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert match
    return match[1]


def command(*arguments: object, **options: object) -> str:
    done = subprocess.run(
        [str(item) for item in arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,  # type: ignore[call-overload]  # cwd and env alone
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the plugin's wheel installed by pip.

    The host and its dependencies are seen through a path file, so that nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("third-party")
    source = folder / "source"
    source.mkdir()
    (source / "careful.py").write_text(block("python"))
    (source / "pyproject.toml").write_text(block("toml"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    offline = ["--no-deps", "--no-index"]
    wheel = [*pip, "wheel", *offline, "--no-build-isolation", "-w", folder / "dist", source]
    command(*wheel)
    venv.create(folder / "env", symlinks=True)
    found = folder / "env" / "bin" / "python"
    [packages] = (folder / "env" / "lib").glob("python*/site-packages")
    seen = "; ".join(f"site.addsitedir({item!r})" for item in site.getsitepackages())
    (packages / "host.pth").write_text(f"import site; {seen}\n")
    [built] = (folder / "dist").iterdir()
    command(*pip, "--python", found, "install", *offline, built)
    return found


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "UNIPI_HOME": str(home)}


def test_it_is_fifteen_lines() -> None:
    assert len(block("python").splitlines()) <= 15


def test_it_is_listed_with_its_distribution_and_hooks(python: Path, tmp_path: Path) -> None:
    listed = command(
        python,
        *("-m", "unipi", "plugins", "list", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    [row] = [row for row in json.loads(listed) if row["name"] == "careful"]
    position = row.pop("position")
    assert isinstance(position, int)
    assert row == {
        "name": "careful",
        "distribution": "unipi-careful",
        "version": "1.0",
        "hooks": ["tool_call"],
        "tools": [],
        "status": "active",
        "reason": None,
    }


def test_its_tool_call_hook_blocks_a_call_of_a_run(python: Path, tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "cwd"
    home.mkdir()
    (cwd / "build").mkdir(parents=True)
    script = [
        [Call("bash", {"command": "rm -rf build"})],
        [Call("bash", {"command": "touch made"})],
        [Say("Done.")],
    ]
    simulator = Simulator(script)
    with run_simulator(simulator) as url:
        provider = {"api": "anthropic-messages", "base_url": url, "api_key_env": "SIM_KEY"}
        models = {"providers": {"sim": provider}, "models": {"sim/scripted": {}}}
        (home / "models.json").write_text(json.dumps(models))
        words = ["run", "-p", "Clean up.", "--model", "sim/scripted", "--no-session"]
        out = command(
            python, "-m", "unipi", *words, cwd=cwd, env={**environment(home), "SIM_KEY": "any"}
        )
    assert "Done." in out
    assert (cwd / "build").is_dir()
    assert (cwd / "made").exists()
    assert b"is not allowed here; ask the user to run it." in simulator.requests[1].body
