"""What is known of the provider's cache of a session at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    if spec is None or lineage.prefix is None or not began:
        return CacheState(cold=True)
    due = agent.prompt_text.due
    kept = kept_for(spec.model, spec.ttl)
    left = None if kept is None else kept - (agent.now() - began) / 1000
    tokens = lineage.ledger.last_prompt or lineage.prefix.size // 4
    cold = None if left is None else left <= 0
    if tokens < spec.model.min_cache_tokens:
        cold, left = True, None
    if cold:
        return CacheState(
            cold=True, boundary_due=due, tokens=0, price=0.0 if spec.model.prices else None
        )
    return CacheState(
        cold=cold,
        boundary_due=due,
        tokens=tokens,
        price=lineage.ledger.price_of(tokens, spec.model.prices),
        seconds_left=left,
    )


def _last_request(agent: Agent) -> int:
    """When the last request began that the provider answered, in Unix milliseconds; 0: never."""
    for item in reversed(agent.lineage.items):
        if isinstance(item.message, AssistantMessage):
            return max(item.message.timestamp, agent.warmer.last_ms)
    return 0
