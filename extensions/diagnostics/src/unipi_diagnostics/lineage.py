"""The requests of one purpose on one route, each compared to the last.

The host compares the bytes and says how many messages stand as they were. So a request that goes on
from the last one costs nothing but counting; only a head that has moved is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from .envelope import Envelope, keyed, read_envelope, without_question
from .place import path_at
from .transition import BREAKS, Change, envelope_change

if TYPE_CHECKING:
    from unipi_hookspecs import ProviderRequestSealedEvent

    from .verdict import Expectation

_FIRST, _RETRY = Change("first_request"), Change("identical_retry")
_EXTENDED = Change("prefix_extended")
_CLOSED = 2
"""Bytes that close a body behind its messages when nothing else stands there: `]}`."""


@define
class Lineage:
    """Requests of one purpose, provider and API.

    `broken` is set by an explicit boundary: the next request then counts as the first of a new
    epoch, and `survived` says whether its bytes extend the old prefix all the same. `share` is the
    part of the last request that the newest still begins with, from 0 to 1, and `where` the place
    of a break. `prompt` is the size of the last answered one in tokens, as reported.
    """

    key: bytes = field(repr=False)
    requests: int = 0
    extensions: int = 0
    retries: int = 0
    resent: int = 0
    changes: int = 0
    broken: bool = False
    envelope: Envelope | None = None
    fingerprint: str = field(default="", repr=False)
    change: Change | None = None
    structural: Change | None = None
    survived: bool | None = None
    share: float = 0.0
    where: str = ""
    prompt: int | None = None
    asked: str = ""  # the request whose answer is awaited, and what is expected of it
    expectation: Expectation | None = None
    shrunk: int = 0  # bytes by which a rewrite has made the earlier messages shorter
    closing: bytes = field(default=b"", repr=False)
    model: str = ""
    head_length: int = 0
    length: int = 0  # to the end of the last message
    count: int = 0  # of messages

    def take(self, event: ProviderRequestSealedEvent) -> Change:
        """Count a request and say what it is after the one before it."""
        count, info = len(event.message_ends), event.info
        length = len(event.body) - event.tail_length
        self.structural = structural = self._compare(event, count)
        breaks = structural.transition in BREAKS
        change = _FIRST if self.broken else structural
        self.survived = not breaks if self.broken else None
        self.where = structural.where if breaks else ""
        self.requests += 1
        self.resent += info.attempt > 0
        self._count(change)
        self.change, self.broken, self.fingerprint = change, False, event.fingerprint
        self.model, self.head_length, self.length, self.count = (
            info.model,
            event.head_length,
            length,
            count,
        )
        return change

    def restore(self) -> None:
        """What seemed to begin an epoch begins none: the newest request is what its bytes say."""
        if self.structural is not None and self.structural is not self.change:
            self.change, self.survived = self.structural, None
            self._count(self.structural)

    def _count(self, change: Change) -> None:
        self.extensions += change is _EXTENDED
        self.retries += change is _RETRY
        self.changes += change.transition in BREAKS

    @property
    def expected(self) -> int | None:
        """Tokens of the last request that the newest can read; None where nothing was counted."""
        return None if self.prompt is None else round(self.prompt * self.share)

    def _compare(self, event: ProviderRequestSealedEvent, count: int) -> Change:
        before, kept = self.envelope, event.kept_messages
        self.shrunk = 0
        same_head = (
            event.shared_length >= event.head_length == self.head_length
            and event.info.model == self.model
            and (event.tail_length == _CLOSED or self._closes_alike(event))
        )
        if before is None or not same_head:
            self.envelope = self._read(event)
            if before is None:
                self.share = 0.0
                return _FIRST
            moved = envelope_change(before, self.envelope)
            if moved is not None:
                self.share = 0.0
                return moved
        if kept >= self.count:
            self.share = 1.0
            return _RETRY if count == self.count else _EXTENDED
        ends = event.message_ends
        survived = ends[kept - 1] if kept else event.head_length
        self.share = min(1.0, survived / self.length) if self.length else 0.0
        if 0 < self.count <= count:
            self.shrunk = max(0, self.length - ends[self.count - 1])
        if kept == count:
            where = f"{self.count - count} messages were taken off the end"
        else:
            where = _differs(event, kept, count)
        return Change("history_rewritten", where, survived)

    def _closes_alike(self, event: ProviderRequestSealedEvent) -> bool:
        before, self.closing = self.closing, keyed(self.key, _closing(event))
        return before == self.closing

    def _read(self, event: ProviderRequestSealedEvent) -> Envelope:
        info, body = event.info, event.body
        route = f"{info.provider}/{info.api}/{info.model}"
        return read_envelope(self.key, route, body[: event.head_length], _closing(event))


def _closing(event: ProviderRequestSealedEvent) -> bytes:
    return without_question(event.body[len(event.body) - event.tail_length :])


def _differs(event: ProviderRequestSealedEvent, kept: int, count: int) -> str:
    place = path_at(event.body, event.shared_length)
    notes = [place] if place else []
    if event.same_meaning:
        notes.append("the same meaning in other bytes")
    said = f" ({', '.join(notes)})" if notes else ""
    return f"message {kept + 1} of {count} is the first to differ{said}"
