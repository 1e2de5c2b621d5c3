"""What a durable entry costs, and what memory a session takes.

An entry of 2 KB is appended and put on disk; beside it, turn by turn, a line of the same length is
written and put on disk by the two system calls that nobody can do without. Both files lie in one
folder of the checkout, as a temporary folder may have no disk below it. Memory is measured in a
process of its own that opens a session of 20 MB and builds its context.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import dedent
from time import perf_counter

from benchmarks.claims import Claim
from unipi.session import Session
from unipi_hookspecs import AssistantMessage, Text, UserMessage

_SIZE = 2_048
_WARM_UP = 20
_SESSION_BYTES = 20_000_000
_fdatasync = getattr(os, "fdatasync", os.fsync)


def run(quick: bool) -> list[Claim]:
    """Measure appends in turns with bare writes, then memory; `quick` takes fewer turns."""
    with TemporaryDirectory(dir=Path(__file__).parent, prefix=".append-") as name:
        folder = Path(name)
        return [_append(folder, 200 if quick else 600), _memory(folder)]


def _append(folder: Path, turns: int) -> Claim:
    session = Session.create(folder / "session.jsonl", cwd=folder)
    bare = os.open(folder / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ours: list[float] = []
    theirs: list[float] = []
    text = "x" * _SIZE
    for turn in range(turns + _WARM_UP):
        size = _size(session)
        begin = perf_counter()
        session.append_message(UserMessage(text, 1 + turn))
        session.sync()
        ours.append(perf_counter() - begin)
        line = b"x" * (_size(session) - size)
        begin = perf_counter()
        os.write(bare, line)
        _fdatasync(bare)
        theirs.append(perf_counter() - begin)
    os.close(bare)
    session.close()
    entry, floor = median(ours[_WARM_UP:]), median(theirs[_WARM_UP:])
    note = f"{entry * 1e6:.0f} µs an entry of 2 KB / {floor * 1e6:.0f} µs write + fdatasync"
    return Claim("append.durable_over_bare", entry / floor, 1.3, note=note)


def _size(session: Session) -> int:
    assert session.path is not None
    return session.path.stat().st_size


_OPEN = """
    import resource, sys
    from pathlib import Path
    from unipi.session import Session

    def peak():
        try:  # a process starts with its parent's figure in ru_maxrss, but not here
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        except OSError:
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    Session.create(None, cwd=Path("/")).context()
    before = peak()
    with Session.open(Path(sys.argv[1])) as session:
        context = session.context()
        print(peak() - before, len(context))
"""


def _memory(folder: Path) -> Claim:
    path = folder / "large.jsonl"
    text = "word " * (_SIZE // 5)
    with Session.create(path, cwd=folder) as session:
        while _size(session) < _SESSION_BYTES:
            session.append_message(UserMessage(text, 1))
            session.append_message(AssistantMessage((Text(text),), timestamp=1))
        size, expected = _size(session), len(session.entries())
    command = [sys.executable, "-c", dedent(_OPEN), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    peak, messages = (int(word) for word in done.stdout.split())
    assert messages == expected
    note = f"{peak / 1e6:.1f} MB more at the peak / {size / 1e6:.1f} MB of session, opened"
    return Claim("append.peak_memory_over_session", peak / size, note=note)
