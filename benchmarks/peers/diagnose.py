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
from benchmarks.peers.bodies import PEERS as JUDGES
from benchmarks.peers.match import Rebuild, explained, unmatched
from benchmarks.peers.transcripts import PEERS as READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROOT = Path(__file__).parents[2]
_MATRIX = _ROOT.parent / "shared" / "diagpeers" / "faults.py"
_MAKER = _ROOT / "extensions" / "diagnostics" / "tests" / "test_cache_claude.py"
_BREAKS = ("envelope_changed", "payload_shape_changed", "history_rewritten")


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
    script = str(Path(__file__).with_name("bodies.py"))
    for name in JUDGES:
        try:
            env = envs.environment(name)
            done = subprocess.run(
                [env.python, script, name, str(file)], capture_output=True, text=True, check=True
            )
            verdicts[f"{name} {env.version(name)}"] = json.loads(done.stdout)
        except envs.NotInstalled as problem:
            say(f"{name}: not installed here: {problem}")
        except subprocess.CalledProcessError as problem:
            last = problem.stderr.strip().splitlines()[-1:]
            say(f"{name}: left out: {' '.join(last) or problem}")
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
        Rebuild(_session(file), row["tokens_lost"])
        for file in sorted(claude.rglob("*.jsonl"))
        for row in _ours("report", [str(file)])["rows"]
        if row["cause"] is not None
    ]
    say(f"{'unipi cache audit':24}{len(ours):3} rebuilds")
    asked = 0
    missed: list[str] = []
    for name, reader in READERS.items():
        try:
            theirs = reader.read(claude, home)
        except envs.NotInstalled as problem:
            say(f"{name}: not installed here: {problem}")
            continue
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
            say(f"{name}: left out: {problem!r}")
            continue
        if not theirs:
            say(f"{name}: left out: no rebuild could be read from what it printed")
            continue
        asked += 1
        told, unknown = explained(unmatched(theirs, ours, reader.within), reader.within)
        say(f"{name:24}{len(theirs):3} rebuilds, {len(told) + len(unknown)} not so in ours")
        for rebuild, why in told:
            say(f"    {rebuild.tokens:,} in {rebuild.session}: {why}")
        missed += [f"{name}: {each.tokens:,} in {each.session}" for each in unknown]
    if not asked:
        return []
    note = "; ".join(missed) or f"rebuilds of {asked} peers that ours lacks without a known reason"
    return [Claim("diagnose.transcripts.missed", len(missed), 0, note=note)]


def _session(file: Path) -> str:
    """The session of a transcript; that of a sub-agent lies in a folder of its session."""
    return file.parents[1].name if file.parent.name == "subagents" else file.stem


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
