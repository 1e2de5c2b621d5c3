"""For how long a provider keeps a prompt, and what can be asked of it.

Sources: Anthropic, Prompt caching (2026-08-22: five minutes, or an hour, from the start of the
request that wrote or read); OpenAI, Prompt caching (2026-07-15) and the types of openai 3.57 (from
GPT-5.6 on 30 minutes, over Responses 12 hours too; before it some minutes, or 24 hours). A model
says which of OpenAI's two ways it has by a word of its dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .api import has_trait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import JSON, Model

OPTIONS = "cache-options"
"""The word of models that take `prompt_cache_options`."""

RETENTION = "cache-retention"
"""The word of models that take `prompt_cache_retention`."""

_HOUR = 3_600


@frozen
class Keeping:
    """A time in seconds, and its name on the wire; empty for what a provider does unasked."""

    seconds: int
    wire: str = ""


def keepings(model: Model) -> Sequence[Keeping]:
    """What a model offers, the provider's own default first; none where no time is documented."""
    if model.api == "anthropic-messages":
        return Keeping(300), Keeping(_HOUR, "1h")
    if has_trait(model, OPTIONS):
        longer = (Keeping(12 * _HOUR, "12h"),) if model.api == "openai-responses" else ()
        return Keeping(_HOUR // 2), *longer
    if has_trait(model, RETENTION):
        return Keeping(300), Keeping(24 * _HOUR, "24h")
    return ()


def kept_for(model: Model, wire: str) -> int | None:
    """Seconds that a model's prompt is kept at least, as asked; None where none is documented."""
    offered = keepings(model)
    return next((each.seconds for each in offered if each.wire == wire), None)


def member(model: Model, wire: str) -> dict[str, JSON]:
    """The member of an OpenAI head that asks for it."""
    if not wire:
        return {}
    if has_trait(model, OPTIONS):
        return {"prompt_cache_options": {"mode": "implicit", "ttl": wire}}
    return {"prompt_cache_retention": wire}
