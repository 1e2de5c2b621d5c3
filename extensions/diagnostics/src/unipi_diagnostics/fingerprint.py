"""Keyed fingerprints of sealed requests, at the cost of what is new in them.

What is kept of a request is HMAC-SHA-256 digests (RFC 2104) under a random key of this process:
one for the envelope, one for each of its fields, one for each message, and one that chains them
into the request's own. Digests are compared whole and shown as 16 hex digits. No part of a
payload is kept, and the digests say nothing to another process.

A message is digested once. Where the host vouches that a request begins with the bytes of the last
one (`shared_length`), what is known of them stands; where it does not, everything is digested
again, to find the first message that changed.

What asks the provider about a miss (`diagnostics`) is no part of the prompt and is set aside too.
Cache markers (`cache_control`, `prompt_cache_breakpoint`) are set aside before digesting: moving
one changes neither the cached prefix nor what a signature is bound to (Anthropic, "Prompt caching"
and "Preserved thinking", 2026).
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import ProviderRequestSealedEvent

SEQUENCE_FIELDS = ("messages", "input", "contents")
"""The names under which wire APIs carry the conversation, in the order they are looked for."""

# A quote that is not escaped, so never inside a JSON string's text; marker values hold no objects.
_MARKER = re.compile(
    rb'(?<!\\)(?:,"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null)'
    rb'|"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null),?)'
)
_ASKED = re.compile(rb',"diagnostics":\{[^{}]*\}')
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
    """What is remembered of one sealed request.

    `log` holds a digest for each message and is shared with the request before it, if that is a
    prefix of this one: the first `count` are this request's. `ends` are offsets into its body.
    """

    envelope: Envelope
    digest: bytes = field(repr=False)
    log: list[bytes] = field(repr=False)
    count: int
    ends: Sequence[int] = field(repr=False)
    head_length: int
    prefix_length: int
    tail: bytes = field(repr=False)
    chain: hmac.HMAC = field(repr=False)


class Fingerprinter:
    """Makes fingerprints under one key: 32 random bytes, unless a test brings its own."""

    def __init__(self, key: bytes | None = None) -> None:
        self._base = hmac.new(key or secrets.token_bytes(32), digestmod="sha256")

    def request(self, event: ProviderRequestSealedEvent, before: Request | None) -> Request:
        """Digest a sealed request; of the prefix it shares with `before` nothing is read."""
        body = memoryview(event.body)
        route = f"{event.info.provider}/{event.info.api}/{event.info.model}"
        length = len(body) - event.tail_length
        tail = self._digest(_tail(event))
        if before and _extends(before, event, route, tail):
            envelope, log, chain = before.envelope, before.log, before.chain.copy()
            start, done = before.prefix_length, before.count
        else:
            head = body[: event.head_length]
            envelope, log, chain = self._envelope(route, head, event), [], self._base.copy()
            start, done = event.head_length, 0
        for index in range(done, len(event.message_ends)):
            end = event.message_ends[index]
            digest = self._digest(_without_markers(bytes(body[start:end])))
            chain.update(digest)
            log.append(digest)
            start = end
        whole = chain.copy()
        whole.update(envelope.raw)
        return Request(
            envelope=envelope,
            digest=whole.digest(),
            log=log,
            count=len(event.message_ends),
            ends=event.message_ends,
            head_length=event.head_length,
            prefix_length=length,
            tail=tail,
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
        text = _without_markers(bytes(head)) + b"\0" + _without_markers(_tail(event))
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


def _tail(event: ProviderRequestSealedEvent) -> bytes:
    return _ASKED.sub(b"", event.body[len(event.body) - event.tail_length :])


def _extends(before: Request, event: ProviderRequestSealedEvent, route: str, tail: bytes) -> bool:
    """Whether the request begins with all of `before`, so that only what follows is new."""
    return (
        event.shared_length >= before.prefix_length
        and before.envelope.route == route
        and before.tail == tail
        and before.head_length == event.head_length
        and len(event.message_ends) >= before.count
        and len(before.log) == before.count
    )


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text.encode()


def shown(digest: bytes) -> str:
    """The part of a digest that people see: 16 hex digits."""
    return digest.hex()[:16]
