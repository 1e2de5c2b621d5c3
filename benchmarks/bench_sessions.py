"""What opening, compacting and searching long sessions costs.

Opening is set beside a loop that parses the same lines and keeps them, each in a process of its own;
compacting beside one parse of the session's lines. `FULL=1` in the environment searches a thousand
sessions of 2 MB, which takes some minutes and 6 GB of disk; without it there are fifty.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from textwrap import dedent
from time import perf_counter

from benchmarks.claims import Claim
from unipi.session import Session
from unipi.session.listing import new_session_path
from unipi_hookspecs import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

_MB = 1_000_000
_RESUME = 100 * _MB
_COMPACTED_EVERY = 10 * _MB
_COMPACT = 10 * _MB
_RECALL = 2 * _MB
_LIMIT = 0.050
"""Seconds in which nineteen of twenty searches are to be answered."""


def run(quick: bool) -> list[Claim]:
    """Measure; `quick` opens a fifth of the size and searches ten sessions."""
    with TemporaryDirectory(dir=Path(__file__).parent, prefix=".sessions-") as name:
        folder = Path(name)
        size = _RESUME // 5 if quick else _RESUME
        claims = _resume(folder, size, compacted=False)
        claims += _resume(folder, size, compacted=True)
        claims += [_compaction(folder)]
        count = 1_000 if os.environ.get("FULL") else 10 if quick else 50
        return [*claims, *_recall(folder, count)]


def write_session(path: Path, size: int, seed: int = 0, compacted_every: int = 0) -> int:
    """A session of about `size` bytes: requests, answers with calls, results, 2 KB a line.

    (A recorded session of 1,003 lines has 2.4 KB a line.) Where `compacted_every` is given a compaction stands
    behind so many bytes, and keeps the newest twenty rounds. Returns the bytes of the longest
    stretch that is live at once.
    """
    chance = random.Random(seed)
    words = [f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{n:03}" for n in range(900)]
    live_from, most, number, starts = 0, 0, 0, []
    with Session.create(path, cwd=path.parent) as session:
        while (at := path.stat().st_size) < size:
            if number % 20 == 0:
                if compacted_every and at - live_from > compacted_every:
                    most = max(most, at - live_from)
                    first, live_from = starts[-1]
                    session.append("compaction", {"summary": "S", "firstKeptEntryId": first})
                text = f"Request {number}: never rename {words[number % 900]}."
                starts.append((session.append_message(UserMessage(text, 1)).id, at))
            file = f"src/{words[number * 7 % 900]}/{words[number * 31 % 900]}.py"
            call = ToolCall(f"c{number}", ("read", "bash")[number % 2], {"path": file})
            said = Text(f"We decided on {' '.join(chance.sample(words, 6))}.\nNext: look at it.")
            usage = Usage(100, 20, 3_000, 0)
            session.append_message(AssistantMessage((said, call), usage=usage, timestamp=1))
            lines = [f"{n}: {words[n * number % 900]} = {n * seed + number}\n" for n in range(220)]
            result = (Text("".join(lines)),)
            session.append_message(ToolResultMessage(call.id, call.name, result, timestamp=1))
            number += 1
        return max(most, path.stat().st_size - live_from)


_OPEN = """
    import sys, time
    from pathlib import Path

    def peak():
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    path = Path(sys.argv[2])
    if sys.argv[1] == "ours":
        from unipi.session import Session
        Session.create(None, cwd=Path("/")).context()
        before, begin = peak(), time.perf_counter()
        session = Session.open(path, read_only=True)
        kept = session.context()
    else:
        import orjson
        before, begin = peak(), time.perf_counter()
        with path.open("rb") as file:
            kept = [orjson.loads(line) for line in file]
    print(time.perf_counter() - begin, peak() - before)
