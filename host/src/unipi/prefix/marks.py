"""Cache markers inside messages, kept apart from the bytes they stand in.

A marker is not content: it may come, go and move, and the prefix stays what it was (Anthropic,
Prompt caching; OpenAI, Prompt caching guide). So the sealed bytes are written without any, the
fingerprint runs over those, and markers are put in where a body is made.

One is needed where a turn is so wide that the provider, looking back from the end, does not find
the entry of the request before: it then stands on a new block within reach of the old end. No byte
that was sent before moves for it. Where the provider allows no more of them, the oldest one goes,
whose entry has been read by then.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import overload

from attrs import Factory, define, frozen

_MESSAGES = b'"messages":['
# As it stands in JSON and nowhere in a string, where its quotes would be escaped.
_CLOSING = re.compile(rb'\](?:,"diagnostics":\{[^{}]*\})?\}\Z')
_WRITTEN = re.compile(rb',"cache_control":\{[^{}]*\}')


def extended_by(before: bytes, after: bytes) -> bytes | None:
    """What the body `after` adds to the body `before`, or None when it is not that and a tail.

    Markers inside messages are set aside, and so is what stands behind the last message of
    `before`; everything else is compared byte for byte.
    """
    for one, other in ((before, after), (_unmarked(before), _unmarked(after))):
        stem = _CLOSING.sub(b"", one)
        if other.startswith(stem):
            return other[len(stem) :]
    return None


def _unmarked(body: bytes) -> bytes:
    head, opening, messages = body.partition(_MESSAGES)
    return head + opening + _WRITTEN.sub(b"", messages)


@frozen
class Marker:
    """How a provider's markers inside messages are written, and what they can do.

    `text` goes before the last byte of a block. At most `slots` stand at a time. A lookup tries
    `look_back` blocks, the marked one included; 0 says that it needs no help.
    """

    text: bytes
    slots: int
    look_back: int = 0


@define
class Marks:
    """The places of the markers in one epoch's bytes: offsets, ascending, of the byte before which
    one stands. `foreign` are those that a plugin placed."""

    marker: Marker | None = None
    places: list[int] = Factory(list)
    foreign: set[int] = Factory(set)

    def add(self, place: int, *, foreign: bool = False) -> int | None:
        """Put a marker at an offset; returns the place of one that had to go for it, if any.

        A plugin's own does not drive out the host's: None is returned and nothing happens, unless
        `foreign` ones alone take up the room.
        """
        if self.marker is None or place in self.places:
            return None
        gone = None
        if len(self.places) >= self.marker.slots:
            gone = next((p for p in self.places if p in self.foreign), None)
            if gone is None:
                if foreign or not self.places:
                    return None
                gone = self.places[0]
            self.places.remove(gone)
            self.foreign.discard(gone)
        self.places.append(place)
        self.places.sort()
        if foreign:
            self.foreign.add(place)
        return gone

    def before(self, offset: int) -> int:
        """How many bytes of markers stand before an offset into the bytes without them."""
        size = len(self.marker.text) if self.marker else 0
        return size * bisect_right(self.places, offset - 1)

    def write(self, raw: bytearray, close: bytes) -> bytes:
        """The body: the bytes with the markers in, and the close."""
        if not self.places or self.marker is None:
            return b"".join((raw, close))
        view = memoryview(raw)
        parts: list[bytes | memoryview] = []
        at = 0
        for place in self.places:
            parts += (view[at:place], self.marker.text)
            at = place
        try:
            return b"".join((*parts, view[at:], close))
        finally:
            for part in parts:
                if isinstance(part, memoryview):
                    part.release()
            view.release()

    def ends(self, ends: Sequence[int]) -> Sequence[int]:
        """Offsets into the bytes as offsets into the body."""
        if not self.places or self.marker is None:
            return ends
        return _Shifted(ends, tuple(self.places), len(self.marker.text))


class _Shifted(Sequence[int]):
    """A view of offsets, each moved by the markers before it."""

    __slots__ = ("_ends", "_places", "_size")

    def __init__(self, ends: Sequence[int], places: tuple[int, ...], size: int) -> None:
        self._ends = ends
        self._places = places
        self._size = size

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self._moved(end) for end in self._ends[index]]
        return self._moved(self._ends[index])

    def _moved(self, end: int) -> int:
        return end + self._size * bisect_right(self._places, end - 1)


def bridge(blocks: Sequence[int], behind: int, look_back: int) -> int | None:
    """The index of the new block that must be marked so that a lookup reaches the old end.

    `blocks` says of each new block where a marker would stand, or -1 where none may; `behind` is
    the number of blocks that were sent since an entry was written. None: no marker is needed, or
    none would help.
    """
    reach = look_back - 1 - behind  # the marked block itself is the first that is tried
    if len(blocks) <= reach:
        return None
    return next((i for i in range(min(reach, len(blocks)) - 1, -1, -1) if blocks[i] >= 0), None)
