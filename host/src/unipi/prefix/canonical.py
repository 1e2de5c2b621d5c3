"""Canonical JSON for what we author, verbatim text for what a provider authored.

Ours: keys in UTF-16 code-unit order (RFC 8785 §3.2.3), no insignificant space, UTF-8. A
provider's: the source text, with insignificant space taken out once, at the door; key order,
number spelling, escapes and duplicate keys stay.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from unipi_hookspecs import JSON

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')


def utf16_key(text: str) -> bytes:
    """The sort key of UTF-16 code-unit order: the order of JavaScript's `<` and of RFC 8785."""
    return text.encode("utf-16-be", "surrogatepass")


def repair(text: str) -> str:
    """Replace each lone surrogate by U+FFFD; text without one is returned as it is.

    JSON carried as UTF-8 cannot hold a lone surrogate (RFC 8259 §8.2), and one in history would
    be refused for ever.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    # A high and a low half that stand together are one character that was split, not damage.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _sorted(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {repair(k): _sorted(value[k]) for k in sorted(value, key=utf16_key)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def canonical(value: JSON) -> bytes:
    """Encode a JSON value in canonical form.

    NaN and the infinities, which JSON cannot carry, become null, as JavaScript writes them. Raises
    TypeError for a foreign object.
    """
    ordered = _sorted(value)
    try:
        return orjson.dumps(ordered)
    except orjson.JSONEncodeError:
        # Integers beyond 64 bits: legal JSON that orjson refuses.
        return json.dumps(
            ordered, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()


def compact(value: JSON) -> bytes:
    """Encode a JSON value in compact form, keys in the order they have."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return repair(text).encode()


def string(text: str) -> bytes:
    """Encode a string as a JSON string."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return orjson.dumps(repair(text))


def split(wire: bytes) -> list[bytes]:
    """Part JSON values in compact form that commas join; each stays as it is written."""
    text = wire.decode()
    decoder = json.JSONDecoder(strict=False)
    values: list[bytes] = []
    at = 0
    while at < len(text):
        _, end = decoder.raw_decode(text, at)
        values.append(text[at:end].encode())
        at = end + 1
    return values


def squeeze(text: str) -> str:
    """Take the insignificant space out of a valid JSON text and change nothing else."""
    return "".join(_TOKEN.findall(text))
