"""The agent loop: request, answer, tool calls, results, and again until nothing is left to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from attrs import evolve

from unipi.providers import ProviderError
from unipi_hookspecs import (
    AgentEndEvent,
    AgentSettledEvent,
    AgentStartEvent,
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    TurnEndEvent,
    TurnStartEvent,
)

from .batch import RunningCall, all_terminate, result_message, run_batch
from .notices import Notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import Image, Message

    from .agent import Agent

_CUT = "Not run: the answer was cut at its output limit before this call was complete."
_UNSAVED = "Not run: the session could not be saved."
_SETTLE_SECONDS = 5.0


class RunFailedError(Exception):
    """The provider could not be made to answer; the text is its own words."""


async def run_loop(
    agent: Agent, opening: Sequence[Message], prompt: str, images: Sequence[Image]
) -> None:
    """One run, from its opening messages to settled.

    Every way of starting a run comes through here, so every run builds the same head. Raises
    RunFailedError when the provider failed for good; the session is valid in any case.
    """
    said: list[Message] = []
    try:
        opening = [*opening, *(agent.queues.take_next_turn() if opening else ())]
        if not opening and not agent.queues.steers:
            opening, _ = agent.queues.take_follow_up()  # else the first request would say nothing
        opening += await agent.prompt_text.begin_run(prompt, images)
        await agent.hooks.agent_start(AgentStartEvent())
        await _say(agent, opening, said)
        await _turns(agent, said)
    finally:
        # What a cancelled turn leaves must be valid and told, so this part is not interrupted.
        with anyio.move_on_after(_SETTLE_SECONDS, shield=True):
            agent.verbs.flush()
            await agent.hooks.agent_end(AgentEndEvent(tuple(said)))
            _drain_quiet(agent)
            try:
                await agent.save()
            finally:
                await agent.hooks.agent_settled(AgentSettledEvent(agent.cancelled))


async def _turns(agent: Agent, said: list[Message]) -> None:
    for index in range(agent.max_turns):
        steering, _ = agent.queues.take_steering()
        await _say(agent, steering, said)
        finished = await _turn(agent, index, said)
        if agent.queues.steers:
            continue
        if finished:
            following, wants_turn = agent.queues.take_follow_up()
            await _say(agent, following, said)
            if not wants_turn:
                return
    agent.observer(
        Notice("warning", f"stopped after {agent.max_turns} turns; say /continue to go on")
    )


async def _say(agent: Agent, messages: Sequence[Message], said: list[Message]) -> None:
    """Add messages to the history; those that have their place right before a request wait."""
    for message in messages:
        if not agent.verbs.hold(message):
            said.append(await agent.add(message))


async def _turn(agent: Agent, index: int, said: list[Message]) -> bool:
    """One request and the calls it asks for; returns whether the loop may stop."""
    if await agent.compactor.before_request():
        # What plugins say of a compaction belongs to the first request behind it.
        await _say(agent, agent.queues.take_steering()[0], said)
    await agent.hooks.turn_start(TurnStartEvent(index, agent.now()))
    said += await agent.verbs.settle()
    answer = await _answer(agent)
    said.append(answer)
    calls = [part for part in answer.content if isinstance(part, ToolCall)]
    results: list[ToolResultMessage] = []
    terminate = False
    if calls and answer.stop_reason == "length":
        results = _refuse_all(agent, calls, _CUT)
    elif calls:
        if agent.session.stuck:
            await _wait_for_room(agent, calls)
        running = await run_batch(agent, calls)
        terminate = all_terminate(running)
        results = await _store_results(agent, running)
    said += results
    await anyio.lowlevel.checkpoint_if_cancelled()
    await agent.hooks.turn_end(TurnEndEvent(index, answer, tuple(results)))
    return terminate or not calls


async def _answer(agent: Agent) -> AssistantMessage:
    try:
        answer = await _answered(agent)
    except ProviderError as error:
        partial = error.partial or AssistantMessage(())
        failed = evolve(
            partial,
            api=agent.model.api,
            provider=agent.model.provider,
            model=agent.model.id,
            # A call that was never completed must not look like one.
            content=tuple(p for p in partial.content if not isinstance(p, ToolCall)),
            stop_reason="error",
            error_message=str(error),
            timestamp=agent.now(),
        )
        agent.store(failed)
        raise RunFailedError(f"{agent.model.name}: {error}") from error
    except anyio.get_cancelled_exc_class():
        agent.store(
            AssistantMessage(
                (),
                api=agent.model.api,
                provider=agent.model.provider,
                model=agent.model.id,
                stop_reason="aborted",
                timestamp=agent.now(),
            )
        )
        raise
    if not agent.requester.announced:
        await agent.message_started(answer)
    sealed = await agent.seal(answer)
    assert isinstance(sealed, AssistantMessage), "message_end keeps the role"
    return sealed


async def _answered(agent: Agent) -> AssistantMessage:
    """The next answer.

    A context that the provider has no room for is compacted, once; thinking that it refuses is left
    out, once.
    """
    try:
        return await agent.requester.answer()
    except ProviderError as error:
        helped = False
        if error.action == "compact":
            helped = await agent.compactor.after_overflow()
        elif error.action == "unbind":
            helped = agent.requester.unbind_all(str(error))
        if not helped:
            raise
    return await agent.requester.answer()


async def _wait_for_room(agent: Agent, calls: Sequence[ToolCall]) -> None:
    """Let no call run that a full disk would forget; each has its result all the same."""
    try:
        await agent.save()
    except BaseException:
        _refuse_all(agent, calls, _UNSAVED)
        raise


async def _store_results(agent: Agent, running: Sequence[RunningCall]) -> list[ToolResultMessage]:
    """Store the results in the model's order; a cancellation does not lose one."""
    results: list[ToolResultMessage] = []
    with anyio.CancelScope(shield=True):
        for item in running:
            message = result_message(item, agent.now())
            if item.cancelled:
                agent.store(message)
                results.append(message)
                continue
            stored = await agent.add(message)
            assert isinstance(stored, ToolResultMessage), "message_end keeps the role"
            results.append(stored)
    return results


def _refuse_all(agent: Agent, calls: Sequence[ToolCall], text: str) -> list[ToolResultMessage]:
    results = []
    for call in calls:
        item = RunningCall(agent, call, call.arguments)
        item.refuse(text)
        message = result_message(item, agent.now())
        agent.store(message)
        results.append(message)
    return results


def _drain_quiet(agent: Agent) -> None:
    """Snapshots that arrived too late for a request are history now; prompts stay queued."""
    for queue in (agent.queues.steer, agent.queues.follow_up):
        for message, turn in list(queue):
            if not turn:
                queue.remove((message, turn))
                agent.store(message)
