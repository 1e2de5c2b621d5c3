"""Thinking that is bound to what stands before it, and which of it a new epoch must leave out.

A thinking block is bound to system, tools and all messages before it (Anthropic, Preserved
thinking). What stands where it stood in the last request to the same provider is valid; behind the
first change nothing is, and nothing at all where system or tools have changed or that request is
unknown.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from attrs import frozen

from .payload import payload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .seal import Prefix
    from .wire import Head


@frozen
class Past:
    """What a request said: its head, and a digest of each of its wire messages."""

    head: Head
    messages: tuple[bytes, ...]


def past_of(prefix: Prefix) -> Past:
    """What the last request of a prefix said."""
    return Past(prefix.head, tuple(_digest(prefix.message(i)) for i in range(len(prefix))))


def refused(
    past: Past | None,
    head: Head,
    fragments: Sequence[tuple[str, bytes]],
    without_thinking: Callable[[bytes], bytes],
) -> list[int]:
    """The places in `fragments`, all of a request's, whose thinking the provider would refuse."""
    valid = 0
    if past is not None and _same_prompt(past.head, head):
        now = [_digest(raw) for _, raw in fragments if raw]
        both = enumerate(zip(past.messages, now, strict=False))
        valid = next((i for i, (before, after) in both if before != after), len(now))
    seen = 0
    places: list[int] = []
    for place, (_, raw) in enumerate(fragments):
        if raw and seen >= valid and without_thinking(raw) != raw:
            places.append(place)
        seen += bool(raw)
    return places


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def _same_prompt(before: Head, after: Head) -> bool:
    """Whether two heads say the same to the model: thinking is bound to that, not to settings."""
    if before == after:
        return True
    one, other = payload_of(before, ()), payload_of(after, ())
    return (one.system, one.tools) == (other.system, other.tools)
