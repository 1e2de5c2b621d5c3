"""What a benchmark claims, and how a claim is printed.

A figure is a ratio to something measured beside it in the same run, or a count of bytes: never
milliseconds, which say more about the machine than about the code.
"""

from collections.abc import Sequence
from statistics import median
from typing import Literal

from attrs import frozen


@frozen
class Claim:
    """One measured figure and the bound it must keep.

    name: dotted, `module.what`, stable: people compare runs by it.
    ratio: the measured figure.
    bound: what it must keep; None makes the figure informational, which never fails a run.
    better: "le" when the figure must not exceed the bound, "ge" when it must reach it.
    note: what was divided by what, with the raw figures.
    """

    name: str
    ratio: float
    bound: float | None = None
    better: Literal["le", "ge"] = "le"
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the bound holds; an informational figure always does."""
        if self.bound is None:
            return True
        return self.ratio <= self.bound if self.better == "le" else self.ratio >= self.bound

    @property
    def verdict(self) -> str:
        """The last column: `ok`, `MISSED`, or `info` for a figure without a bound."""
        if self.bound is None:
            return "info"
        return "ok" if self.ok else "MISSED"


def line(claim: Claim) -> str:
    """One printed line: name, figure, bound, verdict, note."""
    sign = {"le": "<=", "ge": ">="}[claim.better]
    bound = "-" if claim.bound is None else f"{sign} {claim.bound:g}"
    head = f"{claim.name:<44} {claim.ratio:>10.4g}  {bound:<10} {claim.verdict:<7}"
    return f"{head} {claim.note}".rstrip()


def report(claims: Sequence[Claim]) -> None:
    """Print each claim as a line to standard output."""
    for claim in claims:
        print(line(claim), flush=True)


def middle(values: Sequence[float]) -> float:
    """The median of a non-empty list of figures."""
    return median(values)
