"""What is remembered of each session: its lineages, its boundaries, its usage."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from attrs import Factory, define, field

from .fingerprint import Fingerprinter
from .transition import BREAKS, compare
from .usage import UsageLedger

if TYPE_CHECKING:
    from unipi_hookspecs import Boundary, ProviderRequestSealedEvent

    from .fingerprint import Request
    from .transition import Change

KEPT_BOUNDARIES = 50
"""How many boundaries of a session are remembered one by one; all of them are counted."""


@define
class Lineage:
    """The requests of one purpose on one route (provider and API), each compared to the last.

    `broken` is set by an explicit boundary: the next request then counts as the first of a new
    epoch, and `survived` says whether its bytes extend the old prefix all the same.
    """

    requests: int = 0
    extensions: int = 0
    retries: int = 0
    resent: int = 0
    changes: int = 0
    broken: bool = False
    last: Request | None = None
    change: Change | None = None
    survived: bool | None = None

    def take(self, request: Request, attempt: int) -> Change:
        """Count a request and say what it is after the one before it."""
        structural = compare(self.last, request)
        change = compare(None, request) if self.broken else structural
        self.survived = structural.transition not in BREAKS if self.broken else None
        self.requests += 1
        self.resent += attempt > 0
        self.extensions += change.transition == "prefix_extended"
        self.retries += change.transition == "identical_retry"
        self.changes += change.transition in BREAKS
        self.last, self.change, self.broken = request, change, False
        return change


@define
class BoundarySeen:
    """A boundary of the session.

    `recorded` says that the host counted it, `announced` that its `epoch_boundary` event came.
    """

    cause: str
    owner: str
    recorded: bool = False
    announced: bool = False
    avoidable: bool = False
    tokens_lost: int = 0
    price: float | None = None
    detail: str = ""


@define
class SessionState:
    """All that is kept of one session: digests, counters, names. No payload."""

    fingerprinter: Fingerprinter = field(repr=False)
    usage: UsageLedger = Factory(UsageLedger)
    lineages: dict[tuple[str, str], Lineage] = Factory(dict)
    current: Lineage | None = None
    boundaries: deque[BoundarySeen] = Factory(lambda: deque(maxlen=KEPT_BOUNDARIES))
    boundary_count: int = 0
    unrecorded: int = 0
    host_epoch: int = 0
    # What was announced since the last request, and what the last request brought unannounced.
    _coming: BoundarySeen | None = None
    _unannounced: BoundarySeen | None = None

    @property
    def epoch(self) -> int | None:
        """The host's epoch plus the boundaries it did not record; None before any request."""
        if self.current is None:
            return None
        return max(self.host_epoch, 1) + self.unrecorded

    def sealed(self, event: ProviderRequestSealedEvent) -> None:
        """Take a sealed request. Only those of purpose `turn` can make a boundary."""
        info = event.info
        lineage = self.lineages.setdefault((info.purpose, f"{info.provider}/{info.api}"), Lineage())
        change = lineage.take(self.fingerprinter.request(event, lineage.last), info.attempt)
        if info.purpose != "turn":
            return
        # A higher epoch than was announced: the host counted a boundary whose event we missed.
        counted = self.current is not None and info.epoch > self.host_epoch
        self.current = lineage
        self.host_epoch = max(self.host_epoch, info.epoch)
        open_, self._coming, self._unannounced = self._coming, None, None
        if open_ is not None:
            if counted:
                self._settle(open_)
            open_.detail = open_.detail or change.where
        elif change.transition in BREAKS:
            self._unannounced = self._add("not announced", "unknown", change.where)
            if counted:
                self._settle(self._unannounced)

    def mark(self, cause: str, owner: str) -> None:
        """An event that starts a new epoch by itself; twice without a request counts once."""
        if self.current is None:
            return
        for (purpose, _), lineage in self.lineages.items():
            lineage.broken = lineage.broken or purpose == "turn"
        self._coming = self._coming or self._add(cause, owner)

    def boundary(self, boundary: Boundary) -> None:
        """The host recorded a boundary: it says who and why of the one that was seen, or adds."""
        self.host_epoch = max(self.host_epoch, boundary.number)
        if boundary.cause == "first":
            return
        seen = self._coming or self._unannounced
        if seen is None or seen.announced:
            seen = self._coming = self._add(boundary.cause, boundary.owner)
        self._settle(seen)
        seen.cause, seen.owner, seen.announced = boundary.cause, boundary.owner, True
        seen.avoidable, seen.tokens_lost = boundary.avoidable, boundary.tokens_lost
        seen.price, seen.detail = boundary.price, boundary.detail or seen.detail

    def _add(self, cause: str, owner: str, detail: str = "") -> BoundarySeen:
        seen = BoundarySeen(cause, owner, detail=detail)
        self.boundaries.append(seen)
        self.boundary_count += 1
        self.unrecorded += 1
        return seen

    def _settle(self, seen: BoundarySeen) -> None:
        self.unrecorded -= not seen.recorded
        seen.recorded = True


class Sessions:
    """The states of the sessions of this process, under one random key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._fingerprinter = Fingerprinter(key)
        self._states: dict[str, SessionState] = {}

    def of(self, session_id: str) -> SessionState:
        """The state of a session, made when it is first asked for."""
        if session_id not in self._states:
            self.reset(session_id)
        return self._states[session_id]

    def reset(self, session_id: str) -> None:
        """Forget a session and begin again."""
        self._states[session_id] = SessionState(self._fingerprinter)

    def drop(self, session_id: str) -> None:
        """Forget a session that has ended."""
        self._states.pop(session_id, None)
