"""Time for the simulator: a clock that the test moves, and the machine's own."""

from __future__ import annotations

import time
from typing import Protocol


class Timer(Protocol):
    """What the simulator asks of a clock."""

    def now(self) -> float:
        """Seconds since some fixed start."""


class Clock:
    """A clock that stands still until the test moves it. Starts at 0.0 seconds."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds on this clock."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock on.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError("a clock cannot be advanced by a negative time; use set()")
        self._now += seconds

    def set(self, seconds: float) -> None:
        """Put the clock to ``seconds``; backwards is allowed (recorded sessions do it)."""
        self._now = seconds


class RealClock:
    """Seconds of the machine's monotonic clock since the object was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def now(self) -> float:
        """Seconds since this clock was made."""
        return time.monotonic() - self._start
