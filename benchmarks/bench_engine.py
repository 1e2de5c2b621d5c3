"""Sessions of 200 turns on the real engine, through each wire API: does any cached token get lost?

Counted in tokens as the engine reports them, so the figures are the same on every machine. Without
the `local` extra there is nothing to measure, and the benchmark says so.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from benchmarks.claims import Claim
from benchmarks.engine_session import TURNS_A_PROMPT, Played, play, served
from unipi.providers.apis import APIS
from unipi.sim.engine import engine_available

_TURNS = 200
_QUICK_TURNS = 60


def run(quick: bool) -> list[Claim]:
    """Measure; `quick` plays 60 turns instead of 200."""
    if reason := engine_available():
        return [Claim("engine.skipped", 0.0, note=reason)]
    turns = _QUICK_TURNS if quick else _TURNS
    claims: list[Claim] = []
    for api in sorted(APIS):
        with tempfile.TemporaryDirectory(prefix="unipi-bench-") as folder:
            claims += _claims(api, anyio.run(_play, api, turns, Path(folder)))
    return claims


async def _play(api: str, turns: int, folder: Path) -> Played:
    """One session on a fresh engine, with one boundary asked for halfway."""
    halfway = turns // TURNS_A_PROMPT // 2
    async with served(folder) as url:
        return await play(url, api, turns, folder, boundary_after=[halfway])


def _claims(api: str, played: Played) -> list[Claim]:
    name = f"engine.{api}"
    if played.strayed:
        return [Claim(f"{name}.strayed", len(played.strayed), 0, note=played.strayed[0])]
    rows, pairs = played.rows, played.pairs()
    read, sent = sum(row.cached for row in rows), sum(row.prompt for row in rows)
    unrecorded = set(played.lost()) ^ set(played.begun())
    return [
        Claim(
            f"{name}.kept",
            played.share_kept(),
            1.0,
            "ge",
            f"of {len(pairs)} requests in an epoch: read at least the whole prompt before them",
        ),
        Claim(
            f"{name}.exact",
            played.share_exact(),
            1.0,
            "ge",
            "of the same: read that prompt and its answer, less the one token it evaluates again",
        ),
        Claim(
            f"{name}.unrecorded",
            len(unrecorded),
            0,
            "le",
            f"losses the ledger does not name; it names {len(played.boundaries)} boundaries: "
            + ", ".join(b.cause for b in played.boundaries),
        ),
        Claim(
            f"{name}.read",
            read / sent,
            None,
            "ge",
            f"{read:,} of {sent:,} prompt tokens in {len(rows)} requests came from the cache",
        ),
    ]
