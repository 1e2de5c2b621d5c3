"""The tool calls of one answer: checked in the model's order, run together, stored in its order.

Every call gets exactly one result, whatever happens: an unknown tool, arguments that do not fit, a
refusal, an exception, a cancellation. Tools run in the session's task group rather than in the
turn's, so that one which ignores its cancellation cannot hold the turn: past the grace its late
result is dropped and counted.
"""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING

import anyio
from attrs import Factory, define, field

from unipi.hooks import acting_as
from unipi_hookspecs import (
    Text,
    ToolCallEvent,
    ToolExecutionEndEvent,
    ToolExecutionStartEvent,
    ToolExecutionUpdateEvent,
    ToolOutput,
    ToolResultEvent,
    ToolResultMessage,
)

from .output import bounded_content, complaint, without_copies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON, ToolCall, UserContent

    from .agent import Agent
    from .toolbox import OwnedTool

GRACE_SECONDS = 3.0
"""How long a cancelled turn waits for its tools before it goes on without them."""

CANCELLED = "Cancelled: the user stopped this turn before the call had finished."


@define(eq=False)
class RunningCall:
    """A call on its way: what a tool's `run` gets as `call`, and where its outcome goes."""

    agent: Agent
    call: ToolCall
    input: Mapping[str, JSON]
    owned: OwnedTool | None = None
    output: ToolOutput | None = None
    ran: bool = False
    cancelled: bool = False
    abandoned: bool = False
    started_ns: int = 0
    done: anyio.Event = Factory(anyio.Event)
    scope: anyio.CancelScope = field(factory=anyio.CancelScope, repr=False)

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def name(self) -> str:
        return self.call.name

    async def update(self, partial: str) -> None:
        """Show partial output; dropped once the call has its result."""
        if not self.done.is_set() and not self.abandoned:
            event = ToolExecutionUpdateEvent(self.call.id, self.call.name, partial)
            self.agent.observer(event)
            await self.agent.hooks.tool_execution_update(event)

    def refuse(self, text: str, *, terminate: bool = False) -> None:
        """Answer in place of the tool."""
        self.output = ToolOutput(text, is_error=True, terminate=terminate)
        self.done.set()


async def run_batch(agent: Agent, calls: Sequence[ToolCall]) -> list[RunningCall]:
    """Run the calls of one answer; returns them, each with its output, in the model's order.

    A cancellation is taken note of in the outcomes and raised again by the caller's next await.
    """
    running = [RunningCall(agent, call, call.arguments) for call in calls]
    try:
        for item in running:
            await _preflight(item)
            if item.output is not None:
                await _ended(item, _blocks(item.output.content), is_error=True)
        ready = [item for item in running if not item.done.is_set()]
        sequential = any(
            item.owned and item.owned.tool.execution_mode == "sequential" for item in ready
        )
        for item in ready:
            agent.tasks.start_soon(_work, item)
            if sequential:
                await item.done.wait()
        for item in ready:
            await item.done.wait()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await _wind_down(running)
    return running


async def _preflight(item: RunningCall) -> None:
    agent, call = item.agent, item.call
    start = ToolExecutionStartEvent(call.id, call.name, call.arguments)
    agent.observer(start)
    await agent.hooks.tool_execution_start(start)
    refusal = agent.policy_refusal() or agent.toolbox.refusal(call.name) or call.problem
    if refusal:
        return item.refuse(refusal)
    item.owned = agent.toolbox.visible[call.name]
    problem = agent.validators.problems(item.owned.tool, call.arguments)
    if problem:
        return item.refuse(problem)
    decision = await agent.hooks.tool_call(ToolCallEvent(call.name, call.id, call.arguments))
    if decision.block is not None:
        return item.refuse(decision.block.reason, terminate=decision.block.terminate)
    if decision.input is not call.arguments:
        problem = agent.validators.problems(item.owned.tool, decision.input)
        if problem:
            names = ", ".join(repr(name) for name in decision.replaced_by)
            return item.refuse(f"Plugin {names} replaced the arguments. {problem}")
        item.input = decision.input
    return None


