"""Cutting text so that what is left is exact, bounded in bytes, and says what is missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import AssistantContent, UserContent

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")
_SPACE: Final = re.compile(r"[ \t\r\n]+")


def clean(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, as U+FFFD; nothing else changes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def head(text: str, most: int) -> str:
    """The longest beginning of at most `most` bytes that ends between two characters."""
    if text.isascii():
        return text[: max(0, most)]
    return clean(text).encode()[: max(0, most)].decode("utf-8", "ignore")


def tail(text: str, most: int) -> str:
    """The longest end of at most `most` bytes that begins between two characters."""
    if most <= 0:
        return ""
    if text.isascii():
        return text[-most:]
    return clean(text).encode()[-most:].decode("utf-8", "ignore")


def one_line(text: str, most: int) -> str:
    """Text on one line, of at most `most` bytes; `…` stands where it was cut.

    Control characters and runs of white space become one blank: a line of a list cannot end early.
    """
    flat = _SPACE.sub(" ", _CONTROL.sub(" ", clean(text[: 4 * most]))).strip()
    if len(text) <= 4 * most and size(flat) <= most:
        return flat
    return head(flat, most - 3).rstrip() + "…"


def quoted(text: str, most: int) -> str:
    """A line as it was said, of at most `most` bytes; `…` stands where it was cut."""
    line = _CONTROL.sub(" ", clean(text)).strip()
    return line if size(line) <= most else head(line, most - 3).rstrip() + "…"


def both_ends(text: str, most: int, note: str) -> str:
    """Text whole when it has at most `most` bytes, else its head and tail around a note.

    `note` is a line with the place `{bytes}` for what is left out; three quarters go to the head.
    """
    text = clean(text)
    whole = size(text)
    if whole <= most:
        return text
    room = max(0, most - len(note) - 12)
    first, last = head(text, room * 3 // 4), tail(text, room // 4)
    missing = whole - size(first) - size(last)
    return f"{first}\n{note.replace('{bytes}', f'{missing:,}')}\n{last}"


def visible(text: str) -> str:
    """The text as a terminal may have it: signs that would steer it are U+FFFD; lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def plain(content: str | Sequence[UserContent | AssistantContent]) -> str:
    """The text of a message's content, blocks on lines of their own; pictures are named."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "image":
            parts.append("[picture]")
    return "\n".join(parts)
