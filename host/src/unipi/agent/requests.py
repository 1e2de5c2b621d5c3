"""From the branch to an answer: project, guard, seal, save, send; retry with the same bytes."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING

import anyio
from attrs import Factory, evolve, frozen

from unipi.prefix.canonical import compact
from unipi.prefix.guard import ContextGuard, HeadWatch, PayloadGuard, Rewrite, shape_digest
from unipi.prefix.ledger import Reason
from unipi.prefix.payload import WireMessages, head_of, payload_of
from unipi.providers import ProviderError, redacted, request_headers, send
from unipi.providers.miss_reason import question
from unipi.session import SessionWriteError
from unipi_hookspecs import (
    AfterProviderResponseEvent,
    AssistantMessage,
    BeforeProviderHeadersEvent,
    BeforeProviderRequestEvent,
    ContextEvent,
    MessageUpdateEvent,
    ProviderRequestSealedEvent,
    ProviderResponseEndEvent,
    RequestInfo,
)

from . import records
from .notices import Notice
from .verbs import is_of_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from unipi.prefix.lineage import Decision
    from unipi.prefix.seal import Sealed
    from unipi.prefix.wire import Head, HeadSpec
    from unipi.providers import StreamDelta
    from unipi_hookspecs import Message, Payload, Purpose

    from .agent import Agent


@frozen
class RetryPolicy:
    """How often a request that failed in passing is sent again, the very same bytes.

    Waits double from `base` seconds to `cap`, with jitter; a server's `retry-after` is honoured,
    and one beyond `longest` seconds ends the attempt (Pi's default, 60 s).
    """

    attempts: int = 4
    base: float = 0.5
    cap: float = 8.0
    longest: float = 60.0

    def wait(self, attempt: int, retry_after: float | None) -> float | None:
        """Seconds before the attempt after `attempt`, or None when there is none."""
        if attempt + 1 >= self.attempts:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.longest else None
        step = min(self.cap, self.base * 2.0**attempt)
        return step * (0.75 + random.random() / 4)  # noqa: S311 - spreads load, guards nothing


@frozen
class _Shape:
    """What plugins made of a payload: its head, why it starts an epoch, its new wire messages."""

    head: Head
    reason: Reason | None
    wire: list[tuple[str, bytes]]
    owner: str | None = None
    marked: Mapping[tuple[int, int], str] = Factory(dict)


class Requester:
    """Builds and sends the requests of one lineage."""

    def __init__(self, agent: Agent, retry: RetryPolicy) -> None:
        self._agent = agent
        self._retry = retry
        self._watch = HeadWatch()
        self._reported: set[tuple[str, str]] = set()
        self._touched = False
        self.announced = False  # whether the answer's message_start has been told

    @property
    def shapes(self) -> Mapping[str, str]:
        """What each plugin made of the epoch's head, by digest."""
        return self._watch.first

    def restore_shapes(self, shapes: Mapping[str, str]) -> None:
        """Take over what plugins made of a head in another process."""
        self._watch.first.update(shapes)

    async def answer(self, purpose: Purpose | None = None) -> AssistantMessage:
        """Send the next request of the session and return the answer as received.

        Raises `ProviderError` when no attempt succeeded.
        """
        agent = self._agent
        model = agent.model
        info = RequestInfo(
            request_id=uuid.uuid4().hex,
            attempt=0,
            purpose=purpose or agent.purpose,
            provider=model.provider,
            api=model.api,
            model=model.id,
            epoch=agent.lineage.ledger.number,
        )
        spec = agent.head_spec()
        agent.lineage.after = question(model, agent.lineage.items)
        if agent.lineage.reason_for(spec) is not None:
            agent.lineage.cold = agent.cache_state().why == "idle"
        sealed, info = await self._build(spec, info)
        verbs = agent.verbs.take_used()
        data = records.request_data(agent.lineage, info, verbs)
        agent.session.append_custom(records.REQUEST, data)
        if agent.session.stuck:
            await agent.save()
        return await self.send(sealed, info)

    # Building.

    async def _build(self, spec: HeadSpec, info: RequestInfo) -> tuple[Sealed, RequestInfo]:
        agent, lineage = self._agent, self._agent.lineage
        if lineage.reason_for(spec) is not None:
            self._remember(lineage.retire(is_of_tools))
        messages, new_from = lineage.project()
        self._remember(lineage.take_hidden())
        override: Sequence[Message] | None = None
        owner: str | None = None
        if agent.hooks.has("context"):
            asked_by = lineage.asked_by
            guard = ContextGuard(messages, new_from, agent.policy, self.name, asked_by)
            await agent.hooks.context(ContextEvent(messages, new_from, info), guard.check)
            override, owner = guard.override, guard.owner
            if override is None:
                self._remember(lineage.accept(guard.tail, guard.first))
        reason = lineage.reason_for(spec)
        if reason is None and (override is not None or lineage.diverged):
            who = owner or lineage.diverged or "host"
            reason = Reason("plugin_rewrite", who, avoidable=True, detail="context")
        head = agent.head(spec)
        if override is not None:
            fragments = [("", raw) for _, raw in agent.api.fragments(override, spec.model)]
        elif reason is not None:
            fragments = lineage.all_fragments(spec)
        else:
            fragments = lineage.new_fragments(spec)
        marked: Mapping[tuple[int, int], str] = {}
        if agent.hooks.has("before_provider_request"):
            shape = await self._shape(head, reason, fragments, info)
            head, reason, fragments, owner = (
                shape.head,
                shape.reason,
                shape.wire,
                shape.owner or owner,
            )
            marked = shape.marked
        if reason is not None and spec.model.binds_thinking:
            fragments, reason = self._unbind(head, fragments, reason)
        wire = [raw for _, raw in fragments]
        if reason is None:
            sealed = lineage.extend(wire, list(marked))
            self._tell_of_markers(marked)
            return sealed, info
        sealed, boundary = lineage.restart(spec, head, reason, wire, owner, list(marked))
        self._tell_of_markers(marked)
        if boundary is not None:
            await agent.crossed(boundary, head)
            info = evolve(info, epoch=boundary.number)
        return sealed, info

    async def _shape(
        self,
        head: Head,
        reason: Reason | None,
        fragments: list[tuple[str, bytes]],
        info: RequestInfo,
    ) -> _Shape:
        """Let plugins shape the payload, and hold them to the policy."""
        agent, lineage = self._agent, self._agent.lineage
        prefix = None if reason is not None else lineage.prefix
        fragments = [pair for pair in fragments if pair[1]]  # the others reach no model
        sent = len(prefix) if prefix is not None else 0
        wire = WireMessages(prefix, [raw for _, raw in fragments])
        base = payload_of(head, wire)
        guard = PayloadGuard(sent, agent.policy, self.name)
        final = await agent.hooks.before_provider_request(
            BeforeProviderRequestEvent(base, info), guard.check
        )
        for index, changed in guard.changed.items():
            fragments[index - sent] = (fragments[index - sent][0], compact(changed))
        for entry_id in dict.fromkeys(fragments[index - sent][0] for index in guard.changed):
            whole = b",".join(raw for owner_id, raw in fragments if owner_id == entry_id)
            decision = records.wire_decision(entry_id, whole)
            lineage.decide(decision)
            self._remember([decision])
        touched = [
            (who, shape_digest(head_of(head, made).open)) for who, made in guard.touched_head
        ]
        self._touched = self._touched or bool(touched)
        shaped = head_of(head, final) if touched else head
        if prefix is None:
            self._watch.take(touched)
        if guard.override is not None:
            fragments = [("", raw) for raw in wire.encode(guard.override.messages)]
            owner = guard.owner or "host"
            reason = reason or Reason("plugin_rewrite", owner, avoidable=True)
            return _Shape(shaped, reason, fragments, owner, guard.marked)
        if prefix is None or shaped.open == prefix.head.open:
            return _Shape(shaped, reason, fragments, marked=guard.marked)
        if not self._touched:
            # Shaped by another process, whose plugins are gone: the stored head stands.
            return _Shape(prefix.head, reason, fragments, marked=guard.marked)
        moved, reason = self._moved_head(
            shaped, self._watch.culprit(touched) or "host", base, final
        )
        if reason is not None:
            self._watch.take(touched)
            fragments = lineage.all_fragments(agent.head_spec())
        return _Shape(moved, reason, fragments, marked=guard.marked)

    def _unbind(
        self, head: Head, fragments: list[tuple[str, bytes]], reason: Reason
    ) -> tuple[list[tuple[str, bytes]], Reason]:
        """Leave out thinking that the provider would refuse behind this boundary, for good."""
        agent, lineage = self._agent, self._agent.lineage
        places = lineage.unbind(agent.model, head, fragments)
        if not places:
            return fragments, reason
        ids = [entry_id for entry_id in dict.fromkeys(fragments[p][0] for p in places) if entry_id]
        lineage.unbound.update(ids)
        if ids:
            agent.session.append_custom(records.PROJECTION, records.unbound_data(ids))
        fragments = list(fragments)
        for place in places:
            entry_id, raw = fragments[place]
            fragments[place] = (entry_id, agent.api.without_thinking(raw))
        said = (
            f"thinking of {len(places)} answers left out, which is bound to what was there before"
        )
        detail = f"{reason.detail}; {said}" if reason.detail else said
        return fragments, evolve(reason, detail=detail)

    def unbind_all(self, why: str) -> bool:
        """Leave all thinking out after the provider has refused it; False: there is none left."""
        agent = self._agent
        ids = agent.lineage.unbind_all()
        if not ids:
            return False
        agent.session.append_custom(records.PROJECTION, records.unbound_data(ids))
        detail = "the provider refused the thinking of earlier answers; it is left out"
        agent.lineage.want_boundary(Reason("payload_shape", "host", detail=detail))
        agent.observer(Notice("warning", f"{detail}: {why}"))
        return True

    def _tell_of_markers(self, marked: Mapping[tuple[int, int], str]) -> None:
        """Say once to each plugin that marks for the cache that there is room for so many."""
        agent = self._agent
        for plugin in dict.fromkeys(marked.values() if agent.lineage.set_aside else ()):
            key = (plugin, "cache markers")
            if key not in self._reported:
                self._reported.add(key)
                room = agent.api.marker(agent.head_spec())
                slots = room.slots if room is not None else 0
                text = (
                    f"plugin {plugin!r} places cache markers of its own; beside the host's there is "
                    f"room for {slots}, so the newest stand, and none on messages already sent"
                )
                agent.observer(Notice("info", text, plugin))

    def _moved_head(
        self, shaped: Head, who: str, base: Payload, final: Payload
    ) -> tuple[Head, Reason | None]:
        agent = self._agent
        assert agent.lineage.prefix is not None, "a head can move only once it was sent"
        part = "payload_shape"
        if final.system != base.system:
            part = "system_prompt"
        elif final.tools != base.tools:
            part = "tools"
        what = f"changed the head of the request ({part})"
        advice = "give it the same shape every time, or ask for ctx.request_boundary"
        self.name(Rewrite(who, "before_provider_request", what, advice))
        if agent.policy == "enforce":
            return agent.lineage.prefix.head, None
        return shaped, Reason(part, who, avoidable=True, detail="before_provider_request")

    def _remember(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self._agent.session.append_custom(records.PROJECTION, records.projection_data(decision))

    def name(self, rewrite: Rewrite) -> None:
        """Name a plugin once for each hook it rewrites in."""
        agent = self._agent
        agent.rewrites.append(rewrite)
        key = (rewrite.plugin, rewrite.hook)
        if agent.policy != "off" and key not in self._reported:
            self._reported.add(key)
            refused = "refused" if agent.policy == "enforce" else "recorded"
            agent.observer(Notice("warning", f"prefix: {refused}: {rewrite.text}", rewrite.plugin))

    # Sending.

    async def send(
        self, sealed: Sealed, info: RequestInfo, *, beside: bool = False
    ) -> AssistantMessage:
        """Send until an attempt succeeds; the last bytes of the first wait for the disk.

        One that goes out `beside` the session's line is no answer of the session's: it is not
        announced, and the line does not count it. Raises `ProviderError`.
        """
        agent = self._agent
        renewed = False
        while True:
            headers: Mapping[str, str] = request_headers(
                agent.model, await agent.keys.of(agent.model), info, lineage=agent.session.id
            )
            if agent.hooks.has("before_provider_headers"):
                headers, _ = await agent.hooks.before_provider_headers(
                    BeforeProviderHeadersEvent(headers, info)
                )
            try:
                answer = await self._attempt(sealed, info, headers, beside=beside)
            except SessionWriteError:
                await (
                    agent.save()
                )  # the request was never completed; it goes out once there is room
            except ProviderError as error:
                wait = (
                    self._retry.wait(info.attempt, error.retry_after) if error.retryable else None
                )
                if error.action == "authenticate" and not renewed:
                    # A key that a command made may have run out; a new one is tried once.
                    renewed = await agent.keys.renew(agent.model)
                    wait = 0.0 if renewed else None
                if wait is None:
                    raise
                text = f"{error}; the same request again in {wait:.1f} s"
                agent.observer(Notice("warning", text))
                await anyio.sleep(wait)
                info = evolve(info, attempt=info.attempt + 1)
            else:
                if not beside:
                    agent.lineage.answered(answer.usage.prompt if answer.usage else None)
                    agent.compactor.reported(answer)
                return answer

    async def _attempt(
        self, sealed: Sealed, info: RequestInfo, headers: Mapping[str, str], *, beside: bool
    ) -> AssistantMessage:
        agent, hooks = self._agent, self._agent.hooks
        started = time.perf_counter()
        on_delta: Callable[[StreamDelta], Awaitable[None]] | None = None
        if not beside:
            self.announced = False
            if agent.wants_deltas or hooks.has("message_update"):
                on_delta = self._on_delta()

        async def sent() -> None:
            await self._tell_sealed(sealed, info, headers)

        async def on_response(status: int, answer_headers: Mapping[str, str]) -> None:
            await hooks.after_provider_response(
                AfterProviderResponseEvent(status, answer_headers, info)
            )

        try:
            answer = await send(
                agent.transport,
                agent.model,
                sealed.body,
                headers,
                info=info,
                on_response=on_response if hooks.has("after_provider_response") else None,
                on_delta=on_delta,
                ready=agent.save_now,
                sent=sent if hooks.has("provider_request_sealed") or agent.wants_bodies else None,
                clock_ms=agent.now,
            )
        except ProviderError as error:
            partial = error.partial
            await self._ended(info, partial, started, str(error))
            raise
        await self._ended(info, answer, started, None)
        return answer

    async def _tell_sealed(
        self, sealed: Sealed, info: RequestInfo, headers: Mapping[str, str]
    ) -> None:
        """Show what has just gone out, while the provider works on it."""
        event = ProviderRequestSealedEvent(
            sealed.body,
            redacted(headers),
            info,
            sealed.head_length,
            sealed.tail_length,
            sealed.message_ends,
            # A retry is the last request again, all of it.
            len(sealed.body) - sealed.tail_length if info.attempt else sealed.shared_length,
            len(sealed.message_ends) if info.attempt else sealed.kept_messages,
            sealed.same_meaning and not info.attempt,
            sealed.fingerprint,
        )
        self._agent.observer(event)
        await self._agent.hooks.provider_request_sealed(event)

    async def _ended(
        self,
        info: RequestInfo,
        answer: AssistantMessage | None,
        started: float,
        error: str | None,
    ) -> None:
        event = ProviderResponseEndEvent(
            info,
            answer.usage if answer else None,
            "error" if error else answer.stop_reason if answer else "error",
            answer.response_id if answer else None,
            error,
            (time.perf_counter() - started) * 1e3,
        )
        self._agent.observer(event)
        await self._agent.hooks.provider_response_end(event)

    def _on_delta(self) -> Callable[[StreamDelta], Awaitable[None]]:
        agent = self._agent

        async def on_delta(delta: StreamDelta) -> None:
            if not self.announced:
                self.announced = True
                await agent.message_started(AssistantMessage(()))
            event = MessageUpdateEvent(delta.kind, delta.index, delta.delta)
            agent.observer(event)
            await agent.hooks.message_update(event)

        return on_delta
