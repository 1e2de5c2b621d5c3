"""Server-sent events, parsed as the bytes come (WHATWG HTML, "Parsing an event stream").

Works on bytes: an event's data is cut out at line ends, which no UTF-8 character contains, so a
character that the transport splits in two is never decoded in halves.
"""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"
MAX_PENDING = 64 * 1024 * 1024
"""Bytes that one event may hold. A stream that never ends a line would fill the memory instead."""


class SseParser:
    """Takes the bytes of one stream, cut anywhere, and gives its events."""

    __slots__ = ("_after_cr", "_at_start", "_held", "_held_size")

    def __init__(self) -> None:
        self._held: list[bytes] = []  # what came since the last complete event
        self._held_size = 0
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Take the next bytes and return the events that they complete, as `(event, data)`.

        `event` is "" when the stream names none; several data lines are joined by a line feed.
        Raises ValueError when one event exceeds MAX_PENDING bytes.
        """
        if self._at_start:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            # The CR before the cut already ended the line; this LF is its second half.
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk[-1:] == b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        if self._held:
            chunk = b"".join((*self._held, chunk))
            self._held.clear()
            self._held_size = 0
        *blocks, rest = chunk.split(b"\n\n")
        self._hold(rest)
        return _events(blocks)

    def finish(self) -> list[tuple[str, bytes]]:
        """Return the event that the stream's end left without its empty line, if any.

        The standard drops it; servers that forget the last line end are common, and a cut one is
        told apart by its data, which is then no JSON.
        """
        rest = b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        return _events([rest])

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held.append(piece)
            self._held_size += len(piece)
            if self._held_size > MAX_PENDING:
                raise ValueError(f"one server-sent event exceeds {MAX_PENDING} bytes")

    def _without_bom(self, chunk: bytes) -> bytes:
        start = b"".join((*self._held, chunk))
        self._held.clear()
        self._held_size = 0
        if len(start) < len(BOM) and BOM.startswith(start):
            self._hold(start)
            return b""
        self._at_start = False
        return start.removeprefix(BOM)


def _events(blocks: list[bytes]) -> list[tuple[str, bytes]]:
    events: list[tuple[str, bytes]] = []
    for block in blocks:
        # The two shapes that providers send, without a loop over lines.
        if block[:6] == b"data: " and b"\n" not in block:
            events.append(("", block[6:]))
            continue
        if block[:7] == b"event: ":
            name, _, data = block[7:].partition(b"\n")
            if data[:6] == b"data: " and b"\n" not in data:
                events.append((name.decode("utf-8", "replace"), data[6:]))
                continue
        event = _by_lines(block)
        if event is not None:
            events.append(event)
    return events


def _by_lines(block: bytes) -> tuple[str, bytes] | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not data:
        return None  # a comment, a keep-alive, or an event without data: dispatches nothing
    return name.decode("utf-8", "replace"), b"\n".join(data)
