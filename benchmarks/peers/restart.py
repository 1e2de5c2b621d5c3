"""Whether the first request of a new process extends the last one of the process before it."""

from __future__ import annotations

import math
import subprocess
from typing import TYPE_CHECKING

from benchmarks.claims import Claim
from benchmarks.loop_measure import RunFailed, take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TURNS = 60
"""More messages than a window of 40 keeps, which is what strands comes with."""
_SECONDS = 120


def restart(
    name: str,
    commands: Sequence[Sequence[str]],
    env: Mapping[str, str],
    place: Path,
    port: int,
    bound: float | None,
) -> Claim:
    """Run both commands, one after the other, on one script of the provider, and compare.

    The figure is the bytes of the last request before the restart that are no prefix of the first one
    after it; bytes that close a body cannot be one. A process that fails makes a claim that is missed,
    with no figure; where `bound` is None it is one without a verdict.
    """
    try:
        before, after = _requests(name, commands, env, place, port)
    except RunFailed as problem:
        return Claim(f"peers.restart.{name}", math.nan, bound, note=str(problem))
    note = f"of {before['size']:,} bytes, after {TURNS} turns and a new process"
    return Claim(f"peers.restart.{name}", after["lost"], bound, note=note)


def _requests(
    name: str,
    commands: Sequence[Sequence[str]],
    env: Mapping[str, str],
    place: Path,
    port: int,
) -> list[dict[str, int]]:
    """The last request before the restart and the first after it. Raises RunFailed."""
    for command in commands:
        try:
            subprocess.run(
                command, env=env, cwd=place, capture_output=True, timeout=_SECONDS, check=True
            )
        except subprocess.CalledProcessError as problem:
            said = (problem.stderr or problem.stdout).decode(errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "")
            raise RunFailed(f"exit status {problem.returncode}: {last}") from None
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise RunFailed(str(problem)) from None
    seen = take(port, f"restart-{name}")
    if len(seen) != TURNS + 2:
        raise RunFailed(f"{len(seen)} requests instead of {TURNS + 2}")
    return seen[-2:]
