"""Keeping the provider's cache of an idle session from running out, for those who ask for it.

A ping is the last request again, byte for byte, but that it asks for no answer. It reads the prompt,
and a read renews its time (Anthropic, Prompt caching). Nothing of it enters the history. Pings end
by themselves: after so many, when they have cost what one rewrite would, when one finds the cache
gone, and as soon as a run begins.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import anyio
from attrs import frozen

from unipi.providers import ProviderError
from unipi.providers.keeping import kept_for
from unipi.providers.ping import ping_head
from unipi_hookspecs import RequestInfo

from .notices import Notice

if TYPE_CHECKING:
    from unipi.prefix.seal import Sealed

    from .agent import Agent

_MARGIN = 30.0
"""Seconds before the time runs out: an entry's time counts from the start of its request."""


@frozen
class KeepWarm:
    """At most so many pings in one pause; 0 for none. `every` is in seconds, None: by the TTL."""

    pings: int = 0
    every: float | None = None


class Warmer:
    """Pings while the session is idle."""

    def __init__(self, agent: Agent, wish: KeepWarm) -> None:
        self._agent = agent
        self._wish = wish
        self._scope: anyio.CancelScope | None = None
        self.last_ms = 0  # when a ping last renewed the cache's time, in Unix milliseconds

    @property
    def active(self) -> bool:
        """Whether another ping may come in this pause."""
        return self._scope is not None

    def start(self) -> None:
        """The session is idle from now on."""
        agent = self._agent
        if self._wish.pings > 0 and agent.lineage.prefix is not None and self._scope is None:
            self._scope = anyio.CancelScope()
            agent.tasks.start_soon(self._ping_on, self._scope, name="keep-warm")

    def stop(self) -> None:
        """A run is about to begin."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    async def _ping_on(self, scope: anyio.CancelScope) -> None:
        with scope:
            await self._pings()
        if self._scope is scope:
            self._scope = None

    async def _pings(self) -> None:
        agent, spent = self._agent, 0.0
        for number in range(1, self._wish.pings + 1):
            every = self._every()
            if every is None:
                return
            await anyio.sleep(every)
            async with agent.turnstile:
                cost = await self._ping(number)
            if cost is None:
                return
            spent += cost
            if spent + cost > (agent.cache_state().price or float("inf")):
                return  # one more, and writing the prompt again would have been cheaper

    def _every(self) -> float | None:
        if self._wish.every is not None:
            return self._wish.every
        spec = self._agent.lineage.spec
        kept = kept_for(spec.model, spec.ttl) if spec is not None else None
        return None if kept is None else kept - _MARGIN

    async def _ping(self, number: int) -> float | None:
        """Send one; returns its cost in US dollars (0.0 where unknown), None to end it."""
        agent = self._agent
        sealed = self._sealed()
        if sealed is None:
            return None
        model = agent.model
        info = RequestInfo(
            request_id=uuid.uuid4().hex,
            attempt=0,
            purpose="keep_warm",
            provider=model.provider,
            api=model.api,
            model=model.id,
            epoch=agent.lineage.ledger.number,
        )
        began = agent.now()
        try:
            answer = await agent.requester.send(sealed, info, beside=True)
        except ProviderError as error:
            agent.observer(Notice("warning", f"the prompt is not kept warm any longer: {error}"))
            return None
        read = answer.usage.cache_read if answer.usage is not None else None
        if not read:
            agent.observer(
                Notice("info", "the prompt is not kept warm any longer: nothing was read")
            )
            return None
        self.last_ms = began
        text = (
            f"the prompt is kept warm (ping {number} of {self._wish.pings}): {read:,} tokens read"
        )
        agent.observer(Notice("info", text))
        usage = answer.usage
        return usage.cost.total if usage is not None and usage.cost is not None else 0.0

    def _sealed(self) -> Sealed | None:
        agent = self._agent
        prefix, spec = agent.lineage.prefix, agent.lineage.spec
        if prefix is None or spec is None or agent.prompt_text.due:
            return None  # the next request begins an epoch: there is nothing to keep
        head = ping_head(spec.model, prefix.head)
        return None if head is None else prefix.again(head)
