"""Budgets, slow hooks, waiting for the user, and the figures (F65)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import pluggy
import pytest

from unipi.hooks import Failure, Hooks, budget_paused, compile_hooks
from unipi_hookspecs import (
    Block,
    ResultPatch,
    Text,
    ToolCallEvent,
    ToolResultEvent,
    TurnStartEvent,
    _specs,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = ToolCallEvent("bash", "c1", {})
RESULT = ToolResultEvent("bash", "c1", {}, [Text("one")], None, is_error=False)
TURN = TurnStartEvent(0, 0)
BUDGET = 0.05
MS = 1_000_000


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Plugin:
    def __init__(self, **implementations: Callable[..., object]) -> None:
        for name, function in implementations.items():
            setattr(self, name, hookimpl(function))


class Clock:
    """Nanoseconds that pass when the test says so, however busy the machine is."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def spend(self, ms: float) -> None:
        self.now += int(ms * MS)


def hooks_of(failures: list[Failure], clock: Clock | None = None, /, **plugins: object) -> Hooks:
    manager = pluggy.PluginManager("unipi")
    manager.add_hookspecs(_specs)
    for name, each in plugins.items():
        manager.register(each, name=name)
    budgets = dict.fromkeys(("turn_start", "turn_end", "tool_call", "tool_result"), BUDGET)
    return compile_hooks(
        manager,
        contexts=lambda name: SimpleNamespace(plugin=name),
        report=failures.append,
        budgets=budgets,
        clock=clock or Clock(),
    )


# Budgets.


async def test_a_hook_that_never_returns_is_abandoned_and_the_next_is_called():
    failures: list[Failure] = []
    seen: list[str] = []
    hooks = hooks_of(
        failures,
        a=Plugin(turn_start=lambda: anyio.sleep_forever()),
        b=Plugin(turn_start=lambda: seen.append("b")),
        c=Plugin(turn_start=lambda: anyio.sleep_forever()),
    )
    with anyio.fail_after(2):
        await hooks.turn_start(TURN)
        await anyio.lowlevel.checkpoint()
    assert seen == ["b"]
    assert [(f.plugin, f.kind, f.error) for f in failures] == [
        ("a", "timed_out", "timed out after 0.05 s"),
        ("c", "timed_out", "timed out after 0.05 s"),
    ]


async def test_a_failure_says_how_long_it_took():
    clock, failures = Clock(), []

    async def waits():
        try:
            await anyio.sleep_forever()
        finally:
            clock.spend(40)

    await hooks_of(failures, clock, a=Plugin(turn_start=waits)).turn_start(TURN)
    assert [(f.kind, f.elapsed_ms) for f in failures] == [("timed_out", 40)]


async def test_a_slow_hook_is_named_after_its_first_breach_and_counted_each_time():
    failures: list[Failure] = []
    hooks = hooks_of(failures, a=Plugin(tool_result=lambda: anyio.sleep(5)))
    for _ in range(3):
        assert await hooks.tool_result(RESULT) is RESULT
    assert [f.kind for f in failures] == ["timed_out"]
    assert hooks.stats()[0].errors == 3


async def test_the_budget_is_renewed_for_each_implementation():
    failures: list[Failure] = []

    def make():
        return Plugin(turn_start=lambda: anyio.sleep(BUDGET * 0.4))

    hooks = hooks_of(failures, a=make(), b=make(), c=make())
    await hooks.turn_start(TURN)
    assert failures == []


async def test_what_an_abandoned_implementation_returns_after_all_is_not_used():
    async def late():
        try:
            await anyio.sleep_forever()
        except BaseException:
            return ResultPatch(is_error=True)

    failures: list[Failure] = []
    hooks = hooks_of(failures, a=Plugin(tool_result=late, tool_call=late))
    assert await hooks.tool_result(RESULT) is RESULT
    decision = await hooks.tool_call(CALL)
    assert decision.block is not None
    assert "timed out" in decision.block.reason
    await anyio.lowlevel.checkpoint()


async def test_an_error_in_the_clean_up_of_an_abandoned_implementation_is_its_cause():
    async def broken():
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("broken")

    failures: list[Failure] = []
    await hooks_of(failures, a=Plugin(turn_start=broken)).turn_start(TURN)
    assert [f.kind for f in failures] == ["timed_out"]
    assert isinstance(failures[0].exception, ValueError)


async def test_an_implementation_that_opens_scopes_before_it_suspends_is_still_bounded():
    failures: list[Failure] = []
    seen: list[str] = []

    async def with_scope():
        with anyio.CancelScope():
            await anyio.sleep_forever()

    async def with_tasks():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            await anyio.sleep_forever()

    async def in_time():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 0.001)
        with anyio.fail_after(1):
            await anyio.sleep(0.001)
        seen.append("c")

    hooks = hooks_of(
        failures,
        a=Plugin(turn_start=with_scope),
        b=Plugin(turn_start=with_tasks),
        c=Plugin(turn_start=in_time),
    )
    await hooks.turn_start(TURN)
    assert [(f.plugin, f.kind) for f in failures] == [("a", "timed_out"), ("b", "timed_out")]
    assert seen == ["c"]


async def test_the_hosts_cancellation_wins_over_the_budget():
    failures: list[Failure] = []
    hooks = hooks_of(failures, a=Plugin(turn_start=lambda: anyio.sleep_forever()))
    with anyio.move_on_after(BUDGET / 3) as scope:
        await hooks.turn_start(TURN)
    assert scope.cancelled_caught
    assert failures == []


