"""Run one client of the loop benchmark, and turn what the provider saw into figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from time import monotonic, monotonic_ns, sleep
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_LIMIT_SECONDS = 240.0
_POLL_SECONDS = 0.02
_WARM_TURNS = 20
_BLOCK = 5


@frozen
class Run:
    """One client process.

    gaps: milliseconds of each turn, from the last byte of an answer to the last of the request
        that follows; `gaps[0]` belongs to the first tool call.
    lost: bytes of each request that are not a prefix of the one after it.
    startup: seconds from the start of the process to the end of its first request.
    cpu: seconds of processor time, start-up included.
    memory: peak resident bytes.
    """

    gaps: Sequence[float]
    lost: Sequence[int]
    startup: float
    cpu: float
    memory: float

    def at(self, turn: int) -> float:
        """Milliseconds at a turn: the median of five around it."""
        return float(median(self.gaps[max(0, turn - 3) : turn + 2]))


class RunFailed(RuntimeError):  # noqa: N818 - says what happened
    """The client did not do its part; the message holds what it wrote."""


def pinned(cpu: int, command: Sequence[str]) -> list[str]:
    """The command held to one processor, where `taskset` and a second one are there."""
    if shutil.which("taskset") and (os.cpu_count() or 1) > 1:
        return ["taskset", "-c", str(cpu), *command]
    return list(command)


@contextmanager
def provider(root: Path) -> Iterator[int]:
    """The provider's process, on processor 0; gives its port."""
    process = subprocess.Popen(
        pinned(0, [sys.executable, "-m", "benchmarks.loop_provider"]),
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def measure(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    port: int,
    name: str,
    turns: int,
    *,
    pin: bool = True,
) -> Run:
    """Run a client to its end, on processor 1 unless `pin` is False.

    Raises RunFailed when it fails, hangs, or does not send `turns` + 1 requests.
    """
    log = cwd / f"{name}.log"
    with log.open("wb") as output:
        begin = monotonic_ns()
        process = subprocess.Popen(
            pinned(1, command) if pin else list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        status, cpu, memory = _wait(process)
    said = log.read_text(errors="replace")[-2000:]
    if status != 0:
        raise RunFailed(f"{name}: exit status {status}\n{said}")
    seen = take(port, name)
    if len(seen) != turns + 1:
        raise RunFailed(f"{name}: {len(seen)} requests instead of {turns + 1}\n{said}")
    return Run(
        gaps=[(after["complete"] - before["answered"]) / 1e6 for before, after in pairwise(seen)],
        lost=[row["lost"] for row in seen[1:]],
        startup=(seen[0]["complete"] - begin) / 1e9,
        cpu=cpu,
        memory=memory,
    )


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    """Exit status, processor seconds, peak resident bytes.

    The peak is read from /proc while it runs: the kernel's `ru_maxrss` also counts the size that
    the parent had before the exec. It stands in where there is no /proc.
    """
    peak, end = 0.0, monotonic() + _LIMIT_SECONDS
    while True:
        peak = _high_water(process.pid) or peak
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            used = usage.ru_utime + usage.ru_stime
            return process.returncode, used, peak or usage.ru_maxrss * 1024.0
        if monotonic() > end:
            process.kill()
            process.wait()
            raise RunFailed(f"no end after {_LIMIT_SECONDS:.0f} s")
        sleep(_POLL_SECONDS)


def _high_water(pid: int) -> float | None:
    try:
        with open(f"/proc/{pid}/status") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024.0
    except OSError:
        pass
    return None


def take(port: int, name: str) -> list[dict[str, int]]:
    """What the provider saw of a session, request by request; it forgets it."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/take/{name}", b"", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        rows: list[dict[str, int]] = json.load(answer)
    return rows


def slope(runs: Sequence[Run]) -> float:
    """Microseconds that each turn costs more than the one before it.

    Theil-Sen over medians of five turns, from turn 20 on, of each turn's median over the runs.
    """
    turns = [median(values) for values in zip(*(run.gaps for run in runs), strict=True)]
    starts = range(_WARM_TURNS, len(turns) - _BLOCK + 1, _BLOCK)
    blocks = [(at, median(turns[at : at + _BLOCK])) for at in starts]
    rises = [
        (y2 - y1) / (x2 - x1)
        for number, (x1, y1) in enumerate(blocks)
        for x2, y2 in blocks[number + 1 :]
    ]
    return float(median(rises)) * 1e3
