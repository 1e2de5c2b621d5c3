"""Keyed fingerprints of sealed requests, at the cost of what is new in them.

What is kept of a request is HMAC-SHA-256 digests (RFC 2104) under a random key of this process:
one for the envelope, one for each of its fields, one for each message, and one that chains them
into the request's own. Digests are compared whole and shown as 16 hex digits. No part of a
payload is kept, and the digests say nothing to another process.

A message is digested once. Whether the earlier ones are still the same bytes is asked of a CRC-32
over the prefix: a tripwire, several times faster than a digest, which a changed prefix of equal
message lengths passes once in 4 billion times. Only when it (or a length) differs is every message
digested again, to find the first one that changed. The CRC is never shown.

Cache markers (`cache_control`, `prompt_cache_breakpoint`) are set aside before digesting: moving
one changes neither the cached prefix nor what a signature is bound to (Anthropic, "Prompt caching"
and "Preserved thinking", 2026).
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import zlib
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import ProviderRequestSealedEvent

SEQUENCE_FIELDS = ("messages", "input", "contents")
"""The names under which wire APIs carry the conversation, in the order they are looked for."""

# A quote that is not escaped, so never inside a JSON string's text; marker values hold no objects.
_MARKER = re.compile(
    rb'(?<!\\)(?:,"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null)'
    rb'|"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null),?)'
)
_MARKER_NAMES = (b'"cache_control"', b'"prompt_cache_breakpoint"')


def _without_markers(data: bytes) -> bytes:
    if any(name in data for name in _MARKER_NAMES):
        return _MARKER.sub(b"", data)
    return data


@frozen
class Envelope:
    """All of a request but its messages.

    `digest` covers the route and the meaning of every field (key order set aside), `raw` the bytes
    as they are. `fields` holds a digest for each top-level field; `sequence` is the name of the
    field with the conversation, or `none`.
    """

    route: str
    sequence: str
    digest: bytes = field(repr=False)
    raw: bytes = field(repr=False)
    fields: Mapping[str, bytes] = field(repr=False)


@frozen(eq=False)
class Request:
    """What is remembered of one sealed request. `ends` are byte offsets into its body."""

    envelope: Envelope
    digest: bytes = field(repr=False)
    messages: tuple[bytes, ...] = field(repr=False)
    ends: tuple[int, ...] = field(repr=False)
    head_length: int
    tail: bytes = field(repr=False)
    crc: int = field(repr=False)
    chain: hmac.HMAC = field(repr=False)

    @property
    def prefix_length(self) -> int:
        """Bytes up to the end of the last message."""
        return self.ends[-1] if self.ends else self.head_length


class Fingerprinter:
    """Makes fingerprints under one key: 32 random bytes, unless a test brings its own."""

    def __init__(self, key: bytes | None = None) -> None:
        self._base = hmac.new(key or secrets.token_bytes(32), digestmod="sha256")

    def request(self, event: ProviderRequestSealedEvent, before: Request | None) -> Request:
        """Digest a sealed request, reusing what `before` knows of the prefix they share."""
        body = memoryview(event.body)
        route = f"{event.info.provider}/{event.info.api}/{event.info.model}"
        tail = self._digest(body[len(body) - event.tail_length :])
        if before and _extends(before, event, route, tail):
            envelope, messages, old_ends = before.envelope, before.messages, before.ends
            crc, chain, start = before.crc, before.chain.copy(), before.prefix_length
        else:
            head = body[: event.head_length]
            envelope, messages, old_ends = self._envelope(route, head, event), (), ()
            crc, chain, start = zlib.crc32(head), self._base.copy(), event.head_length
        fresh = []
        new_ends = event.message_ends[len(old_ends) :]
        for end in new_ends:
            crc = zlib.crc32(body[start:end], crc)
            digest = self._digest(_without_markers(bytes(body[start:end])))
            chain.update(digest)
            fresh.append(digest)
            start = end
        whole = chain.copy()
        whole.update(envelope.raw)
        return Request(
            envelope=envelope,
            digest=whole.digest(),
            messages=(*messages, *fresh),
            ends=(*old_ends, *new_ends),
            head_length=event.head_length,
            tail=tail,
            crc=crc,
            chain=chain,
        )

    def _digest(self, *parts: bytes | memoryview) -> bytes:
        running = self._base.copy()
        for part in parts:
            running.update(part)
        return running.digest()

    def _envelope(
        self, route: str, head: memoryview, event: ProviderRequestSealedEvent
    ) -> Envelope:
        tail = event.body[len(event.body) - event.tail_length :]
        text = _without_markers(bytes(head)) + b"\0" + _without_markers(tail)
        raw = self._digest(route.encode(), b"\0", text)
        try:
            # Head and tail closed over no messages are one JSON object.
            parsed = json.loads(text.replace(b"\0", b"", 1))
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            return Envelope(route, "none", raw, raw, {})
        sequence = next((n for n in SEQUENCE_FIELDS if isinstance(parsed.get(n), list)), "none")
        # What stands in the sequence already (a leading system message) belongs to the envelope.
        fields = {
            "leading messages" if name == sequence else name: self._digest(_canonical(value))
            for name, value in parsed.items()
        }
        parts = [b"%s=%s;" % (name.encode(), fields[name]) for name in sorted(fields)]
        return Envelope(route, sequence, self._digest(route.encode(), b"\0", *parts), raw, fields)


def _extends(before: Request, event: ProviderRequestSealedEvent, route: str, tail: bytes) -> bool:
    """Whether the request begins with all of `before`, so that only what follows is new."""
    count, length = len(before.ends), before.prefix_length
    return (
        before.envelope.route == route
        and before.head_length == event.head_length
        and before.tail == tail
        and len(event.message_ends) >= count
        and (count == 0 or event.message_ends[count - 1] == length)
        and zlib.crc32(memoryview(event.body)[:length]) == before.crc
    )


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text.encode()


def shown(digest: bytes) -> str:
    """The part of a digest that people see: 16 hex digits."""
    return digest.hex()[:16]
