"""`python -m benchmarks.peers [loop|diagnose]`: our claims about others, measured beside them.

Environments of the peers are made when they are first wanted. Exit status 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from attrs import asdict

from benchmarks.claims import Claim, line


def main() -> int:
    """Run what was asked for and print its claims; 1 if a bound is missed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("part", nargs="*", choices=("loop", "diagnose"), default=[])
    parser.add_argument("--runs", type=int, default=3, help="repetitions of the loop")
    parser.add_argument("--turns", type=int, default=200, help="calls in each session")
    parser.add_argument("--peers", default="", help="only these, by name, parted by commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one JSON array there too")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    claims: list[Claim] = []
    parts = options.part or ["loop", "diagnose"]
    if "loop" in parts:
        from benchmarks.peers import loop

        only = [name for name in options.peers.split(",") if name]
        if unknown := sorted({*only} - {peer.name for peer in loop.PEERS}):
            parser.error(f"no loop is named {', '.join(unknown)}")
        claims += loop.run(options.runs, options.turns, only, say)
    if "diagnose" in parts:
        from benchmarks.peers import diagnose

        claims += diagnose.run(say)
    for claim in claims:
        print(line(claim))
    if options.json:
        text = json.dumps([_data(claim) for claim in claims], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    missed = [claim.name for claim in claims if not claim.ok]
    print(f"{len(claims)} figures, {len(missed)} missed", *missed, file=sys.stderr)
    return 1 if missed else 0


def _data(claim: Claim) -> dict[str, object]:
    ratio = None if math.isnan(claim.ratio) else claim.ratio
    return {**asdict(claim), "ratio": ratio, "ok": claim.ok}


if __name__ == "__main__":
    sys.exit(main())
