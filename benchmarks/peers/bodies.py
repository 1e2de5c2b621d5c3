"""What the peers that read request bodies say of pairs of bodies, in their own environment.

`bodies.py FILE`: FILE is a JSON list of `[before, after]`; printed is one list of verdicts a peer, each
true where it calls the second body a break of the first one's prefix.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def prefixguard(before: Any, after: Any) -> bool:
    """prefixguard's runtime guard, which takes the parts of a request."""
    from prefixguard import PrefixGuard

    guard = PrefixGuard(static_lint=False)
    guard.observe(before["messages"], system=before["system"], tools=before["tools"])
    found = guard.observe(after["messages"], system=after["system"], tools=after["tools"])
    return bool(found.broken)


def promptcachelint(before: Any, after: Any) -> bool:
    """promptcachelint's analysis of two recorded requests of one session."""
    import promptcachelint as peer

    recorder = peer.Recorder()
    for body in (before, after):
        recorder.record("anthropic", body, session_id="s")
    found = {finding.code for finding in peer.analyze(recorder.records).findings}
    breaks = {"CL001", "CL002", "CL003"}  # prefix broken, tools changed, a top-level parameter
    return not breaks.isdisjoint(found)


def cachelint(before: Any, after: Any) -> bool:
    """cachelint's command `diff`, which reads files."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("before.json", "after.json")]
        for file, body in zip(files, (before, after), strict=True):
            file.write_text(json.dumps(body))
        command = Path(sys.executable).with_name("cachelint")
        done = subprocess.run(
            [str(command), "diff", *map(str, files), "--provider", "anthropic"],
            capture_output=True,
            text=True,
            check=False,
        )
    return "diverged" in done.stdout


PEERS = {each.__name__: each for each in (prefixguard, promptcachelint, cachelint)}


if __name__ == "__main__":
    pairs = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({name: [judge(*pair) for pair in pairs] for name, judge in PEERS.items()}))
