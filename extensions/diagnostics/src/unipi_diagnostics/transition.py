"""What happened between two requests of one lineage: the six transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from .fingerprint import Request

Transition: TypeAlias = Literal[
    "first_request",
    "identical_retry",
    "prefix_extended",
    "envelope_changed",
    "payload_shape_changed",
    "history_rewritten",
]
BREAKS: frozenset[Transition] = frozenset(
    {"envelope_changed", "payload_shape_changed", "history_rewritten"}
)
"""The transitions after which the provider cannot read the whole previous prefix again."""


@frozen
class Change:
    """A transition, and where it happened.

    `where` is in words, empty when there is nothing to say. `survived` counts the leading body
    bytes that are as they were, markers set aside; None when the head itself changed.
    """

    transition: Transition
    where: str = ""
    survived: int | None = None


def compare(before: Request | None, now: Request) -> Change:
    """Classify `now` after `before`, in the order of the specification."""
    if before is None:
        return Change("first_request")
    old, new = before.envelope, now.envelope
    if old.digest != new.digest:
        return Change("envelope_changed", _changed_fields(before, now))
    if old.sequence != new.sequence:
        return Change("payload_shape_changed", f"{old.sequence} became {new.sequence}")
    if old.raw != new.raw:
        return Change("envelope_changed", "the same meaning in other bytes (order of keys)")
    count = _shared(before, now)
    if count == before.count:
        same = count == now.count
        return Change("identical_retry" if same else "prefix_extended", "", now.prefix_length)
    survived = now.ends[count - 1] if count else now.head_length
    if count == now.count:
        where = f"{before.count - count} messages were taken off the end"
    else:
        where = f"message {count + 1} of {now.count} is the first to differ"
    return Change("history_rewritten", where, survived)


def _shared(before: Request, now: Request) -> int:
    if now.log is before.log:
        return min(before.count, now.count)
    pairs = zip(before.log[: before.count], now.log[: now.count], strict=False)
    for index, (old, new) in enumerate(pairs):
        if old != new:
            return index
    return min(before.count, now.count)


def _changed_fields(before: Request, now: Request) -> str:
    old, new = before.envelope, now.envelope
    if old.route != new.route:
        return f"{old.route} became {new.route}"
    names = old.fields.keys() | new.fields.keys()
    return ", ".join(sorted(n for n in names if old.fields.get(n) != new.fields.get(n)))