async def test_a_dispatch_inside_a_hook_has_its_own_budget_inside_the_outer_one():
    failures: list[Failure] = []
    inner = hooks_of(failures, inner=Plugin(turn_end=lambda: anyio.sleep_forever()))
    seen: list[str] = []

    async def outer():
        await anyio.sleep(BUDGET / 2)
        await inner.turn_end(TURN)
        seen.append("outer went on")

    hooks = hooks_of(
        failures,
        outer=Plugin(turn_start=outer),
        last=Plugin(turn_start=lambda: seen.append("last")),
    )
    await hooks.turn_start(TURN)
    assert seen == ["last"]
    assert [f.plugin for f in failures] == ["outer"]


# Holding the event loop.


async def test_a_synchronous_hook_that_holds_the_event_loop_is_named_with_its_time():
    clock, failures = Clock(), []
    hooks = hooks_of(failures, clock, a=Plugin(tool_result=lambda: clock.spend(60)))
    for _ in range(3):
        await hooks.tool_result(RESULT)
    assert [(f.kind, f.error) for f in failures if f.kind == "slow"] == [
        ("slow", "held the event loop for 60 ms")
    ]
    assert hooks.stats()[0].slow == 3


async def test_a_synchronous_hook_over_its_budget_is_named_but_its_answer_stands():
    clock, failures = Clock(), []

    def judge():
        clock.spend(61)
        return Block("no")

    hooks = hooks_of(failures, clock, a=Plugin(tool_call=judge))
    assert (await hooks.tool_call(CALL)).block == Block("no")
    assert [(f.kind, f.error) for f in failures] == [
        ("slow", "held the event loop for 61 ms"),
        (
            "over_budget",
            "held the event loop for 61 ms, over its budget of 0.05 s, and could not be stopped",
        ),
    ]
    assert hooks.stats()[0].errors == 0


async def test_an_asynchronous_hook_that_is_busy_between_two_awaits_is_named():
    clock, failures = Clock(), []

    async def busy():
        await anyio.lowlevel.checkpoint()
        clock.spend(70)
        await anyio.lowlevel.checkpoint()
        clock.spend(10)

    hooks = hooks_of(failures, clock, a=Plugin(turn_start=busy))
    await hooks.turn_start(TURN)
    assert [f.error for f in failures if f.kind == "slow"] == ["held the event loop for 70 ms"]


async def test_waiting_is_not_holding_the_event_loop():
    clock, failures = Clock(), []

    async def elsewhere():
        clock.spend(1000)

    async def patient():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(elsewhere)

    hooks = hooks_of(failures, clock, a=Plugin(turn_start=patient))
    await hooks.turn_start(TURN)
    assert failures == []
    assert hooks.stats()[0].max_ns == 1000 * MS


# Figures.


async def test_time_is_counted_by_plugin_and_hook():
    clock = Clock()
    times = iter([1, 5, 2])
    a = Plugin(turn_start=lambda: clock.spend(next(times)))
    b = Plugin(turn_start=lambda: clock.spend(10), turn_end=lambda: None)
    hooks = hooks_of([], clock, a=a, b=b)
    for _ in range(3):
        await hooks.turn_start(TURN)
    figures = {
        (s.plugin, s.hook): (s.count, s.total_ns // MS, s.max_ns // MS) for s in hooks.stats()
    }
    assert figures == {
        ("a", "turn_start"): (3, 8, 5),
        ("b", "turn_start"): (3, 30, 10),
        ("b", "turn_end"): (0, 0, 0),
    }


async def test_the_time_of_the_hosts_own_checks_is_nobodys():
    clock = Clock()
    hooks = hooks_of(
        [],
        clock,
        a=Plugin(context=lambda event: event.messages),
        b=Plugin(context=lambda: None),
    )

    def check(plugin, before, returned):
        clock.spend(5)
        return returned

    await hooks.context(SimpleNamespace(messages=(), new_from=0), check)
    assert [s.total_ns for s in hooks.stats()] == [0, 0]


# Waiting for the user.


async def confirm(seconds: float) -> None:
    with budget_paused():
        await anyio.sleep(seconds)


async def test_time_spent_waiting_for_the_user_does_not_count():
    clock, failures = Clock(), []

    async def user():
        await anyio.sleep(BUDGET * 2)
        clock.spend(90_000)

    async def ask():
        await confirm(BUDGET * 2)
        await anyio.sleep(BUDGET / 3)
        clock.spend(7)
        with budget_paused():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(user)
        return Block("the user said no")

    hooks = hooks_of(failures, clock, a=Plugin(tool_call=ask))
    assert (await hooks.tool_call(CALL)).block == Block("the user said no")
    assert failures == []
    assert hooks.stats()[0].total_ns == 7 * MS


async def test_after_the_users_answer_the_budget_goes_on():
    async def ask():
        await confirm(0.001)
        await anyio.sleep_forever()

    failures: list[Failure] = []
    hooks = hooks_of(failures, a=Plugin(tool_call=ask))
    assert (await hooks.tool_call(CALL)).owner == "a"
    assert [f.kind for f in failures] == ["timed_out"]


async def test_a_question_inside_a_nested_dispatch_stops_the_outer_clock_too():
    failures: list[Failure] = []
    inner = hooks_of(failures, inner=Plugin(turn_end=lambda: confirm(BUDGET * 2)))

    async def outer():
        await anyio.lowlevel.checkpoint()
        await inner.turn_end(TURN)

    await hooks_of(failures, outer=Plugin(turn_start=outer)).turn_start(TURN)
    assert failures == []
