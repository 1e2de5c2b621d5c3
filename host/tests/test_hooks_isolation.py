"""A plugin that fails is contained and named; what is the host's own passes (F62, F63, F64)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import pluggy
import pytest
from hypothesis import given, strategies as st

from unipi.hooks import Failure, Hooks, compile_hooks, current_plugin
from unipi_hookspecs import (
    Block,
    InputEvent,
    ResultPatch,
    SessionShutdownEvent,
    Text,
    ToolCallEvent,
    ToolResultEvent,
    Transform,
    TurnStartEvent,
    _specs,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = ToolCallEvent("bash", "c1", {})
RESULT = ToolResultEvent("bash", "c1", {}, [Text("one")], None, is_error=False)
TURN = TurnStartEvent(0, 0)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Plugin:
    def __init__(self, **implementations: Callable[..., object]) -> None:
        for name, function in implementations.items():
            setattr(self, name, hookimpl(function))


def hooks_of(failures: list[Failure], /, **plugins: object) -> Hooks:
    manager = pluggy.PluginManager("unipi")
    manager.add_hookspecs(_specs)
    for name, each in plugins.items():
        manager.register(each, name=name)
    return compile_hooks(
        manager,
        contexts=lambda name: SimpleNamespace(plugin=name),
        report=failures.append,
        clock=lambda: 0,  # a busy machine makes nothing slow here
        budgets={"tool_call": 0.03},
    )


def recurse():
    return recurse()


def explode(error: BaseException | Callable[[], object]):
    if isinstance(error, BaseException):
        raise error
    error()


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text for you")


class Panic(BaseException):
    """What an extension module written in another language raises."""


CONTAINED = {
    "an exception": (lambda: ValueError("no\nsecond line"), "raised ValueError: no"),
    "an exception without text": (KeyError, "raised KeyError"),
    "an exception that cannot print itself": (
        Unprintable,
        "raised Unprintable: (its message cannot be shown)",
    ),
    "a group": (
        lambda: ExceptionGroup("all of it", [ValueError("x"), OSError("y")]),
        "raised ExceptionGroup: all of it (2 sub-exceptions)",
    ),
    "a group with an exit": (
        lambda: BaseExceptionGroup("all of it", [SystemExit(1), OSError("y")]),
        "raised BaseExceptionGroup: all of it (2 sub-exceptions)",
    ),
    "StopIteration's like": (lambda: StopAsyncIteration("s"), "raised StopAsyncIteration: s"),
    "an exit": (lambda: SystemExit(2), "raised SystemExit: 2"),
    "a generator's exit": (lambda: GeneratorExit("g"), "raised GeneratorExit: g"),
    "endless recursion": (
        lambda: recurse,
        "raised RecursionError: maximum recursion depth exceeded",
    ),
    "a panic": (lambda: Panic("p"), "raised Panic: p"),
}
STYLES = ("def", "async def", "async def that has slept")


def failing(style: str, make: Callable[[], object]) -> Callable[[], object]:
    def sync():
        explode(make())

    async def at_once():
        explode(make())

    async def later():
        await anyio.lowlevel.checkpoint()
        explode(make())

    return dict(zip(STYLES, (sync, at_once, later), strict=True))[style]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("what", CONTAINED)
async def test_a_failing_plugin_is_contained_and_named(what, style):
    make, text = CONTAINED[what]
    failures: list[Failure] = []
    seen: list[str] = []
    hooks = hooks_of(
        failures,
        a=Plugin(turn_start=lambda: seen.append("a")),
        b=Plugin(turn_start=failing(style, make)),
        c=Plugin(turn_start=lambda: seen.append("c")),
    )
    await hooks.turn_start(TURN)
    assert seen == ["a", "c"]
    assert [(f.plugin, f.hook, f.kind) for f in failures] == [("b", "turn_start", "raised")]
    assert failures[0].error.startswith(text)
    assert "\n" not in failures[0].error
    assert failures[0].exception is not None
    assert failures[0].exception.__notes__ == ["in turn_start of plugin b"]
    assert current_plugin() is None


@pytest.mark.parametrize("style", STYLES)
async def test_a_chain_goes_on_with_the_value_it_had(style):
    broken = Plugin(
        input=failing(style, lambda: ValueError("x")),
        tool_result=failing(style, lambda: ValueError("x")),
        session_shutdown=failing(style, lambda: SystemExit(1)),
    )
    seen: list[str] = []

    def whole(text):
        return Plugin(
            input=lambda event: Transform(event.text + text),
            tool_result=lambda event: ResultPatch(content=[*event.content, Text(text)]),
            session_shutdown=lambda: seen.append(text),
        )

    failures: list[Failure] = []
    hooks = hooks_of(failures, a=whole("1"), b=broken, c=whole("3"))
    event, owner = await hooks.input(InputEvent("0"))
    assert (event.text, owner) == ("013", "c")
    assert (await hooks.tool_result(RESULT)).content == [Text("one"), Text("1"), Text("3")]
    await hooks.session_shutdown(SessionShutdownEvent("quit"))
    assert seen == ["3", "1"]
    assert [(f.plugin, f.hook) for f in failures] == [
        ("b", "input"),
        ("b", "tool_result"),
        ("b", "session_shutdown"),
    ]


BEHAVIOURS = ("keeps", "adds", "raises", "exits", "rubbish")


@given(st.lists(st.tuples(st.sampled_from(BEHAVIOURS), st.sampled_from(STYLES)), max_size=8))
def test_whatever_fails_in_a_chain_the_rest_adds_up(plugins):
    def make(behaviour, style, mark):
        def act(event):
            if behaviour == "raises":
                raise ValueError(mark)
            if behaviour == "exits":
                raise SystemExit(mark)
            return {"keeps": None, "adds": Transform(event.text + mark), "rubbish": 7}[behaviour]

        async def at_once(event):
            return act(event)

        async def later(event):
            await anyio.lowlevel.checkpoint()
            return act(event)

        return Plugin(input=dict(zip(STYLES, (act, at_once, later), strict=True))[style])

    hooks = hooks_of(
        [], **{f"p{i}": make(*plugin, mark=str(i)) for i, plugin in enumerate(plugins)}
    )
    event, owner = anyio.run(hooks.input, InputEvent(""))
    adding = [i for i, (behaviour, _) in enumerate(plugins) if behaviour == "adds"]
    assert event.text == "".join(map(str, adding))
    assert owner == (f"p{adding[-1]}" if adding else None)
    assert [s.errors for s in hooks.stats()] == [
        int(behaviour in ("raises", "exits", "rubbish")) for behaviour, _ in plugins
    ]


async def test_a_failure_is_counted_each_time_and_reported_once_a_kind():
    failures: list[Failure] = []
    answers = iter([ValueError("1"), ValueError("2"), 3, 4])

    def misbehave():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    hooks = hooks_of(failures, a=Plugin(turn_start=misbehave))
    for _ in range(4):
        await hooks.turn_start(TURN)
    assert [f.kind for f in failures] == ["raised", "returned"]
    stats = hooks.stats()[0]
    assert (stats.plugin, stats.hook, stats.count, stats.errors) == ("a", "turn_start", 4, 4)


@pytest.mark.parametrize("style", STYLES)
async def test_a_keyboard_interrupt_passes(style):
    hooks = hooks_of([], a=Plugin(turn_start=failing(style, KeyboardInterrupt)))
    with pytest.raises(KeyboardInterrupt):
        await hooks.turn_start(TURN)
    assert current_plugin() is None


async def test_a_keyboard_interrupt_inside_a_group_passes():
    def make():
        return BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()])

    hooks = hooks_of([], a=Plugin(turn_start=failing("def", make)))
    with pytest.raises(BaseExceptionGroup):
        await hooks.turn_start(TURN)


# Policies fail closed.


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("what", CONTAINED)
async def test_a_policy_that_fails_blocks_the_call_and_the_reason_names_it(what, style):
    make, text = CONTAINED[what]
    seen: list[str] = []
    hooks = hooks_of(
        [],
        guard=Plugin(tool_call=failing(style, make)),
        later=Plugin(tool_call=lambda: seen.append("later")),
    )
    decision = await hooks.tool_call(CALL)
    assert decision.owner == "guard"
    assert decision.block is not None
    assert decision.block.reason.startswith(
        f"The call of bash was not run: plugin 'guard', which has a say in it, failed in tool_call ({text}"
    )
    assert seen == []


async def test_a_policy_that_sleeps_past_its_budget_blocks_the_call():
    failures: list[Failure] = []
    hooks = hooks_of(failures, guard=Plugin(tool_call=lambda: anyio.sleep_forever()))
    decision = await hooks.tool_call(CALL)
    assert decision.owner == "guard"
    assert decision.block is not None
    assert "plugin 'guard'" in decision.block.reason
    assert "(timed out after 0.03 s)" in decision.block.reason
    assert [f.kind for f in failures] == ["timed_out"]


@pytest.mark.parametrize("value", ["deny", True, {"block": True}, Block(None)])
async def test_a_policy_that_returns_rubbish_blocks_the_call(value):
    hooks = hooks_of([], guard=Plugin(tool_call=lambda: value))
    decision = await hooks.tool_call(CALL)
    assert decision.owner == "guard"
    assert decision.block is not None
    assert f"a {type(value).__name__}, expected a Block" in decision.block.reason


async def test_a_policy_without_an_opinion_lets_the_call_run():
    async def none():
        await anyio.lowlevel.checkpoint()

    assert (await hooks_of([], guard=Plugin(tool_call=none)).tool_call(CALL)).block is None


# Cancellation.


async def old_cancellation() -> BaseException:
    """A real one, from a scope that is long over."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            kept = error
            raise
    return kept


