"""Run the benchmarks: `python -m benchmarks [--json] [--only NAME] [--quick]`.

Each line is a figure, its bound and whether it holds. Exit status 1 if a bound is missed.
"""

import argparse
import json
import math
import sys
from importlib import import_module

from attrs import asdict

from benchmarks.claims import Claim, line

_MODULES = ("build", "observer", "dispatch", "append", "sessions", "start", "loop", "engine")


def main() -> int:
    """Run what was asked for and print its claims; 1 if a bound is missed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, same bounds")
    parser.add_argument(
        "--only", action="append", choices=_MODULES, help="one benchmark; may be repeated"
    )
    options = parser.parse_args()
    claims: list[Claim] = []
    for name in options.only or _MODULES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found: list[Claim] = import_module(f"benchmarks.bench_{name}").run(options.quick)
        claims += found
        if not options.json:
            for claim in found:
                print(line(claim), flush=True)
    if options.json:
        print(json.dumps([_data(claim) for claim in claims], indent=1))
    missed = [claim.name for claim in claims if not claim.ok]
    print(f"{len(claims)} figures, {len(missed)} missed", *missed, file=sys.stderr)
    return 1 if missed else 0


def _data(claim: Claim) -> dict[str, object]:
    ratio = None if math.isnan(claim.ratio) else claim.ratio
    return {**asdict(claim), "ratio": ratio, "ok": claim.ok}


if __name__ == "__main__":
    sys.exit(main())
