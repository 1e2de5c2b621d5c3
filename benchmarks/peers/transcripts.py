"""What the peers that read Claude Code's transcripts find in them: rebuilds, with their tokens.

Each is asked by its own command, in its own environment and with an empty home.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

from attrs import frozen

from benchmarks.peers import envs
from benchmarks.peers.match import Rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_COLD = {"cold_start", "subagent_cold_start"}
_SMALLEST = 5_000
"""Tokens of a miss that is asked for: what the last turn added is written each time."""


_UNCACHED = 4
"""Tokens of each made prompt that no cache takes; ours count them as lost, some peers do not."""
_THOUSANDS = 500 + _UNCACHED
"""How far a figure may lie from one that is printed in thousands."""


@frozen
class Reader:
    """A peer: what asks it, and by how many tokens it may differ from ours and mean the same."""

    read: Callable[[Path, Path], list[Rebuild]]
    within: int


def _said(command: Sequence[str], home: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1"}
    done = subprocess.run(
        list(command), env=env, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


def cachemiss(claude: Path, home: Path) -> list[Rebuild]:
    """`cachemiss ledger --json`."""
    command = envs.environment("cachemiss").command("cachemiss")
    root = str(claude / "projects")
    said = _said(
        [command, "--root", root, "ledger", "--since", "all", "--json", "--limit", "100"], home
    )
    return [
        Rebuild(row["session_id"], row["rebuilt_tokens"]) for row in json.loads(said)["rebuilds"]
    ]


def claude_cache_audit(claude: Path, home: Path) -> list[Rebuild]:
    """`claude-cache-audit rebuilds`, which prints a table with thousands of tokens."""
    command = envs.environment("claude-cache-audit").command("claude-cache-audit")
    said = _said([command, "rebuilds", "--top", "100", "--all", "--config-dir", str(claude)], home)
    found = []
    for line in said.splitlines():
        match = re.match(r"\s+\d\d-\d\d \d\d:\d\d\s+\S+\s+(\S+)\s+(\S+)\s.*?(\d+)K\s+\$", line)
        if match:
            found.append(Rebuild(match[1], int(match[3]) * 1_000))
    return found


def kvleak(claude: Path, home: Path) -> list[Rebuild]:
    """`kvleak audit --json`, without the first requests of conversations."""
    command = envs.environment("kvleak").command("kvleak")
    options = ("--json", "--min-miss", str(_SMALLEST), "--top-misses", "100")
    said = _said([command, "audit", "--path", str(claude / "projects"), *options], home)
    return [
        Rebuild(row["session_id"], row["rebuilt"])
        for row in json.loads(said)["top_misses"]
        if row["cause"] not in _COLD
    ]


def replay_doctor(claude: Path, home: Path) -> list[Rebuild]:
    """`replay-doctor diff`, a text with thousands of tokens, for each session."""
    command = envs.environment("replay-doctor").command("replay-doctor")
    found = []
    session = ""
    for line in _said([command, "diff", str(claude / "projects")], home).splitlines():
        if match := re.match(r"Session (\S+)", line):
            session = match[1]
        if match := re.search(r"expected, ([\d.]+)k re-billed", line):
            found.append(Rebuild(session, round(float(match[1]) * 1_000)))
    return found


PEERS: dict[str, Reader] = {
    "cachemiss": Reader(cachemiss, _UNCACHED),
    "claude-cache-audit": Reader(claude_cache_audit, _THOUSANDS),
    "kvleak": Reader(kvleak, 0),
    "replay-doctor": Reader(replay_doctor, _THOUSANDS),
}
