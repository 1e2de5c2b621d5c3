"""What happened between two requests of one lineage: the six transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from .envelope import Envelope

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


def envelope_change(old: Envelope, new: Envelope) -> Change | None:
    """How two envelopes differ, in the order of the specification; None when they do not."""
    if old.digest != new.digest:
        return Change("envelope_changed", _changed(old, new))
    if old.sequence != new.sequence:
        return Change("payload_shape_changed", f"{old.sequence} became {new.sequence}")
    if old.raw != new.raw:
        return Change("envelope_changed", _notation(old, new))
    return None


def _changed(old: Envelope, new: Envelope) -> str:
    """The fields that differ; of one alone, the place in it."""
    if old.route != new.route:
        return f"{old.route} became {new.route}"
    names = old.fields.keys() | new.fields.keys()
    changed = sorted(name for name in names if old.fields.get(name) != new.fields.get(name))
    if len(changed) != 1 or old.sequence != new.sequence:
        return ", ".join(changed)
    return _placed(old, new) or changed[0]


def _notation(old: Envelope, new: Envelope) -> str:
    said = "the same meaning in other bytes"
    place = _placed(old, new)
    return f"{said}: {place}" if place else f"{said} (order of keys)"


def _placed(old: Envelope, new: Envelope) -> str:
    from .compare import SAME_MEANING, compare

    if old.structure is None or new.structure is None:
        return ""
    found = compare(old.structure, new.structure)
    if not found.location:
        return ""
    words = [found.detail] if found.detail else []
    if found.kind not in ("changed", SAME_MEANING, "order"):
        words.insert(0, found.kind)
    return found.location + (f" ({'; '.join(words)})" if words else "")
