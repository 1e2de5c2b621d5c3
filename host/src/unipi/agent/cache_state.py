"""What is known of the provider's cache of a session at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from unipi.providers.keeping import kept_for
from unipi_hookspecs import AssistantMessage, CacheState

if TYPE_CHECKING:
    from .agent import Agent


def cache_state(agent: Agent) -> CacheState:
    """Whether the prompt is still kept, and what it would cost to write it again.

    The time counts from the start of the last request that read or wrote it (Anthropic, Prompt
    caching); it is the least that the provider promises.
    """
    lineage, spec = agent.lineage, agent.lineage.spec
    began = _last_request(agent)
    due = agent.prompt_text.due
    if spec is None or lineage.prefix is None or not began:
        return CacheState(cold=True, why="first", boundary_due=due)
    model = spec.model
    tokens = lineage.ledger.last_prompt or lineage.prefix.size // 4
    kept = kept_for(model, spec.ttl)
    left = None if kept is None else kept - (agent.now() - began) / 1000
    why: Literal["", "idle", "minimum"] = ""
    if tokens < model.min_cache_tokens:
        why = "minimum"
    elif left is not None and left <= 0:
        why = "idle"
    return CacheState(
        cold=True if why else None if left is None else False,
        why=why,
        boundary_due=due,
        tokens=0 if why else tokens,
        price=lineage.ledger.price_of(0 if why else tokens, model.prices),
        kept_seconds=kept,
        seconds_left=left,
    )


def _last_request(agent: Agent) -> int:
    """When the last request began that the provider answered, in Unix milliseconds; 0: never."""
    for item in reversed(agent.lineage.items):
        if isinstance(item.message, AssistantMessage):
            return max(item.message.timestamp, agent.warmer.last_ms)
    return 0
