"""A head under which a request fills or refreshes the cache and generates nothing.

Anthropic documents that for `max_tokens: 0` (Prompt caching, 2026-08-22): no stream, no budget of
thinking, no answer format and no forced tool; all else stays, byte for byte, as the cache goes by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from .parts import as_object, read_json
from .tool_calls import members

if TYPE_CHECKING:
    from unipi.prefix.wire import Head
    from unipi_hookspecs import Model


def ping_head(model: Model, head: Head) -> Head | None:
    """The head of a ping, or None where the API has none, or refuses it beside what this one asks."""
    if model.api != "anthropic-messages":
        return None
    asked = read_json(head.open + head.close)
    if (
        as_object(asked.get("thinking")).get("type") == "enabled"
        or as_object(asked.get("output_config")).get("format") is not None
        or as_object(asked.get("tool_choice")).get("type") in ("any", "tool")
    ):
        return None
    text = (head.open + head.close).decode("latin-1")  # a character a byte
    opened = head.open
    spans = {key: (start, end) for key, start, end in members(text)}
    for (start, end), value in sorted(
        ((spans[key], value) for key, value in _ASKED.items() if key in spans), reverse=True
    ):
        opened = opened[:start] + value + opened[end:]
    return evolve(head, open=opened)


_ASKED = {"max_tokens": b"0", "stream": b"false"}
