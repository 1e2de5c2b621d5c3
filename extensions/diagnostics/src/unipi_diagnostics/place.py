"""Which value of a JSON text stands at an offset."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Final

_READER: Final = JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NAME: Final = 60
"""Characters of a key that a path shows."""


def path_at(body: bytes, offset: int) -> str:
    """The path of the innermost value at a byte offset, such as `tools[3].description`.

    Names of tool arguments are what the model said, so nothing inside them is shown. Empty for an
    offset outside of any member, and for a body that is no JSON object.
    """
    text = body.decode("latin-1")  # a character a byte
    try:
        return _inside(text, _skip(text, 0), offset, "")
    except (ValueError, IndexError):
        return ""


def _inside(text: str, at: int, offset: int, path: str) -> str:
    opening = text[at]
    if opening not in "{[" or path.endswith((".input", ".arguments")):
        return path
    at, count = _skip(text, at + 1), 0
    while text[at] not in "}]":
        name, start = f"[{count}]", at
        if opening == "{":
            key, at = _READER.raw_decode(text, at)
            name = f".{str(key)[:_NAME]}" if path else str(key)[:_NAME]
            at = _skip(text, _skip(text, at) + 1)
        _, end = _READER.raw_decode(text, at)
        if offset < start:
            break
        if offset < end:
            return _inside(text, at, offset, path + name)
        count += 1
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return path


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
