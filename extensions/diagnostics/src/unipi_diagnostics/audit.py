"""Which answers missed the cache, what that cost, and why, as far as the recording tells.

A miss is an answered request that read under 90 % of the prompt of the one before it in its lane:
most of what the provider had seen was paid for again. Failed and aborted answers are not judged
and not compared with. A provider that does not report its reads is never accused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from .audit_records import Answer, Mark, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .audit_records import Record

CAUSES: Final = (
    "compaction",
    "model",
    "system_prompt",
    "tools",
    "history",
    "thinking_level",
    "minimum",
    "idle",
    "after_abort",
    "after_error",
    "client_update",
    "unexplained",
)
"""In the order in which they are looked for, where the session has no ledger of its own."""

DEFAULT_TTL: Final = 300.0
LONG_TTL: Final = 3_600.0
"""Seconds for which Anthropic keeps a prompt: by default, and when it was written for an hour
("Prompt caching", 2026-08-22)."""

LARGEST_MINIMUM: Final = 4_096
"""Tokens of the shortest prompt that the most demanding Anthropic models keep (same page)."""

_SHARE: Final = 0.9


@frozen
class Judged:
    """An answered request, judged.

    `index` counts the answered requests of the file from 0. `lost` is what the prompt before had
    and was not read back, 0 when it is no miss; `repaid` the part of it that this request paid for
    again: after a compaction there is less to pay. `at` says where it stands: `start` of its lane,
    first answer to a `prompt`, or within a `run`. `marks` lie between it and the one before.
    """

    answer: Answer
    index: int
    seconds: float = 0.0
    lost: int = 0
    repaid: int = 0
    cause: str = ""
    owner: str = ""
    avoidable: bool = False
    at: str = "run"
    marks: tuple[Mark, ...] = ()

    @property
    def missed(self) -> bool:
        return bool(self.cause)

    @property
    def boundary(self) -> Mark | None:
        """The boundary that the host recorded before this request, the last of several."""
        return next((mark for mark in reversed(self.marks) if mark.recorded), None)


@define
class _Lane:
    """What is known of a conversation between two of its answers."""

    previous: Answer | None = None
    since: list[Mark] = field(factory=list)
    long: bool = False


@define
class Auditor:
    """Judges the records of one file as they come.

    `ttl_seconds` None takes five minutes, or an hour where a prompt was written for an hour.
    Totals cover failed answers too, for they are paid for; `unreported` counts the answered ones
    whose provider said nothing of its cache.
    """

    ttl_seconds: float | None = None
    answered: int = 0
    unreported: int = 0
    read: int = 0
    prompt: int = 0
    place: Place = field(factory=Place)
    _lanes: dict[str, _Lane] = field(factory=dict)

    @property
    def share(self) -> float:
        """Read over all prompt tokens, from 0 to 1."""
        return self.read / self.prompt if self.prompt else 0.0

    def take(self, record: Record) -> Judged | None:
        """Judge an answer, or remember what may explain the next one."""
        if isinstance(record, Place):
            self.place = record
            return None
        if isinstance(record, Mark):
            lanes = self._lanes.values() if record.lane is None else [self._lane(record.lane)]
            for lane in lanes:
                lane.since.append(record)
            return None
        if record.reported:
            self.read += record.read or 0
            self.prompt += record.prompt
        lane = self._lane(record.lane)
        if record.stop != "ok":
            cause = "after_error" if record.stop == "error" else "after_abort"
            lane.since.append(Mark(cause, record.line, record.time, record.lane))
            return None
        return self._judge(record, lane)

    def judge(self, records: Iterable[Record]) -> Iterator[Judged]:
        """The answered requests of a whole file."""
        for record in records:
            judged = self.take(record)
            if judged is not None:
                yield judged

    def _lane(self, name: str) -> _Lane:
        return self._lanes.setdefault(name, _Lane())

    def _judge(self, answer: Answer, lane: _Lane) -> Judged:
        index, before, marks = self.answered, lane.previous, tuple(lane.since)
        self.answered += 1
        seconds = max(0, answer.time - before.time) / 1000 if before else 0.0
        at = "start" if before is None else _place(marks)
        judged = Judged(answer, index, seconds, at=at, marks=marks)
        if not answer.reported or answer.read is None:
            self.unreported += 1
        elif before is not None and before.reported and answer.read < _SHARE * before.prompt:
            judged = self._miss(judged, before, answer.read, lane)
        lane.previous, lane.since = answer, []
        lane.long = lane.long or answer.written_1h > 0
        return judged

    def _miss(self, judged: Judged, before: Answer, read: int, lane: _Lane) -> Judged:
        answer, boundary = judged.answer, judged.boundary
        ttl = self.ttl_seconds
        if ttl is None:
            ttl = LONG_TTL if lane.long else DEFAULT_TTL
        cause = boundary.cause if boundary else _cause(judged, before, ttl)
        return Judged(
            answer,
            judged.index,
            judged.seconds,
            lost=before.prompt - read,
            repaid=max(0, min(before.prompt, answer.prompt) - read),
            cause=cause,
            owner=boundary.owner if boundary else "",
            avoidable=boundary.avoidable if boundary else False,
            at=judged.at,
            marks=judged.marks,
        )


def _place(marks: tuple[Mark, ...]) -> str:
    return "prompt" if any(mark.cause == "prompt" for mark in marks) else "run"


def _cause(judged: Judged, before: Answer, ttl: float) -> str:
    answer = judged.answer
    seen = {mark.cause for mark in judged.marks}
    if (before.provider, before.model) != (answer.provider, answer.model):
        seen.add("model")
    if answer.reason:
        seen.add(answer.reason)
    if judged.seconds > ttl:
        seen.add("idle")
    if _was_not_kept(before):
        seen.add("minimum")
    return next((cause for cause in CAUSES if cause in seen), "unexplained")


def _was_not_kept(before: Answer) -> bool:
    """Whether the prompt before was too short for its provider to keep, as its figures say."""
    return (
        before.api == "anthropic-messages"
        and before.read == 0
        and before.written == 0
        and before.prompt < LARGEST_MINIMUM
    )
