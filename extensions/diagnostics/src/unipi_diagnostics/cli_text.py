"""Text from outside, made fit to be shown: sessions are data, whoever wrote them."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "[redacted]"
_LIMIT: Final = 160

_KEYS: Final = re.compile(
    r"(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|hf_[A-Za-z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{12,}|://[^/\s:@]+:[^/\s@]+@"
)
"""What looks like a key, a token or a password in an address, by its issuer's own prefix."""


def plain(value: str, limit: int = _LIMIT) -> str:
    """At most `limit` characters that drive no terminal and turn no text around, without keys."""
    value = _KEYS.sub(MASK, value[: limit * 4])
    if not value.isprintable():
        value = "".join(c if c.isprintable() else "\ufffd" for c in value)
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def money(value: float | None) -> str:
    """US dollars for people; a dash where nothing is known."""
    if value is None:
        return "-"
    return f"${value:,.2f}" if value >= 0.01 or value == 0 else f"${value:.4f}"


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def pause(seconds: float) -> str:
    """A pause in words: `42 s`, `7 m 12 s`, `3 h 5 m`, `2 d 4 h`."""
    whole = round(seconds)
    for unit, size, smaller, small in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {smaller}"
    return f"{whole // 60} m {whole % 60} s" if whole >= 60 else f"{whole} s"
