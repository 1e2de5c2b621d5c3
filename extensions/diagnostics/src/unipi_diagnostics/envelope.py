"""All of a request but its messages, as keyed digests.

A digest is HMAC-SHA-256 (RFC 2104) under a random key of this process, compared whole and shown as
16 hex digits. No part of a payload is kept, and the digests say nothing to another process.

Cache markers (`cache_control`, `prompt_cache_breakpoint`) are set aside before digesting: moving one
changes neither the cached prefix nor what a signature is bound to (Anthropic, "Prompt caching" and
"Preserved thinking", 2026). So is what asks the provider about a miss (`diagnostics`).
"""

from __future__ import annotations

import hmac
import json
import re
from typing import TYPE_CHECKING

from attrs import field, frozen

from .structure import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .structure import Structure

SEQUENCE_FIELDS = ("messages", "input", "contents")
"""The names under which wire APIs carry the conversation, in the order they are looked for."""

# A quote that is not escaped, so never inside a JSON string's text; marker values hold no objects.
_MARKER = re.compile(
    rb'(?<!\\)(?:,"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null)'
    rb'|"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null),?)'
)
_ASKED = re.compile(rb',"diagnostics":\{[^{}]*\}')


@frozen
class Envelope:
    """The route and every field but the conversation.

    `digest` covers the meaning of every field (key order set aside), `raw` the bytes as they are.
    `fields` holds a digest for each top-level field; `sequence` is the name of the field with the
    conversation, or `none`. `structure` has the digests of every value in it, by which a change is
    located; None for what is no JSON object.
    """

    route: str
    sequence: str
    digest: bytes = field(repr=False)
    raw: bytes = field(repr=False)
    fields: Mapping[str, bytes] = field(repr=False)
    structure: Structure | None = field(default=None, repr=False)


def read_envelope(key: bytes, route: str, head: bytes, tail: bytes) -> Envelope:
    """Digest what stands before and behind the messages of a body."""
    # Head and tail closed over no messages are one JSON object.
    before, after = _MARKER.sub(b"", head), _MARKER.sub(b"", tail)
    text = before + after
    raw = keyed(key, b"%b\0%d\0%b" % (route.encode(), len(before), text))
    try:
        parsed = json.loads(text)
        structure = parse(text, key)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return Envelope(route, "none", raw, raw, {})
    sequence = next((n for n in SEQUENCE_FIELDS if isinstance(parsed.get(n), list)), "none")
    # What stands in the sequence already (a leading system message) belongs to the envelope.
    fields = {
        "leading messages" if name == sequence else name: keyed(key, _canonical(value))
        for name, value in parsed.items()
    }
    parts = [b"%b=%b;" % (name.encode(), fields[name]) for name in sorted(fields)]
    digest = keyed(key, b"".join((route.encode(), b"\0", *parts)))
    return Envelope(route, sequence, digest, raw, fields, structure)


def without_question(tail: bytes) -> bytes:
    """What closes a body, without the member that asks about a miss."""
    return _ASKED.sub(b"", tail)


def keyed(key: bytes, data: bytes) -> bytes:
    """The digest of some bytes."""
    return hmac.digest(key, data, "sha256")


def shown(digest: bytes) -> str:
    """The part of a digest that people see: 16 hex digits."""
    return digest.hex()[:16]


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
