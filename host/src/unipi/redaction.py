"""The keys that are in use in this process, and texts without them.

Whatever is shown or kept passes one of a few doors: the log, an error's description, the command's
output, a custom entry, a result or a plugin's message. Each asks here, so that a key that a server
said back, or that a plugin put into its own words, goes no further.
"""

from __future__ import annotations

MASK = "[redacted]"

_SHORTEST = 8
"""Characters; anything shorter is no key, and would be found in innocent words."""

_LONGEST_LIST = 64

_known: dict[str, bytes] = {}


def guard(value: str) -> None:
    """Take `value` out of every text from now on. White space around it is not part of it."""
    value = value.strip()
    if len(value) < _SHORTEST or value in _known:
        return
    while len(_known) >= _LONGEST_LIST:
        del _known[next(iter(_known))]
    _known[value] = value.encode("utf-8", "surrogatepass")


def scrub(text: str) -> str:
    """The text without the keys in use; the very same object where it holds none."""
    for value in _known:
        if value in text:
            text = text.replace(value, MASK)
    return text


def scrub_bytes(data: bytes) -> bytes:
    """As `scrub`, for text that is already UTF-8."""
    for raw in _known.values():
        if raw in data:
            data = data.replace(raw, MASK.encode())
    return data
