"""Pictures that a provider takes, told by their first bytes."""

from __future__ import annotations

import struct

ENCODED_LIMIT = 5 * 1024 * 1024
"""Base64 bytes of one picture that the Anthropic API takes at most (5 MB an image)."""
SIDE_LIMIT = 8_000
"""Pixels of width or height that the Anthropic API takes at most."""

# JPEG: start-of-frame markers, which carry the size (ITU T.81, table B.1).
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}


def mime_type(start: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP file that begins with `start`, else None."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def longest_side(data: bytes, mime: str) -> int | None:
    """Width or height in pixels, whichever is more; None when the file does not tell."""
    try:
        if mime == "image/png":
            return int(max(struct.unpack_from(">II", data, 16)))
        if mime == "image/gif":
            return int(max(struct.unpack_from("<HH", data, 6)))
        if mime == "image/jpeg":
            return _jpeg_side(data)
        return _webp_side(data)
    except (struct.error, IndexError):
        return None


def _jpeg_side(data: bytes) -> int | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            return int(max(struct.unpack_from(">HH", data, at + 5)))
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None


def _webp_side(data: bytes) -> int | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + max(int.from_bytes(data[24:27], "little"), int.from_bytes(data[27:30], "little"))
    if kind == b"VP8 ":
        return max(int(side) & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    if kind == b"VP8L":
        bits = int(struct.unpack_from("<I", data, 21)[0])
        return 1 + max(bits & 0x3FFF, bits >> 14 & 0x3FFF)
    return None