async def _work(item: RunningCall) -> None:
    item.started_ns = time.perf_counter_ns()
    try:
        with item.scope:
            output = await _invoke(item)
            item.output = await _finish(item, output)
        if item.scope.cancelled_caught:
            item.cancelled = True
    finally:
        if item.abandoned:
            item.agent.late_results += 1
        item.done.set()


async def _invoke(item: RunningCall) -> ToolOutput:
    assert item.owned is not None, "preflight found the tool"
    item.ran = True
    ctx = item.agent.contexts.of(item.owned.owner)
    run = item.owned.tool.run
    try:
        with acting_as(item.owned.owner):
            if inspect.iscoroutinefunction(run):
                result = await run(item, ctx)
            else:
                result = await anyio.to_thread.run_sync(_in_thread, item, abandon_on_cancel=True)
                if inspect.isawaitable(result):
                    result = await result
    except SystemExit as error:
        return ToolOutput(
            f"The tool tried to exit the host (SystemExit {error.code})", is_error=True
        )
    except Exception as error:  # noqa: BLE001 - a tool signals an error by raising
        return ToolOutput(_error_text(error), is_error=True)
    if isinstance(result, ToolOutput):
        problem = complaint(result)
        return result if problem is None else ToolOutput(problem, is_error=True)
    if isinstance(result, str):
        return ToolOutput(result)
    kind = type(result).__name__
    return ToolOutput(f"The tool returned a {kind}, not text or a ToolOutput", is_error=True)


def _in_thread(item: RunningCall) -> object:
    assert item.owned is not None, "preflight found the tool"
    try:
        return item.owned.tool.run(item, item.agent.contexts.of(item.owned.owner))
    finally:
        if item.cancelled:
            item.agent.late_results += 1


def _error_text(error: Exception) -> str:
    text = str(error).strip()
    name = type(error).__name__
    return name if not text else text if name == "ToolError" else f"{name}: {text}"


async def _finish(item: RunningCall, output: ToolOutput) -> ToolOutput:
    """Bound what the model will see, let plugins patch it, and bound it again if they did."""
    agent, call = item.agent, item.call
    content, cut = bounded_content(output.content, call.name, agent.bound_output)
    event = ToolResultEvent(
        call.name, call.id, item.input, content, output.details, output.is_error
    )
    patched = await agent.hooks.tool_result(event)
    if patched is not event:
        content, again = bounded_content(patched.content, call.name, agent.bound_output)
        cut = cut or again
    details = patched.details
    if cut:
        details = without_copies(details, call.name, agent.bound_output)
    output = ToolOutput(content, details, patched.is_error, output.terminate)
    if not item.abandoned:
        await _ended(item, content, output.is_error)
    return output


async def _ended(item: RunningCall, content: Sequence[UserContent], is_error: bool) -> None:
    elapsed = (time.perf_counter_ns() - item.started_ns) / 1e6 if item.started_ns else 0.0
    event = ToolExecutionEndEvent(item.call.id, item.call.name, content, is_error, elapsed)
    item.agent.observer(event)
    await item.agent.hooks.tool_execution_end(event)


async def _wind_down(running: list[RunningCall]) -> None:
    waiting = [item for item in running if not item.done.is_set()]
    for item in waiting:
        item.scope.cancel()
        if not item.ran:
            item.cancelled = True
    with anyio.move_on_after(GRACE_SECONDS):
        for item in waiting:
            if item.ran:
                await item.done.wait()
    for item in waiting:
        if not item.done.is_set():
            item.abandoned = item.ran
            item.cancelled = True


def result_message(item: RunningCall, now: int) -> ToolResultMessage:
    """The message that answers one call."""
    output = None if item.cancelled else item.output
    if output is None:
        output = ToolOutput((Text(CANCELLED),), {"cancelled": True}, is_error=True)
    return ToolResultMessage(
        tool_call_id=item.call.id,
        tool_name=item.call.name,
        content=_blocks(output.content),
        is_error=output.is_error,
        details=output.details,
        timestamp=now,
    )


def _blocks(content: str | Sequence[UserContent]) -> Sequence[UserContent]:
    return (Text(content),) if isinstance(content, str) else content


def all_terminate(running: Sequence[RunningCall]) -> bool:
    """Whether every call of the batch asks the loop to end."""
    return bool(running) and all(
        item.output is not None and item.output.terminate for item in running
    )
