"""What is remembered of each session: its lineages, its boundaries, its verdicts, its usage."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from typing import TYPE_CHECKING

from attrs import Factory, define, field

from .envelope import keyed
from .lineage import Lineage
from .transition import BREAKS
from .usage import UsageLedger
from .verdict import LOOK_BACK, Expectation, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi_hookspecs import (
        Boundary,
        CacheState,
        ProviderRequestSealedEvent,
        ProviderResponseEndEvent,
    )

    from .verdict import Verdict

KEPT = 50
"""How many boundaries and verdicts of a session are remembered one by one; all are counted."""

_ANTHROPIC = "anthropic-messages"
_BLOCK, _MARKER = b'"type":"', b'"cache_control"'


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
class OwnerTotal:
    """What the boundaries of one owner have cost so far; `price` in US dollars.

    `shorter` is by how many tokens its rewrites have made each prompt since, `tokens_saved` the sum
    of that over the requests: they would have been read from the cache.
    """

    boundaries: int = 0
    avoidable: int = 0
    tokens_lost: int = 0
    price: float | None = None
    shorter: int = 0
    tokens_saved: int = 0

    def add(self, boundary: Boundary) -> None:
        """Count a boundary that the host recorded."""
        self.boundaries += 1
        self.avoidable += boundary.avoidable
        self.tokens_lost += boundary.tokens_lost
        if boundary.price is not None:
            self.price = (self.price or 0.0) + boundary.price


@define
class SessionState:
    """All that is kept of one session: digests, counters, names. No payload."""

    key: bytes = field(repr=False)
    usage: UsageLedger = Factory(UsageLedger)
    lineages: dict[tuple[str, str, str], Lineage] = Factory(dict)
    current: Lineage | None = None
    boundaries: deque[BoundarySeen] = Factory(lambda: deque(maxlen=KEPT))
    boundary_count: int = 0
    owners: dict[str, OwnerTotal] = Factory(dict)
    verdicts: deque[Verdict] = Factory(lambda: deque(maxlen=KEPT))
    verdict_counts: Counter[str] = Factory(Counter)
    unrecorded: int = 0
    host_epoch: int = 0
    # What was announced since the last request, and what the last request brought unannounced.
    _coming: BoundarySeen | None = None
    _unannounced: BoundarySeen | None = None
    _savers: list[OwnerTotal] = Factory(list)

    @property
    def fingerprint(self) -> bytes | None:
        """The newest request's digest, made of the host's own, which other processes know."""
        if self.current is None or not self.current.fingerprint:
            return None
        return keyed(self.key, self.current.fingerprint.encode())

    @property
    def epoch(self) -> int | None:
        """The host's epoch plus the boundaries it did not record; None before any request."""
        if self.current is None:
            return None
        return max(self.host_epoch, 1) + self.unrecorded

    def sealed(self, event: ProviderRequestSealedEvent) -> None:
        """Take a sealed request. Only those of purpose `turn` can make a boundary."""
        info = event.info
        key = (info.purpose, info.provider, info.api)
        lineage = self.lineages.get(key)
        if lineage is None:
            lineage = self.lineages[key] = Lineage(self.key)
        start = lineage.length
        change = lineage.take(event)
        boundary: BoundarySeen | None = None
        if info.purpose == "turn":
            # A higher epoch than was announced: the host counted a boundary whose event we missed.
            counted = self.current is not None and info.epoch > self.host_epoch
            self.current = lineage
            self.host_epoch = max(self.host_epoch, info.epoch)
            if self._coming is not None or change.transition in BREAKS:
                boundary = self._crossed(lineage, change.where, counted=counted)
                self._shortened(lineage, boundary)
            else:
                self._unannounced = None
            for total in self._savers:
                total.tokens_saved += total.shorter
        if info.attempt == 0:
            # At most so many blocks are new: enough to tell a turn too wide to look back over.
            blocks = event.body.count(_BLOCK, start) if start and info.api == _ANTHROPIC else 0
            marked = blocks > LOOK_BACK and event.body.find(_MARKER, start) >= 0
            lineage.asked = info.request_id
            lineage.expectation = Expectation(
                lineage.requests,
                lineage.expected,
                boundary,
                lineage.where,
                lineage.share == 1.0,
                blocks,
                marked,
            )

    def _shortened(self, lineage: Lineage, boundary: BoundarySeen | None) -> None:
        """Who rewrites history to save tokens gets the credit for it, until a compaction."""
        if boundary is not None and boundary.cause in ("compaction", "branch_summary", "tree"):
            for total in self._savers:
                total.shorter = 0
            self._savers = []
        if boundary is None or not lineage.shrunk or not lineage.prompt or not lineage.length:
            return
        total = self.owners.setdefault(boundary.owner, OwnerTotal())
        total.shorter += round(lineage.prompt * lineage.shrunk / (lineage.length + lineage.shrunk))
        if total not in self._savers:
            self._savers.append(total)

    def _crossed(self, lineage: Lineage, where: str, *, counted: bool) -> BoundarySeen | None:
        open_, self._coming, self._unannounced = self._coming, None, None
        if open_ is None:
            self._unannounced = open_ = self._add("not announced", "unknown", where)
        elif not (counted or open_.recorded) and lineage.survived and open_.cause in _CHOICES:
            # Chosen and taken back before the request: the prefix is what it was.
            self._withdraw(open_)
            lineage.restore()
            return None
        if counted:
            self._settle(open_)
        open_.detail = open_.detail or where
        return open_

    def ended(
        self, event: ProviderResponseEndEvent, cache: Callable[[], CacheState] | None = None
    ) -> None:
        """Take the end of an answer: its usage, and the verdict over it.

        `cache` tells the state of the cache; it is asked only where less was read than could be.
        """
        self.usage.add(event)
        info = event.info
        lineage = self.lineages.get((info.purpose, info.provider, info.api))
        if lineage is None or lineage.asked != info.request_id or event.usage is None:
            return
        expectation, lineage.asked = lineage.expectation, ""
        assert expectation is not None, "set with what was asked"
        verdict = judge(expectation, event.usage, None)
        if verdict.kind in ("partial", "miss") and not verdict.explained and cache is not None:
            verdict = judge(expectation, event.usage, cache())
        self.verdicts.append(verdict)
        word = verdict.kind if verdict.explained else f"{verdict.kind}, unexplained"
        self.verdict_counts[word] += 1
        if event.stop_reason not in ("error", "aborted"):
            lineage.prompt = event.usage.prompt if event.usage.prompt > 0 else lineage.prompt

    def mark(self, cause: str, owner: str) -> None:
        """An event that starts a new epoch by itself; twice without a request counts once."""
        if self.current is None:
            return
        for (purpose, _, _), lineage in self.lineages.items():
            lineage.broken = lineage.broken or purpose == "turn"
        self._coming = self._coming or self._add(cause, owner)

    def boundary(self, boundary: Boundary) -> None:
        """The host recorded a boundary: it says who and why of the one that was seen, or adds."""
        self.host_epoch = max(self.host_epoch, boundary.number)
        if boundary.cause == "first":
            return
        self.owners.setdefault(boundary.owner, OwnerTotal()).add(boundary)
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

    def _withdraw(self, seen: BoundarySeen) -> None:
        self.boundaries.remove(seen)
        self.boundary_count -= 1
        self.unrecorded -= 1

    def _settle(self, seen: BoundarySeen) -> None:
        self.unrecorded -= not seen.recorded
        seen.recorded = True


_CHOICES = ("model", "thinking")


class Sessions:
    """The states of the sessions of this process, under one random key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._states: dict[str, SessionState] = {}

    def of(self, session_id: str) -> SessionState:
        """The state of a session, made when it is first asked for."""
        if session_id not in self._states:
            self.reset(session_id)
        return self._states[session_id]

    def reset(self, session_id: str) -> None:
        """Forget a session and begin again."""
        self._states[session_id] = SessionState(self._key)

    def drop(self, session_id: str) -> None:
        """Forget a session that has ended."""
        self._states.pop(session_id, None)
