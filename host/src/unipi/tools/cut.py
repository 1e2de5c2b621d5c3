"""Where text may be cut: never inside a character, a grapheme cluster, or a backslash escape.

The rules are a cheap part of Unicode's extended grapheme clusters (UAX #29): no cut before a
combining mark, a joiner, a variation selector, an emoji modifier or tag, a Hangul vowel or final,
none after a zero-width joiner, none inside a flag or CR LF; and none inside a JSON escape (RFC 8259
§7), a pair of `\\u` halves included.
"""

from __future__ import annotations

import re
import unicodedata

_WINDOW = 1_024  # bytes looked at on each side of a cut
_REACH = 64  # characters a cut moves at most; a longer cluster is cut at a character
_ESCAPE_LENGTH = 12
_ZWJ = "\u200d"
_EXTENDING = re.compile(
    "[\u200c\u200d\u1160-\u11ff\ud7b0-\ud7fb\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
_FLAG_HALF = re.compile("[\U0001f1e6-\U0001f1ff]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)


def head_end(data: bytes, size: int) -> int:
    """The offset of the last safe cut at or before `size`, in `data`, which is valid UTF-8."""
    if size >= len(data):
        return len(data)
    at = max(size, 0)
    while at and _continues(data[at]):
        at -= 1
    text, start = _around(data, at)
    i = start
    while not _safe(text, i):
        i -= 1
        if start - i > _REACH:
            return at
    return at - len(text[i:start].encode())


def tail_start(data: bytes, start: int) -> int:
    """The offset of the first safe cut at or after `start`, in `data`, which is valid UTF-8."""
    at = max(start, 0)
    while at < len(data) and _continues(data[at]):
        at += 1
    text, first = _around(data, at)
    i = first
    while not _safe(text, i):
        i += 1
        if i - first > _REACH:
            return at
    return at + len(text[first:i].encode())


def safe_prefix(text: str, length: int) -> str:
    """The longest safely cut beginning of `text` of at most `length` characters."""
    if len(text) <= length:
        return text
    i = length
    while not _safe(text, i):
        i -= 1
        if length - i > _REACH:
            return text[:length]
    return text[:i]


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _around(data: bytes, at: int) -> tuple[str, int]:
    # The characters near the offset `at` (itself between characters), and its index among them.
    low, high = max(0, at - _WINDOW), min(len(data), at + _WINDOW)
    while low < at and _continues(data[low]):
        low += 1
    while low and data[low - 1] == 0x5C:  # whether a backslash escapes is told by the whole run
        low -= 1
    while high < len(data) and _continues(data[high]):
        high += 1
    before = data[low:at].decode()
    return before + data[at:high].decode(), len(before)


def _safe(text: str, i: int) -> bool:
    if i <= 0 or i >= len(text):
        return True
    before, after = text[i - 1], text[i]
    if before < "\x80" and after < "\x80":
        return not (before == "\r" and after == "\n") and not _in_escape(text, i)
    if before == _ZWJ or _EXTENDING.match(after) or unicodedata.category(after)[0] == "M":
        return False
    if _FLAG_HALF.match(after):
        run = i
        while run and _FLAG_HALF.match(text, run - 1):
            run -= 1
        if (i - run) % 2:
            return False
    return not _in_escape(text, i)


def _in_escape(text: str, i: int) -> bool:
    start = text.rfind("\\", max(0, i - _ESCAPE_LENGTH + 1), i)
    if start < 0:
        return False
    run = start
    while run and text[run - 1] == "\\":
        run -= 1
    if (start - run) % 2:  # the second of a pair: an escaped backslash, complete
        return False
    escape = _ESCAPE.match(text, start)
    return escape is not None and i < escape.end()