@pytest.mark.parametrize("style", STYLES)
async def test_a_cancellation_that_nobody_asked_for_is_the_plugins_error(style):
    failures: list[Failure] = []
    seen: list[str] = []
    forged = await old_cancellation()
    hooks = hooks_of(
        failures,
        a=Plugin(
            turn_start=failing(style, lambda: forged), tool_call=failing(style, lambda: forged)
        ),
        b=Plugin(turn_start=lambda: seen.append("b")),
    )
    await hooks.turn_start(TURN)
    assert seen == ["b"]
    assert [(f.plugin, f.kind) for f in failures] == [("a", "cancelled")]
    assert "though nobody cancelled it" in failures[0].error
    assert (await hooks.tool_call(CALL)).owner == "a"


async def test_a_cancellation_class_made_by_hand_is_the_plugins_error():
    failures: list[Failure] = []
    hooks = hooks_of(
        failures, a=Plugin(turn_start=failing("def", lambda: anyio.get_cancelled_exc_class()()))
    )
    await hooks.turn_start(TURN)
    assert [(f.plugin, f.hook) for f in failures] == [("a", "turn_start")]


async def test_the_hosts_cancellation_passes_through():
    failures: list[Failure] = []
    seen: list[str] = []
    hooks = hooks_of(
        failures,
        a=Plugin(turn_start=lambda: anyio.sleep_forever()),
        b=Plugin(turn_start=lambda: seen.append("b")),
    )
    with anyio.move_on_after(0.01) as scope:
        await hooks.turn_start(TURN)
    assert scope.cancelled_caught
    assert (seen, failures) == ([], [])
    assert current_plugin() is None


