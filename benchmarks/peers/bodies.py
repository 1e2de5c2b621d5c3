"""What a peer that reads request bodies says of pairs of bodies, in its own environment.

`bodies.py NAME FILE`: FILE is a JSON list of `[before, after]`; printed is a JSON list, true where the peer
calls the second body a break of the first one's prefix.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def prefixguard(before: Any, after: Any) -> bool:
    """prefixguard's runtime guard, which is given messages, system and tools, and no more of a request."""
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
    """cachelint's first divergence, where it is not what the second body adds at its end.

    Its status is "diverged" for any two bodies that differ, a longer one included, so the place
    decides. Bodies that it will not compare differ in their model: that counts as found.
    """
    import cachelint as peer

    try:
        bodies = [peer.canonicalize_request(body, provider="anthropic") for body in (before, after)]
        first = peer.compare_requests(bodies).first_divergence
    except peer.IncomparableRequestsError:
        return True
    return first is not None and not appended(before, first.path, first.kind)


def appended(before: Any, path: str, kind: str) -> bool:
    """Whether an insertion at this path comes after all that a request of Messages held before."""
    messages = before["messages"]
    last = messages[-1]["content"]
    ends = {f"messages[{len(messages)}]"}
    if isinstance(last, list):
        ends.add(f"messages[{len(messages) - 1}].content[{len(last)}]")
    return kind == "inserted" and path in ends


PEERS = {each.__name__: each for each in (prefixguard, promptcachelint, cachelint)}


if __name__ == "__main__":
    judge = PEERS[sys.argv[1]]
    print(json.dumps([judge(*pair) for pair in json.loads(Path(sys.argv[2]).read_text())]))
