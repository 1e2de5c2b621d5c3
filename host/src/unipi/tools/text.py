"""Text at the door of the tools: decoding, repair, order, and the limits of Pi's tools.

Standard library only: the search child imports this module without site-packages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LINE_LIMIT = 2_000
"""Lines a built-in tool shows at most, as in Pi."""
BYTE_LIMIT = 51_200
"""UTF-8 bytes a built-in tool shows at most, as in Pi."""
LINE_WIDTH = 500
"""Characters of a line that a search shows, as in Pi."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# A surrogate that was encoded as if it were a character: one broken unit, three bytes.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


class ToolError(Exception):
    """A tool call failed; the message is the result that the model reads."""


def utf16_key(text: str) -> bytes:
    """The sort key of UTF-16 code-unit order, the one order of all that the model sees."""
    return text.encode("utf-16-be", "surrogatepass")


def repair(text: str) -> str:
    """Replace each lone surrogate by U+FFFD; two halves that stand together become a character."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def decode(data: bytes) -> str:
    """Decode UTF-8, each broken unit as one U+FFFD."""
    if b"\xed" in data:
        data = _ENCODED_SURROGATE.sub("\ufffd".encode(), data)
    return data.decode("utf-8", "replace")


def raw_bytes(text: str) -> bytes:
    """The bytes that `text` came from, as far as it still tells.

    Bytes that Python smuggled through a string (PEP 383) come back as they were.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def count_lines(text: str) -> int:
    """Lines of `text`; a newline at the end does not open another one."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def head_lines(text: str, lines: int = LINE_LIMIT, size: int = BYTE_LIMIT) -> str:
    """The first whole lines of `text`: at most `lines` of them and `size` bytes."""
    return "".join(_take(_split(text), lines, size))


def tail_lines(text: str, lines: int = LINE_LIMIT, size: int = BYTE_LIMIT) -> str:
    """The last whole lines of `text`: at most `lines` of them and `size` bytes."""
    return "".join(reversed(_take(reversed(_split(text)), lines, size)))


def _split(text: str) -> list[str]:
    # Not str.splitlines: it also breaks at form feeds, U+2028 and others, which are no line ends.
    parts = [line + "\n" for line in text.split("\n")]
    parts[-1] = parts[-1][:-1]
    return parts if parts[-1] else parts[:-1]


def _take(rows: Iterable[str], lines: int, size: int) -> list[str]:
    kept: list[str] = []
    for row in rows:
        size -= len(row.encode())
        if size < 0 or len(kept) == lines:
            break
        kept.append(row)
    return kept
