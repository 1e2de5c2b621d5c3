"""Thinking signatures bound to all that stands before the block ("Preserved thinking", 2026-09-02).

A signature covers the block's own text, the model, every block before it that is not thinking
(markers do not count), and the thinking block just before it. So appending and dropping thinking
from the front leave later blocks valid, while an edit, or a gap in the middle, does not.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b
from typing import Literal, TypeAlias

from unipi.sim.prompt import digest

# One key for all simulators, so that a session may be resumed against a new one.
_KEY = b"unipi simulator, thinking"
_MODEL, _STATE, _LINK, _MAC = 8, 16, 8, 16
_SIZE = _MODEL + _STATE + _LINK + _MAC

Verdict: TypeAlias = Literal["valid", "foreign", "other_model", "moved"]


def _short(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_LINK).digest()


def _mac(covered: bytes, text: str) -> bytes:
    return blake2b(covered + text.encode(), digest_size=_MAC, key=_KEY).digest()


def advance(state: bytes, block_digest: bytes) -> bytes:
    """The state after one more block that is not thinking; the first state is empty."""
    return digest(state + block_digest)


def sign(model: str, state: bytes, previous: str | None, text: str) -> str:
    """The signature of a thinking block.

    Args:
        model: the model that thinks.
        state: digest of all non-thinking blocks before it (`advance`).
        previous: the signature of the thinking block before it, or None.
        text: the block's text ("" when redacted).
    """
    covered = _short(model) + digest(state) + _short(previous or "")
    return base64.b64encode(covered + _mac(covered, text)).decode()


def verify(model: str, state: bytes, previous: str | None, text: str, signature: str) -> Verdict:
    """Whether a replayed block still stands where it was made."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return "foreign"
    covered, mac = raw[:-_MAC], raw[-_MAC:]
    if len(raw) != _SIZE or mac != _mac(covered, text):
        return "foreign"
    if covered[:_MODEL] != _short(model):
        return "other_model"
    if covered[_MODEL : _MODEL + _STATE] != digest(state):
        return "moved"
    # Without a predecessor the block is the first of the history: dropping from the front is valid.
    if previous is not None and covered[_MODEL + _STATE :] != _short(previous):
        return "moved"
    return "valid"
