"""The percentage trigger: when a context has grown enough to be compacted before it must be.

The clock is that of the messages, so that a session that is played again decides the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import define, frozen

if TYPE_CHECKING:
    from .settings import Trigger

Why: TypeAlias = Literal[
    "off",
    "in_flight",
    "unknown",
    "baseline",
    "below",
    "cooldown",
    "growth",
    "first",
    "crossed",
    "grown",
]


@frozen
class Verdict:
    """What a sample decided, by which rule; `wait` is what is left of the cool-down, in ms."""

    why: Why
    wait: int = 0

    @property
    def fire(self) -> bool:
        """Whether to compact now."""
        return self.why in ("first", "crossed", "grown")


@define
class PercentageTrigger:
    """What the trigger remembers of one session.

    `baseline` is the size that growth is counted from; `owed` says that the threshold was crossed
    during the cool-down, so that it fires when that ends.
    """

    in_flight: bool = False
    above: bool = False
    owed: bool = False
    wants_baseline: bool = False
    baseline: int | None = None
    ended: int | None = None

    def sample(self, rule: Trigger, tokens: int, window: int, now: int) -> Verdict:
        """Look at a context of so many tokens; `window` in tokens, `now` in Unix milliseconds."""
        if not rule.enabled:
            return Verdict("off")
        if self.in_flight:
            # What was asked for happens before the next request: by now it has failed.
            self.refused(now)
            return Verdict("in_flight")
        if tokens <= 0 or window <= 0:
            return Verdict("unknown")
        over = tokens * 100 >= rule.percent * window
        if self.wants_baseline:
            self.wants_baseline, self.above, self.owed = False, over, False
            self.baseline = tokens if over else None
            return Verdict("baseline")
        if not over:
            self.above, self.owed, self.baseline = False, False, None
            return Verdict("below")
        crossed, first = not self.above, self.ended is None and not self.above
        self.above = True
        wait = 0 if self.ended is None else self.ended + rule.cooldown * 1_000 - now
        if wait > 0:
            self.owed = self.owed or crossed
            return Verdict("cooldown", wait)
        if crossed or self.owed:
            self.owed = False
            return self._fire("first" if first else "crossed", tokens)
        if self.baseline is not None and tokens - self.baseline < rule.growth:
            return Verdict("growth")
        return self._fire("grown", tokens)

    def _fire(self, why: Why, tokens: int) -> Verdict:
        self.in_flight, self.baseline = True, tokens
        return Verdict(why)

    def compacted(self, now: int) -> None:
        """A compaction, whoever asked for it, is done; the next sample is where growth counts from."""
        self.in_flight, self.wants_baseline, self.ended = False, True, now

    def refused(self, now: int) -> None:
        """What was asked for did not happen; the cool-down runs all the same, so nothing loops."""
        self.in_flight, self.ended = False, now
