"""What we claim of our loop beside the others', as ratios within one run."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.claims import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from benchmarks.loop_measure import Run

OURS = ("unipi_chat", "unipi_anthropic", "unipi_responses")


def loop_claims(
    runs: Mapping[str, Sequence[Run]], turns: int, frameworks: Collection[str]
) -> list[Claim]:
    """The claims that these runs, by the loop's name, can decide; who is not in them has no line.

    turns: tool calls of each session, the turn whose overhead is compared.
    frameworks: names of the loops that are Python frameworks.
    """
    claims: list[Claim] = []

    def add(what: str, own: str, other: str, bound: float, value: Callable[[Run], float]) -> None:
        if other not in runs:
            return
        mine, theirs = (median(value(run) for run in runs[name]) for name in (own, other))
        note = f"{mine:.3g} / {theirs:.3g}"
        claims.append(Claim(f"peers.{what}.{own}/{other}", mine / theirs, bound, note=note))

    def last(run: Run) -> float:
        return run.at(turns)

    for own in OURS:
        if own not in runs:
            continue
        add("turn10", own, "raw_anthropic", 1.0, lambda run: run.at(10))
        add(f"turn{turns}", own, "floor", 4.0, last)
        add(f"turn{turns}", own, "raw_anthropic", 1 / 4, last)
        add(f"turn{turns}", own, "pi_anthropic", 1 / 2, last)
        for other in runs:
            if other in frameworks:
                add(f"turn{turns}", own, other, 1 / 12, last)
        for other in runs:
            if other not in (*OURS, "floor"):
                add("cpu", own, other, 1 / 3, lambda run: run.cpu)
        add("startup", own, "raw_openai_chat", 1 / 2, lambda run: run.startup)
    return claims


def table_row(name: str, runs: Sequence[Run], turns: int) -> str:
    """One printed line of a loop's figures, the medians over its runs."""

    def middle(values: Sequence[float]) -> float:
        return float(median(values))

    figures = (
        ("turn 10", middle([run.at(10) for run in runs]), "ms"),
        (f"turn {turns}", middle([run.at(turns) for run in runs]), "ms"),
        ("cpu", middle([run.cpu for run in runs]), "s"),
        ("start-up", middle([run.startup for run in runs]), "s"),
        ("memory", middle([run.memory for run in runs]) / 2**20, "MiB"),
        ("bytes lost", middle([max(run.lost) for run in runs]), ""),
    )
    told = "  ".join(f"{what} {value:8.2f} {unit}".rstrip() for what, value, unit in figures)
    return f"{name:24}{told}"
