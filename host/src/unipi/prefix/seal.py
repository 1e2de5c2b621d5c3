"""The bytes of one cache epoch: a head, the fragments behind it, and a chain fingerprint.

A request body is a copy of these bytes and a constant close, so its prefix is identical to the
previous request's by construction. The fingerprint is an HMAC-SHA-256 that runs along with the
bytes: extending it costs what is new. Cache markers are no part of either; see `marks`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from bisect import bisect_right
from typing import TYPE_CHECKING

from attrs import frozen

from .marks import Marker, Marks
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .wire import Head


@frozen(eq=False)
class Sealed:
    """One request, ready to be sent and never changed again.

    `message_ends` are byte offsets into `body`; the messages of the head (Chat Completions'
    system message) are not among them. `shared_length` bytes of it were the start of the last
    request too, and `kept_messages` of its messages the first of that one, markers set aside.
    `same_meaning`: the message behind them is another only in its notation. `fingerprint` is hex
    and keyed.
    """

    body: bytes
    head_length: int
    tail_length: int
    message_ends: Sequence[int]
    fingerprint: str
    shared_length: int
    kept_messages: int = 0
    same_meaning: bool = False


@frozen
class Shared:
    """What two requests have in common from their start: bytes of the body, and whole messages.

    `same_meaning`: the first message that differs is the same JSON value, written otherwise.
    """

    length: int = 0
    messages: int = 0
    same_meaning: bool = False


class Prefix:
    """The growing bytes of one epoch. It only ever grows."""

    def __init__(self, head: Head, secret: bytes, marker: Marker | None = None) -> None:
        self.head = head
        self.marks = Marks(marker)
        self._bytes = bytearray(head.open)
        self._ends: list[int] = []
        self._chain = hmac.new(secret, head.open + b"\0" + head.close, hashlib.sha256)

    def __len__(self) -> int:
        """The number of wire messages behind the head."""
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes from the start of the body to the end of the last message, markers left out."""
        return len(self._bytes)

    @property
    def body_size(self) -> int:
        """The same with the markers in."""
        return len(self._bytes) + self.marks.before(len(self._bytes))

    def extend(self, fragments: Iterable[bytes]) -> None:
        """Append wire messages; a fragment of no bytes is a message the model does not see."""
        for fragment in fragments:
            if not fragment:
                continue
            if self._ends or self.head.leading:
                self._bytes += b","
            self._bytes += fragment
            self._ends.append(len(self._bytes))
            self._chain.update(len(fragment).to_bytes(8, "big"))
            self._chain.update(fragment)

    def seal(self, shared: Shared | None = None, after: bytes = b"") -> Sealed:
        """The request as it stands: the one copy of the history's bytes that a turn pays for.

        `shared` says what of it was in the last request; `after` are members to stand behind the
        messages, each led by a comma.
        """
        shared = shared or Shared()
        close = self.head.close[:-1] + after + self.head.close[-1:] if after else self.head.close
        return Sealed(
            body=self.marks.write(self._bytes, close),
            head_length=len(self.head.open),
            tail_length=len(close),
            message_ends=self.marks.ends(Window(self._ends, len(self._ends))),
            fingerprint=self.fingerprint(),
            shared_length=shared.length,
            kept_messages=shared.messages,
            same_meaning=shared.same_meaning,
        )

    def again(self, head: Head) -> Sealed:
        """The last request under another head, of which nothing is kept."""
        moved = len(head.open) - len(self.head.open)
        body = self.marks.write(self._bytes, head.close)
        return Sealed(
            body=head.open + body[len(self.head.open) :],
            head_length=len(head.open),
            tail_length=len(head.close),
            message_ends=[end + moved for end in self.marks.ends(self._ends)],
            fingerprint=self.fingerprint(),
            shared_length=0,
        )

    def beside(self, fragments: Iterable[bytes]) -> Sealed:
        """A request of these bytes and more behind them, which the prefix does not keep."""
        parts = [self.marks.write(self._bytes, b"")]
        size = shared = len(parts[0])
        ends = list(self.marks.ends(self._ends))
        chain = self._chain.copy()
        for fragment in fragments:
            if not fragment:
                continue
            if ends or self.head.leading:
                parts.append(b",")
                size += 1
            parts.append(fragment)
            size += len(fragment)
            ends.append(size)
            chain.update(len(fragment).to_bytes(8, "big"))
            chain.update(fragment)
        return Sealed(
            body=b"".join((*parts, self.head.close)),
            head_length=len(self.head.open),
            tail_length=len(self.head.close),
            message_ends=ends,
            fingerprint=chain.hexdigest(),
            shared_length=shared,
            kept_messages=len(self._ends),
        )

    def fingerprint(self) -> str:
        """The keyed digest of the head and every message so far, as 64 hex digits."""
        return self._chain.copy().hexdigest()

    def message(self, index: int) -> bytes:
        """The bytes of one wire message."""
        return bytes(self._bytes[self.start_of(index) : self._ends[index]])

    def start_of(self, index: int) -> int:
        """Where a wire message begins, markers left out."""
        return self._ends[index - 1] + 1 if index else len(self.head.open) + self.head.leading

    def common(self, other: Prefix) -> int:
        """How many bytes, from the start, are the same in both."""
        limit = min(len(self._bytes), len(other._bytes))
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self._bytes[low:middle] == other._bytes[low:middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def shared_with(self, before: Prefix, size: int) -> Shared:
        """What is shared with the last request, of which the first `size` bytes are the same."""
        count = bisect_right(before._ends, size)
        differ = count < len(before) and count < len(self)
        same = differ and _same(before.message(count), self.message(count))
        return Shared(size + self.marks.before(size), count, same)


def _same(one: bytes, other: bytes) -> bool:
    """Whether two texts are one JSON value; how keys are ordered and numbers written is no matter."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False