async def test_the_hosts_cancellation_arrives_though_a_plugin_swallows_it():
    swallowed: list[BaseException] = []

    async def greedy():
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            swallowed.append(error)

    hooks = hooks_of([], a=Plugin(turn_start=greedy))
    with anyio.move_on_after(0.01) as scope:
        await hooks.turn_start(TURN)
        await anyio.lowlevel.checkpoint()
        pytest.fail("went on")
    assert scope.cancelled_caught
    assert len(swallowed) == 1


async def test_the_hosts_cancellation_passes_out_of_a_plugins_task_group():
    async def busy():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)

    hooks = hooks_of([], a=Plugin(turn_start=busy))
    with anyio.move_on_after(0.01) as scope:
        await hooks.turn_start(TURN)
    assert scope.cancelled_caught


async def test_a_plugin_may_cancel_its_own_scopes():
    failures: list[Failure] = []
    seen: list[str] = []

    async def own_scope():
        with anyio.move_on_after(0.001):
            await anyio.sleep_forever()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        seen.append("a")

    async def own_timeout():
        with anyio.fail_after(0.001):
            await anyio.sleep_forever()

    hooks = hooks_of(
        failures,
        a=Plugin(turn_start=own_scope),
        b=Plugin(turn_start=own_timeout),
        c=Plugin(turn_start=lambda: seen.append("c")),
    )
    await hooks.turn_start(TURN)
    assert seen == ["a", "c"]
    assert [(f.plugin, f.error) for f in failures] == [("b", "raised TimeoutError")]


