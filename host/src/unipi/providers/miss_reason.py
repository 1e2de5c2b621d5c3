"""Asking the provider what it thinks has changed since the request before.

Off unless a model's data say otherwise (`asks_miss_reason`). Anthropic takes the id of the answer
before and compares the two requests, not its cache: no reason and a low read mean that the entry has
gone (Anthropic, Cache diagnostics, 2026-08-22). The question stands behind the messages, where it
moves no byte of the prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.prefix.canonical import string
from unipi_hookspecs import AssistantMessage

from .parts import as_object, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi.prefix.lineage import Item
    from unipi_hookspecs import Model

BETA = "cache-diagnosis-2026-04-07"


def asks(model: Model) -> bool:
    """Whether a model's requests ask: its data say so, and its API has the place."""
    return model.asks_miss_reason and model.api == "anthropic-messages"


def question(model: Model, items: Sequence[Item]) -> bytes:
    """The member that asks, led by a comma, for a request behind these messages; or nothing.

    The first request of a conversation asks too, with null for the answer before: the provider
    keeps what it compares the next one with.
    """
    if not asks(model):
        return b""
    last = next((i.message for i in reversed(items) if _answered(i, model)), None)
    known = string(last.response_id) if isinstance(last, AssistantMessage) else b"null"  # type: ignore[arg-type]  # `_answered` saw it
    return b',"diagnostics":{"previous_message_id":%b}' % known


def told_reason(diagnostics: object) -> str | None:
    """The provider's word for what changed; None when it says nothing, or compares still."""
    reason = as_object(as_object(diagnostics).get("cache_miss_reason"))
    return as_text(reason.get("type")) or None


def _answered(item: Item, model: Model) -> bool:
    message = item.message
    return (
        isinstance(message, AssistantMessage)
        and message.response_id is not None
        and message.api == model.api
        and message.provider == model.provider
    )
