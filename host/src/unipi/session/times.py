"""Times and ids as session files hold them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last time that ISO 8601 writes with four digits of year."""


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def to_iso(ms: int) -> str:
    """Unix milliseconds as Pi writes a time: `2025-12-09T00:53:29.825Z`."""
    second, rest = divmod(max(0, min(ms, _LAST_MS)), 1000)
    return f"{_second_iso(second)}.{rest:03d}Z"


@lru_cache(maxsize=8)
def _second_iso(second: int) -> str:
    # Kept, as each entry asks for it and many fall into one second; `strftime` is slow.
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]


def from_iso(value: object) -> int:
    """Unix milliseconds of an ISO time; 0 for what is none."""
    if not isinstance(value, str):
        return 0
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def uuid7() -> str:
    """A UUID of version 7 (RFC 9562 §5.7): 48 bits of milliseconds, then random bits."""
    value = (now_ms() & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