"""


def _resume(folder: Path, size: int, *, compacted: bool) -> list[Claim]:
    path = folder / f"resume-{compacted}.jsonl"
    live = write_session(path, size, compacted_every=_COMPACTED_EVERY if compacted else 0)
    took: dict[str, list[float]] = {"ours": [], "orjson": []}
    peaks: list[float] = []
    for _ in range(3):
        for who, times in took.items():
            command = [sys.executable, "-c", dedent(_OPEN), who, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            seconds, peak = map(float, done.stdout.split())
            times.append(seconds)
            if who == "ours":
                peaks.append(peak)
    path.unlink()
    ours, theirs, peak = median(took["ours"]), median(took["orjson"]), median(peaks)
    what = "compacted" if compacted else "whole"
    note = f"{ours:.2f} s to open {size / _MB:.0f} MB / {theirs:.2f} s to parse its lines"
    memory = f"{peak / _MB:.1f} MB more at the peak / {live / _MB:.1f} MB that are live"
    return [
        Claim(f"sessions.resume.{what}", ours / theirs, 2.0, note=note),
        # Of every line that was cut off id, parent and place are kept: a fifth of a kilobyte.
        Claim(
            f"sessions.resume_memory.{what}", peak / live, None if compacted else 1.5, note=memory
        ),
    ]


def _compaction(folder: Path) -> Claim:
    from unipi_compactor.settings import Options
    from unipi_compactor.summary import summarise

    path = folder / "compact.jsonl"
    write_session(path, _COMPACT)
    lines = path.read_text(encoding="utf-8").splitlines()
    parse, make = [], []
    with Session.open(path, read_only=True) as session:
        branch = session.branch()
        for _ in range(5):
            begin = perf_counter()
            for line in lines:
                json.loads(line)
            parse.append(perf_counter() - begin)
            begin = perf_counter()
            summarise(branch, "", Options())
            make.append(perf_counter() - begin)
    path.unlink()
    note = (
        f"{median(make):.2f} s a summary of 10 MB / {median(parse):.2f} s json.loads of its lines"
    )
    return Claim("sessions.compaction", median(make) / median(parse), 2.0, note=note)


def _recall(folder: Path, count: int) -> list[Claim]:
    from unipi_compactor.recall import Query, Recall

    os.environ["UNIPI_HOME"] = str(folder / "home")
    cwd = folder / "project"
    cwd.mkdir()
    begin = perf_counter()
    for seed in range(count):
        path, _ = new_session_path(cwd)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_session(path, _RECALL, seed)
    print(f"  {count} sessions written in {perf_counter() - begin:.0f} s", file=sys.stderr)
    with Session.open(path, read_only=True) as session:
        recall = Recall(session.id, str(session.cwd), path)
        begin = perf_counter()
        while "not indexed yet" in recall.ask(Query("warm up"), (), frozenset()):
            pass
        built = perf_counter() - begin
        took = []
        for query in _queries():
            begin = perf_counter()
            recall.ask(Query(query), (), frozenset())
            took.append(perf_counter() - begin)
    p95 = quantiles(took, n=20)[-1]
    size = count * _RECALL / _MB
    note = f"{p95 * 1e3:.1f} ms, nineteen of twenty in {count} sessions / 50 ms"
    speed = f"{built:.1f} s to index {size:.0f} MB, MB a second"
    return [
        Claim("sessions.recall.p95", p95 / _LIMIT, 1.0, note=note),
        Claim("sessions.recall.index", size / built, None, note=speed),
    ]


def _queries() -> list[str]:
    """A hundred, of one to four words: names of files, words of answers, and plain English."""
    chance = random.Random(5)
    names = [f"{c}{v}{n:03}" for c in "bdfgklmnprst" for v in "aeiou" for n in range(0, 900, 7)]
    plain = ["decided", "rename", "never", "next", "request", "look"]
    return [
        " ".join([*chance.sample(names, n % 3 + 1), *chance.sample(plain, n % 2)])
        for n in range(100)
    ]
