"""Our audit beside the tools that look for the same things: in request bodies, and in transcripts.

The pairs of bodies are those of the peers' own matrix, which lies beside the checkout in
`../shared/diagpeers`; without it that part is skipped, saying so. The transcripts are made by the
script that the extension's tests use, with rebuilds planted in them.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.claims import Claim
from benchmarks.peers import envs
from benchmarks.peers.transcripts import PEERS as READERS, Rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROOT = Path(__file__).parents[2]
_MATRIX = _ROOT.parent / "shared" / "diagpeers" / "faults.py"
_MAKER = _ROOT / "extensions" / "diagnostics" / "tests" / "test_cache_claude.py"
_BREAKS = ("envelope_changed", "payload_shape_changed", "history_rewritten")
_ROUNDED = 1_000
"""Tokens by which two figures may differ and be the same: two of the tools print thousands."""


def run(say: Callable[[str], None]) -> list[Claim]:
    """Print what each tool finds, and judge what we claim of ours."""
    with tempfile.TemporaryDirectory(prefix="unipi-peers-") as folder:
        return [*_bodies(Path(folder), say), *_transcripts(Path(folder), say)]


def _bodies(folder: Path, say: Callable[[str], None]) -> list[Claim]:
    if not _MATRIX.is_file():
        say("pairs of request bodies: skipped, the peers' matrix (shared/diagpeers) is not here")
        return []
    cases = runpy.run_path(str(_MATRIX))["CASES"]
    pairs = [(before, after) for _, _, _, before, after in cases]
    verdicts = {"unipi cache audit": _our_bodies(folder, cases)}
    file = folder / "pairs.json"
    file.write_text(json.dumps(pairs))
    try:
        env = envs.environment("bodies")
        script = str(Path(__file__).with_name("bodies.py"))
        done = subprocess.run(
            [env.python, script, str(file)], capture_output=True, text=True, check=True
        )
        verdicts |= json.loads(done.stdout)
    except (envs.NotInstalled, subprocess.CalledProcessError) as problem:
        say(f"peers that read bodies: left out: {problem}")
    broken = [real for _, real, _, _, _ in cases]
    for name, found in verdicts.items():
        hits = sum(said and real for said, real in zip(found, broken, strict=True))
        alarms = sum(said and not real for said, real in zip(found, broken, strict=True))
        say(f"{name:24}{hits:3} of {sum(broken)} breaks, {alarms} of {broken.count(False)} alarms")
    ours = verdicts["unipi cache audit"]
    right = sum(said and real for said, real in zip(ours, broken, strict=True))
    false = sum(said and not real for said, real in zip(ours, broken, strict=True))
    note = f"breaks with the right place, of {sum(broken)} in the peers' own matrix"
    return [
        Claim("diagnose.bodies.found", right, sum(broken), "ge", note),
        Claim("diagnose.bodies.false_alarms", false, 0, note="harmless changes called a break"),
    ]


def _our_bodies(folder: Path, cases: Sequence[tuple[Any, ...]]) -> list[bool]:
    """Whether our command calls each pair a break; a break at the wrong place does not count."""
    log = folder / "bodies.jsonl"
    with log.open("w") as file:
        for number, (_, _, _, before, after) in enumerate(cases):
            for body in (before, after):
                row = {"session": str(number), "body": json.dumps(body)}
                file.write(json.dumps(row) + "\n")
    rows = _ours("audit", ["--requests", str(log)])["rows"]
    verdicts = []
    for (_, real, where, _, _), row in zip(cases, rows[1::2], strict=True):
        root = row["location"].split(".")[0]
        there = where in (root, root.split("[")[0])
        if where == "envelope":
            there = root.split("[")[0] not in ("tools", "system", "messages")
        verdicts.append(row["transition"] in _BREAKS and (there or not real))
    return verdicts


def _transcripts(folder: Path, say: Callable[[str], None]) -> list[Claim]:
    claude, home = folder / "claude", folder / "home"
    home.mkdir()
    subprocess.run(
        [sys.executable, str(_MAKER), str(claude)], capture_output=True, text=True, check=True
    )
    ours = [
        Rebuild(file.stem, row["tokens_lost"])
        for file in sorted(claude.rglob("*.jsonl"))
        for row in _ours("report", [str(file)])["rows"]
        if row["cause"] is not None
    ]
    say(f"{'unipi cache audit':24}{len(ours):3} rebuilds")
    missed: list[str] = []
    for name, read in READERS.items():
        try:
            theirs = read(claude, home)
        except (envs.NotInstalled, OSError, ValueError, subprocess.SubprocessError) as problem:
            say(f"{name}: left out: {problem}")
            continue
        alone = _unmatched(theirs, ours)
        said = ", ".join(f"{each.tokens:,} in {each.session}" for each in alone) or "none"
        say(f"{name:24}{len(theirs):3} rebuilds; not in ours by tokens: {said}")
        missed += [
            f"{name}: {each.tokens:,} in {each.session}"
            for each in alone
            if not _explained(each, say)
        ]
    note = "; ".join(missed) or "every rebuild that a peer finds is in ours, or explained"
    return [Claim("diagnose.transcripts.missed", len(missed), 0, note=note)]


def _unmatched(theirs: Sequence[Rebuild], ours: Sequence[Rebuild]) -> list[Rebuild]:
    left = [each.tokens for each in ours]
    alone = []
    for each in theirs:
        near = [tokens for tokens in left if abs(tokens - each.tokens) <= _ROUNDED]
        if near:
            left.remove(min(near, key=lambda tokens: abs(tokens - each.tokens)))
        else:
            alone.append(each)
    return alone


def _explained(rebuild: Rebuild, say: Callable[[str], None]) -> bool:
    """The two differences that are known, and why ours is right."""
    if abs(rebuild.tokens - 30_004) <= _ROUNDED:
        say(
            "    30,004: the first request of a sub-agent, which had no prompt before it to rebuild"
        )
        return True
    if abs(rebuild.tokens - 9_004) <= _ROUNDED:
        say("    9,004: a compaction by what was sent anew; ours lists the 54,304 that were lost,")
        say("    and the 9,004 beside them as paid again")
        return True
    return False


def _ours(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "unipi", "cache", command, *arguments, "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document
