"""Pictures before they enter the history: what every provider would refuse is told in words instead.

A picture that is refused would be refused with each request after it, as it is part of them all.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from attrs import evolve

from unipi_hookspecs import Image, Text

MAX_BYTES: Final = 5_000_000
"""Bytes of a picture (Anthropic, Vision: 5 MB through the API, the smallest of the three)."""

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def fit_picture(image: Image) -> Image | Text:
    """The picture with the type that its bytes have, or a note of what was left out, and why."""
    size = len(image.data) * 3 // 4
    if size > MAX_BYTES:
        return _note(image, f"{size:,} bytes, over the limit of {MAX_BYTES:,}")
    try:
        head = base64.b64decode(image.data[:32], validate=True)
        if len(image.data) % 4:
            return _note(image, "its base64 text is incomplete")
    except (binascii.Error, ValueError):
        return _note(image, "its data is no base64 text")
    found = _type_of(head)
    if found is None:
        return image if image.mime_type in _KNOWN else _note(image, "no model takes this type")
    return image if found == image.mime_type else evolve(image, mime_type=found)


def _type_of(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if head.startswith(start)), None)


_KNOWN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


def _note(image: Image, why: str) -> Text:
    return Text(f"[A picture ({image.mime_type[:40]}) was left out: {why}.]")
