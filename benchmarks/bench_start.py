"""How fast the command starts, beside a bare interpreter and two well-known Python commands.

`llm` and `datasette` are installed into `benchmarks/.venvs/peers` on the first run; without a
package registry their figures are left out, saying so.
"""

from __future__ import annotations

import compileall
import math
import os
import subprocess
import tempfile
import venv
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import userenv
from benchmarks.claims import Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = Path(__file__).parents[1]
_PEERS = _ROOT / "benchmarks" / ".venvs" / "peers"
_PEER_NAMES = ("llm", "datasette")
_INSTALL_SECONDS = 180
_REPETITIONS = 15
_QUICK_REPETITIONS = 7
_READY = "plugins list"


def run(quick: bool) -> list[Claim]:
    """Measure in turns, so that a slow moment meets every command."""
    for package in ("hookspecs", "host", "extensions"):
        compileall.compile_dir(_ROOT / package, quiet=2)
    interpreter, _ = userenv.python()
    unipi = _unipi(interpreter)
    commands = {
        "python": [interpreter, "-c", "pass"],
        "unipi": [*unipi, "--version"],
        _READY: [*unipi, "plugins", "list", "--json"],
    }
    missing = _install_peers()
    if missing is None:
        for peer in _PEER_NAMES:
            commands[peer] = [str(_PEERS / _SCRIPTS / peer), "--version"]
    with tempfile.TemporaryDirectory(prefix="unipi-bench-") as home:
        env = {**os.environ, "UNIPI_HOME": home, "HOME": home}
        times = _times(commands, env, _QUICK_REPETITIONS if quick else _REPETITIONS)
    claims = [_ratio("start.version", times, "unipi", "python", 3)]
    for peer in _PEER_NAMES:
        name = f"start.version_to_{peer}"
        if missing is None:
            claims.append(_ratio(name, times, "unipi", peer, 1))
        else:
            claims.append(Claim(name, math.nan, note=f"skipped: {missing}"))
    return [*claims, _ratio("start.ready", times, _READY, "python", None)]


_SCRIPTS = "Scripts" if os.name == "nt" else "bin"


def _unipi(interpreter: str) -> list[str]:
    """The installed command next to an interpreter, else the module."""
    script = Path(interpreter).parent / "unipi"
    return [str(script)] if script.exists() else [interpreter, "-m", "unipi"]


def _install_peers() -> str | None:
    """Install what is missing; None if the peers are there, else why they are not."""
    if all((_PEERS / _SCRIPTS / peer).exists() for peer in _PEER_NAMES):
        return None
    try:
        venv.create(_PEERS, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        return f"no virtual environment could be made: {problem}"
    pip = [str(_PEERS / _SCRIPTS / "python"), "-m", "pip", "install", "--quiet", *_PEER_NAMES]
    try:
        done = subprocess.run(pip, capture_output=True, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return f"pip took longer than {_INSTALL_SECONDS} s to install llm and datasette"
    return None if done.returncode == 0 else "pip could not install llm and datasette"


def _times(
    commands: Mapping[str, Sequence[str]], env: Mapping[str, str], repetitions: int
) -> dict[str, float]:
    """The median seconds of each command; a first round warms the caches and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(repetitions + 1):
        for name, command in commands.items():
            begin = perf_counter()
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
            if round_:
                seconds[name].append(perf_counter() - begin)
    return {name: median(values) for name, values in seconds.items()}


def _ratio(
    name: str, times: Mapping[str, float], ours: str, other: str, bound: float | None
) -> Claim:
    note = f"{ours} {times[ours] * 1e3:.0f} ms / {other} {times[other] * 1e3:.0f} ms"
    return Claim(name, times[ours] / times[other], bound, note=note)