async def test_a_forged_cancellation_in_the_clean_up_of_a_cancelled_host_is_still_the_plugins():
    failures: list[Failure] = []
    seen: list[str] = []
    forged = await old_cancellation()
    hooks = hooks_of(
        failures,
        a=Plugin(session_shutdown=lambda: seen.append("a")),
        b=Plugin(session_shutdown=failing(STYLES[2], lambda: forged)),
    )
    with anyio.move_on_after(0.01):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await hooks.session_shutdown(SessionShutdownEvent("quit"))
                seen.append("host")
    assert seen == ["a", "host"]
    assert [f.kind for f in failures] == ["cancelled"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
class TestAsyncioCancel:
    """`task.cancel()` is delivered once; Ctrl-C under `asyncio.run` is one of these."""

    async def cancel(self, hooks: Hooks, started: anyio.Event) -> asyncio.Task[None]:
        task = asyncio.ensure_future(hooks.turn_start(TURN))
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        return task

    async def test_it_passes_through(self):
        started = anyio.Event()

        async def wait():
            started.set()
            await anyio.sleep_forever()

        failures: list[Failure] = []
        hooks = hooks_of(failures, a=Plugin(turn_start=wait))
        assert (await self.cancel(hooks, started)).cancelled()
        assert failures == []

    async def test_it_arrives_though_a_plugin_swallows_it(self):
        started = anyio.Event()

        async def greedy():
            started.set()
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                return

        hooks = hooks_of([], a=Plugin(turn_start=greedy))
        assert (await self.cancel(hooks, started)).cancelled()

    async def test_it_arrives_though_a_plugin_turns_it_into_another_error(self):
        started = anyio.Event()

        async def rude():
            started.set()
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                raise ValueError("broken clean-up") from None

        hooks = hooks_of([], a=Plugin(turn_start=rude))
        assert (await self.cancel(hooks, started)).cancelled()

    async def test_awaiting_a_task_that_was_cancelled_is_the_plugins_error(self):
        async def impatient():
            task = asyncio.ensure_future(anyio.sleep_forever())
            await asyncio.sleep(0)
            task.cancel()
            await task

        failures: list[Failure] = []
        hooks = hooks_of(failures, a=Plugin(turn_start=impatient))
        await hooks.turn_start(TURN)
        assert [f.kind for f in failures] == ["cancelled"]

    async def test_a_cancel_before_the_dispatch_arrives_in_it(self):
        async def wait():
            await anyio.sleep_forever()

        hooks = hooks_of([], a=Plugin(turn_start=wait))

        async def host():
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await hooks.turn_start(TURN)

        task = asyncio.ensure_future(host())
        await asyncio.wait([task])
        assert task.cancelled()


async def test_closing_the_hosts_own_coroutine_closes_the_plugins():
    seen: list[str] = []

    async def wait():
        try:
            await anyio.lowlevel.checkpoint()
        except GeneratorExit:
            seen.append("closed")
            raise

    failures: list[Failure] = []
    hooks = hooks_of(
        failures, a=Plugin(turn_start=wait), b=Plugin(turn_start=lambda: seen.append("b"))
    )
    dispatch = hooks.turn_start(TURN)
    dispatch.send(None)
    dispatch.close()
    assert seen == ["closed"]
    assert failures == []
    assert current_plugin() is None


async def test_closing_it_twice_deep_closes_both():
    seen: list[str] = []
    inner = hooks_of([], a=Plugin(turn_start=lambda: anyio.lowlevel.checkpoint()))

    async def outer():
        try:
            await inner.turn_start(TURN)
        finally:
            seen.append("outer")

    failures: list[Failure] = []
    hooks = hooks_of(failures, a=Plugin(turn_start=outer), b=Plugin(turn_start=lambda: 1))
    dispatch = hooks.turn_start(TURN)
    dispatch.send(None)
    dispatch.close()
    assert seen == ["outer"]
    assert failures == []
