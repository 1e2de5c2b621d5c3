"""What each kind of hook does with what its implementations return, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import pluggy
import pytest

from unipi.hooks import Decision, Failure, Hooks, compile_hooks, current_hook, current_plugin
from unipi_hookspecs import (
    AssistantMessage,
    BashResult,
    BeforeAgentStartEvent,
    BeforeProviderHeadersEvent,
    BeforeProviderRequestEvent,
    Block,
    BranchSummary,
    Cancel,
    Compaction,
    ContextEvent,
    CustomMessage,
    Handled,
    Image,
    InputEvent,
    MessageEndEvent,
    Payload,
    ProjectTrustEvent,
    ReplaceInput,
    RequestInfo,
    Resources,
    ResourcesDiscoverEvent,
    ResultPatch,
    SessionBeforeCompactEvent,
    SessionBeforeForkEvent,
    SessionBeforeSwitchEvent,
    SessionBeforeTreeEvent,
    SessionShutdownEvent,
    StartWith,
    Text,
    ToolCallEvent,
    ToolResultEvent,
    Transform,
    Trust,
    TurnStartEvent,
    UserBashEvent,
    UserMessage,
    _specs,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

INFO = RequestInfo("r1", 0, "turn", "p", "openai-chat-completions", "m", 0)
CALL = ToolCallEvent("bash", "c1", {"command": "ls"})
TURN = TurnStartEvent(0, 0)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Plugin:
    """An object with implementations; pluggy tells plugins apart by identity."""

    def __init__(self, **implementations: Callable[..., object]) -> None:
        self.__dict__.update(implementations)


def plugin(**implementations: Callable[..., object]) -> Plugin:
    return Plugin(**{name: hookimpl(f) for name, f in implementations.items()})


def hooks_of(failures: list[Failure] | None = None, /, **plugins: object) -> Hooks:
    manager = pluggy.PluginManager("unipi")
    manager.add_hookspecs(_specs)
    for name, each in plugins.items():
        manager.register(each, name=name)
    return compile_hooks(
        manager,
        contexts=lambda name: SimpleNamespace(plugin=name),
        report=None if failures is None else failures.append,
        clock=lambda: 0,  # a busy machine makes nothing slow here
    )


def telling(seen: list[str], hook: str = "turn_start") -> Plugin:
    return plugin(**{hook: lambda event, ctx: seen.append(ctx.plugin)})


# Order.


async def test_the_first_registered_plugin_is_called_first():
    seen: list[str] = []
    hooks = hooks_of(b=telling(seen), a=telling(seen), c=telling(seen))
    await hooks.turn_start(TURN)
    assert seen == ["b", "a", "c"]


async def test_tryfirst_and_trylast_are_honoured_inside_the_order():
    seen: list[str] = []

    def mark(**options):
        def turn_start(event, ctx):
            seen.append(ctx.plugin)

        return Plugin(turn_start=hookimpl(turn_start, **options))

    hooks = hooks_of(
        last1=mark(trylast=True),
        plain1=mark(),
        first1=mark(tryfirst=True),
        last2=mark(trylast=True),
        first2=mark(tryfirst=True),
        plain2=mark(),
    )
    await hooks.turn_start(TURN)
    assert seen == ["first1", "first2", "plain1", "plain2", "last1", "last2"]


async def test_after_events_walk_the_order_backwards():
    seen: list[str] = []
    hooks = hooks_of(**{n: telling(seen, "session_shutdown") for n in "abc"})
    await hooks.session_shutdown(SessionShutdownEvent("quit"))
    assert seen == ["c", "b", "a"]


async def test_def_and_async_def_are_mixed_in_order():
    seen: list[str] = []

    async def slow(event, ctx):
        await anyio.lowlevel.checkpoint()
        seen.append(ctx.plugin)

    async def quick(event, ctx):
        seen.append(ctx.plugin)

    hooks = hooks_of(
        a=telling(seen),
        b=plugin(turn_start=slow),
        c=telling(seen),
        d=plugin(turn_start=quick),
        e=plugin(turn_start=slow),
    )
    await hooks.turn_start(TURN)
    assert seen == ["a", "b", "c", "d", "e"]


async def test_a_def_may_return_an_awaitable():
    class Later:
        def __await__(self):
            yield from anyio.lowlevel.checkpoint().__await__()
            return Block("no")

    hooks = hooks_of(a=plugin(tool_call=lambda event: Later()))
    assert (await hooks.tool_call(CALL)).block == Block("no")


async def test_an_implementation_may_name_fewer_arguments_in_any_order():
    seen: list[object] = []

    def both_ways(ctx, event):
        seen.append((event, ctx.plugin))

    hooks = hooks_of(
        a=plugin(turn_start=lambda: seen.append("none")),
        b=plugin(turn_start=lambda event: seen.append(event)),
        c=plugin(turn_start=lambda ctx: seen.append(ctx.plugin)),
        d=plugin(turn_start=both_ways),
    )
    await hooks.turn_start(TURN)
    assert seen == ["none", TURN, "c", (TURN, "d")]


# A session's contexts.


async def test_a_dispatch_outside_a_session_is_an_error_of_the_host():
    hooks = hooks_of(a=telling([]))
    hooks.unbind()
    with pytest.raises(RuntimeError, match=r"turn_start was dispatched outside a session"):
        await hooks.turn_start(TURN)
    await hooks.agent_start(None)  # nobody listens to it


async def test_a_new_session_brings_new_contexts_asked_once_a_plugin():
    seen: list[str] = []
    asked: list[str] = []

    def contexts(name):
        asked.append(name)
        return SimpleNamespace(plugin=f"{name} of session 2")

    both = plugin(
        turn_start=lambda ctx: seen.append(ctx.plugin), turn_end=lambda ctx: seen.append(ctx.plugin)
    )
    hooks = hooks_of(a=both)
    await hooks.turn_start(TURN)
    hooks.bind(contexts)
    await hooks.turn_start(TURN)
    assert seen == ["a", "a of session 2"]
    assert asked == ["a"]


# Observe.


async def test_an_observer_that_returns_something_is_told_so_and_the_rest_go_on():
    failures: list[Failure] = []
    seen: list[str] = []
    hooks = hooks_of(failures, a=plugin(turn_start=lambda: 7), b=telling(seen))
    await hooks.turn_start(TURN)
    assert seen == ["b"]
    assert [(f.plugin, f.hook, f.kind, f.error) for f in failures] == [
        ("a", "turn_start", "returned", "returned an int, expected nothing")
    ]


# tool_call.


async def test_a_call_that_nobody_judges_runs_with_its_own_arguments():
    hooks = hooks_of(a=plugin(tool_call=lambda event: None))
    assert await hooks.tool_call(CALL) == Decision(CALL.input)
    assert await hooks_of().tool_call(CALL) == Decision(CALL.input)


async def test_the_first_block_stops_the_call_and_names_its_owner():
    seen: list[str] = []
    hooks = hooks_of(
        a=telling(seen, "tool_call"),
        b=plugin(tool_call=lambda event: Block("no")),
        c=telling(seen, "tool_call"),
    )
    decision = await hooks.tool_call(CALL)
    assert (decision.block, decision.owner) == (Block("no"), "b")
    assert seen == ["a"]


async def test_replaced_arguments_are_what_the_next_plugin_judges():
    async def judge(event):
        return Block("root") if "/" in event.input["command"] else None

    hooks = hooks_of(
        a=plugin(tool_call=lambda event: ReplaceInput({"command": "ls -a"})),
        b=plugin(tool_call=lambda event: ReplaceInput({"command": event.input["command"] + " /"})),
        c=plugin(tool_call=judge),
    )
    decision = await hooks.tool_call(CALL)
    assert decision.input == {"command": "ls -a /"}
    assert decision.replaced_by == ("a", "b")
    assert (decision.block, decision.owner) == (Block("root"), "c")
    assert CALL.input == {"command": "ls"}


# tool_result.


RESULT = ToolResultEvent("bash", "c1", {}, [Text("one")], {"n": 1}, is_error=False)


async def test_result_patches_add_up_part_by_part():
    async def second(event):
        return ResultPatch(content=[*event.content, Text("two")])

    hooks = hooks_of(
        a=plugin(tool_result=lambda event: ResultPatch(is_error=True)),
        b=plugin(tool_result=second),
    )
    event = await hooks.tool_result(RESULT)
    assert (event.content, event.details, event.is_error) == (
        [Text("one"), Text("two")],
        {"n": 1},
        True,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "returned a str, expected ResultPatch"),
        (ResultPatch(content="text"), "returned a str, expected a list of Text and Image"),
        (ResultPatch(content=["text"]), "returned a list, expected a list of Text and Image"),
        (ResultPatch(is_error="yes"), "returned a str, expected a bool"),
    ],
)
async def test_a_wrong_patch_changes_nothing_and_is_named(value, text):
    failures: list[Failure] = []
    hooks = hooks_of(failures, a=plugin(tool_result=lambda: value))
    assert await hooks.tool_result(RESULT) is RESULT
    assert failures[0].error.startswith(text)


# input.


async def test_input_is_transformed_in_turn_and_keeps_its_images():
    picture = Image("AA==", "image/png")
    hooks = hooks_of(
        a=plugin(input=lambda event: Transform(event.text + " one")),
        b=plugin(input=lambda event: Transform(event.text + " two")),
    )
    event, owner = await hooks.input(InputEvent("zero", [picture], "rpc"))
    assert isinstance(event, InputEvent)
    assert (event.text, event.images, event.source) == ("zero one two", [picture], "rpc")
    assert owner == "b"


async def test_input_that_is_handled_goes_no_further():
    seen: list[str] = []
    hooks = hooks_of(a=plugin(input=lambda: Handled("done")), b=telling(seen, "input"))
    assert await hooks.input(InputEvent("x")) == (Handled("done"), "a")
    assert seen == []


async def test_input_left_alone_is_the_same_object_without_an_owner():
    event = InputEvent("x")
    assert await hooks_of(a=plugin(input=lambda: None)).input(event) == (event, None)


# before_agent_start.


async def test_messages_pile_up_and_each_plugin_sees_the_system_prompt_so_far():
    one, two = CustomMessage("one", "1"), CustomMessage("two", "2")
    hooks = hooks_of(
        a=plugin(before_agent_start=lambda: StartWith([one], "base a")),
        b=plugin(before_agent_start=lambda event: StartWith([two], event.system_prompt + " b")),
        c=plugin(before_agent_start=lambda event: StartWith(system_prompt=event.system_prompt)),
        d=plugin(before_agent_start=lambda: StartWith(one)),
    )
    start = await hooks.before_agent_start(BeforeAgentStartEvent("p", (), "base"))
    assert start.messages == (("a", one), ("b", two))
    assert start.system_prompt == "base a b"
    assert start.prompt_changed_by == ("a", "b")
    assert start.prompt_owner == "b"


# message_end.


async def test_a_message_is_replaced_by_one_of_its_kind_only():
    failures: list[Failure] = []
    first, second = AssistantMessage([Text("one")]), AssistantMessage([Text("two")])
    hooks = hooks_of(
        failures,
        a=plugin(message_end=lambda event: event.message),
        b=plugin(message_end=lambda event: second),
        c=plugin(message_end=lambda event: UserMessage("mine")),
    )
    assert await hooks.message_end(MessageEndEvent(first)) == (second, "b")
    assert [f.plugin for f in failures] == ["c"]
    assert "expected AssistantMessage" in failures[0].error


# Guarded chains.


async def test_context_asks_the_guard_after_each_plugin_and_goes_on_with_what_it_accepts():
    old, new = UserMessage("old"), UserMessage("new")
    asked: list[tuple[str, int, int]] = []
    seen: list[int] = []

    def check(name, before, returned):
        asked.append((name, len(before), len(returned)))
        return before if old not in returned else returned

    hooks = hooks_of(
        a=plugin(context=lambda event: event.messages[1:]),
        b=plugin(context=lambda event: None),
        c=plugin(context=lambda event: event.messages[:1]),
        d=plugin(context=lambda event: seen.append(len(event.messages))),
    )
    messages = await hooks.context(ContextEvent((old, new), 1, INFO), check)
    assert asked == [("a", 2, 1), ("c", 2, 1)]
    assert messages == (old,)
    assert seen == [1]


@pytest.mark.parametrize("value", ["messages", 7, ["a message"], UserMessage("one")])
async def test_context_that_returns_no_messages_never_reaches_the_guard(value):
    failures: list[Failure] = []
    messages = (UserMessage("one"),)
    hooks = hooks_of(failures, a=plugin(context=lambda: value))
    event = ContextEvent(messages, 0, INFO)
    assert await hooks.context(event, lambda *_: pytest.fail("asked")) is messages
    assert [f.kind for f in failures] == ["returned"]


async def test_what_the_guard_itself_raises_is_the_hosts_and_passes():
    def check(*_):
        raise LookupError("the guard broke")

    hooks = hooks_of(a=plugin(context=lambda event: event.messages))
    with pytest.raises(LookupError):
        await hooks.context(ContextEvent((), 0, INFO), check)
    assert hooks.stats()[0].errors == 0


async def test_payloads_pass_the_guard_in_turn():
    first, second = Payload({}, (), (), ()), Payload({"x": 1}, (), (), ())
    asked: list[tuple[str, Payload, Payload]] = []

    def check(name, before, returned):
        asked.append((name, before, returned))
        return returned

    hooks = hooks_of(
        a=plugin(before_provider_request=lambda: second),
        b=plugin(before_provider_request=lambda event: event.payload),
        c=plugin(before_provider_request=lambda event: {}),
    )
    event = BeforeProviderRequestEvent(first, INFO)
    assert await hooks.before_provider_request(event, check) is second
    assert asked == [("a", first, second), ("b", second, second)]


async def test_headers_name_all_plugins_that_changed_them():
    failures: list[Failure] = []
    hooks = hooks_of(
        failures,
        a=plugin(before_provider_headers=lambda event: {**event.headers, "x-a": "1"}),
        b=plugin(before_provider_headers=lambda event: event.headers),
        c=plugin(before_provider_headers=lambda event: {"x-c": 1}),
        d=plugin(before_provider_headers=lambda event: {**event.headers, "x-d": "1"}),
    )
    headers, owners = await hooks.before_provider_headers(
        BeforeProviderHeadersEvent({"x": "0"}, INFO)
    )
    assert headers == {"x": "0", "x-a": "1", "x-d": "1"}
    assert owners == ("a", "d")
    assert [f.plugin for f in failures] == ["c"]


# First.


async def test_the_first_answer_wins_and_the_rest_are_not_asked():
    seen: list[str] = []

    async def none_later(event):
        await anyio.lowlevel.checkpoint()

    hooks = hooks_of(
        a=plugin(user_bash=none_later),
        b=plugin(user_bash=lambda: BashResult("out")),
        c=telling(seen, "user_bash"),
    )
    assert await hooks.user_bash(UserBashEvent("ls", False, "/")) == (BashResult("out"), "b")
    assert seen == []


async def test_trust_is_asked_before_there_is_a_session():
    hooks = hooks_of(a=plugin(project_trust=lambda event, ctx: Trust(ctx.plugin == "loading a")))
    hooks.unbind()
    event = ProjectTrustEvent("/x", ["plugins"])
    answer = await hooks.project_trust(
        event, lambda name: SimpleNamespace(plugin=f"loading {name}")
    )
    assert answer == (Trust(True), "a")


# Veto.


async def test_the_first_cancel_stops_a_switch_a_fork_and_a_move():
    cancel = Cancel("unsaved")
    both = [
        plugin(
            session_before_switch=lambda: cancel,
            session_before_fork=lambda: cancel,
            session_before_tree=lambda: cancel,
        )
        for _ in "ab"
    ]
    hooks = hooks_of(a=both[0], b=both[1])
    assert await hooks.session_before_switch(SessionBeforeSwitchEvent("new")) == (cancel, "a")
    assert await hooks.session_before_fork(SessionBeforeForkEvent("e", "at")) == (cancel, "a")
    event = SessionBeforeTreeEvent("t", None, (), False)
    assert await hooks.session_before_tree(event) == (cancel, "a")


COMPACT = SessionBeforeCompactEvent("manual", False, (), "e1", 100)


async def test_the_last_compaction_stands_and_a_later_cancel_still_stops_it():
    one, two = Compaction("one", "e1"), Compaction("two", "e1")
    a = plugin(session_before_compact=lambda: one)
    b = plugin(session_before_compact=lambda: two)
    c = plugin(session_before_compact=lambda: Cancel())
    wrong = plugin(session_before_compact=lambda: BranchSummary("x"))
    assert await hooks_of(a=a, b=b, w=wrong).session_before_compact(COMPACT) == (two, "b")
    assert await hooks_of(a=a, c=c, b=b).session_before_compact(COMPACT) == (Cancel(), "c")
    assert await hooks_of().session_before_compact(COMPACT) is None


# Collect.


async def test_resources_are_gathered_in_plugin_order():
    failures: list[Failure] = []

    async def later():
        await anyio.lowlevel.checkpoint()
        return Resources(["two"])

    hooks = hooks_of(
        failures,
        a=plugin(resources_discover=lambda: Resources(["one"])),
        b=plugin(resources_discover=later),
        c=plugin(resources_discover=lambda: Resources("three")),
    )
    event = ResourcesDiscoverEvent("/x", "startup")
    assert await hooks.resources_discover(event) == [
        ("a", Resources(["one"])),
        ("b", Resources(["two"])),
    ]
    assert [f.plugin for f in failures] == ["c"]


# Whose code is running.


async def test_the_current_plugin_is_the_one_that_runs_and_the_hosts_own_code_has_none():
    seen: list[str | None] = []

    async def later():
        await anyio.lowlevel.checkpoint()
        seen.append(current_plugin())

    def now():
        seen.append(current_plugin())

    hooks = hooks_of(
        a=plugin(turn_start=now), b=plugin(turn_start=later), c=plugin(turn_start=lambda: now())
    )
    await hooks.turn_start(TURN)
    assert seen == ["a", "b", "c"]
    assert current_plugin() is None


async def test_the_current_hook_is_the_one_that_is_dispatched():
    seen: list[str | None] = []
    inner = hooks_of(inner=plugin(turn_end=lambda: seen.append(current_hook())))

    async def outer():
        await inner.turn_end(None)
        seen.append(current_hook())

    await hooks_of(outer=plugin(turn_start=outer)).turn_start(TURN)
    assert seen == ["turn_end", "turn_start"]
    assert current_hook() is None


async def test_a_dispatch_inside_a_dispatch_gives_the_outer_plugin_back():
    seen: list[str | None] = []
    inner = hooks_of(inner=plugin(turn_start=lambda: seen.append(current_plugin())))

    async def outer():
        await inner.turn_start(TURN)
        seen.append(current_plugin())

    await hooks_of(outer=plugin(turn_start=outer)).turn_start(TURN)
    assert seen == ["inner", "outer"]


async def test_concurrent_dispatches_do_not_mix_their_plugins():
    seen: list[tuple[str, str | None]] = []
    both = anyio.Event()
    started: list[str] = []

    async def wait(ctx):
        started.append(ctx.plugin)
        if len(started) == 2:
            both.set()
        await both.wait()
        seen.append((ctx.plugin, current_plugin()))

    hooks = [hooks_of(**{name: plugin(turn_start=wait)}) for name in ("a", "b")]
    async with anyio.create_task_group() as tasks:
        for each in hooks:
            tasks.start_soon(each.turn_start, TURN)
    assert sorted(seen) == [("a", "a"), ("b", "b")]


async def test_a_task_that_a_plugin_starts_keeps_its_name_after_the_dispatch():
    seen: list[str | None] = []
    done = anyio.Event()

    async def background():
        await done.wait()
        seen.append(current_plugin())

    async with anyio.create_task_group() as tasks:

        def start():
            tasks.start_soon(background)

        hooks = hooks_of(a=plugin(turn_start=start), b=plugin(turn_start=lambda: None))
        await hooks.turn_start(TURN)
        done.set()
    assert seen == ["a"]
