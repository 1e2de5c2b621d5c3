"""Field reports F01 to F04, F15 and F16: what plugins do to the head and the history."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unipi.agent import AgentOptions
from unipi.sim import Call, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import CustomMessage, StartWith, Tool, UserMessage, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SCRIPT = [[Say(f"answer {n}")] for n in range(12)]
RECORD = AgentOptions(policy="record")


def heads(requests) -> list[bytes]:
    return [re.split(rb'"(?:messages|input)":\[', r.body)[0] for r in requests]


class Clocked:
    """Puts the time to the second into the system prompt."""

    def __init__(self) -> None:
        self.seconds = 0

    @hookimpl
    def resources_discover(self):
        from unipi_hookspecs import Resources

        return Resources(["Rule. " * 1500])

    @hookimpl
    def before_agent_start(self, event):
        self.seconds += 61
        return StartWith(system_prompt=f"{event.system_prompt}\nIt is 12:00:00 + {self.seconds} s.")


@pytest.mark.parametrize("api", APIS)
async def test_a_clock_in_the_system_prompt_is_refused_and_its_plugin_named_once(
    tmp_path: Path, api: str
) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("clocked", Clocked())], api=api) as it:
        for n in range(3):
            await it.agent.prompt(f"prompt {n}")
            it.sim.clock.advance(61)
    assert len(set(heads(it.requests))) == 1
    assert [n.plugin for n in it.notices] == ["clocked"]
    for before, now in zip(it.requests, it.requests[1:], strict=False):
        assert now.cached_tokens >= before.prompt_tokens // 128 * 128
    assert b"12:00:00 + 61 s" in it.requests[0].body
    first = it.requests[0].parsed
    assert "12:00:00 + 61 s" not in first.get("system", [{}])[0].get("text", "")
    assert "12:00:00 + 61 s" not in first.get("instructions", "")


@pytest.mark.parametrize("api", APIS)
async def test_under_record_a_clock_costs_a_boundary_a_run_owned_by_its_plugin(
    tmp_path: Path, api: str
) -> None:
    async with lab(
        tmp_path, SCRIPT, plugins=[("clocked", Clocked())], api=api, options=RECORD
    ) as it:
        for n in range(3):
            await it.agent.prompt(f"prompt {n}")
    crossed = it.boundaries[1:]
    assert [(b.cause, b.owner, b.avoidable) for b in crossed] == [
        ("system_prompt", "clocked", True)
    ] * 2
    for boundary, before in zip(crossed, it.requests, strict=False):
        assert boundary.tokens_lost == before.prompt_tokens


class Sentence:
    """Adds one constant sentence at session start."""

    @hookimpl
    def resources_discover(self):
        from unipi_hookspecs import Resources

        return Resources(["Always answer in verse."])


class Waker:
    """When idle, appends a message that starts a turn."""

    @hookimpl
    async def agent_settled(self, ctx):
        if not self.woken:
            self.woken = True
            await ctx.append_message("wake", "wake up", trigger_turn=True)

    woken = False


@pytest.mark.parametrize("api", APIS)
async def test_a_plugin_that_wakes_the_agent_gets_the_same_head_as_a_prompt(
    tmp_path: Path, api: str
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    reads = [Call("read", {"path": "a.txt"})]
    script = [reads, [Say("1")], reads, [Say("2")], reads, [Say("3")]]
    plugins = [("sentence", Sentence()), ("waker", Waker())]
    async with lab(tmp_path, script, plugins=plugins, api=api) as it:
        await it.agent.prompt("go")
        await it.agent.settled()
        await it.agent.prompt("again")
    assert len(it.requests) == 6
    assert len(set(heads(it.requests))) == 1
    assert prefix_breaks(it.requests) == []
    assert all(b"Always answer in verse." in r.body for r in it.requests)


class Screenshots:
    """Adds guidance only when the prompt mentions a screenshot."""

    @hookimpl
    def before_agent_start(self, event):
        if "screenshot" in event.prompt:
            return StartWith(system_prompt=event.system_prompt + "\nUse the browser tool.")
        return None


TOPICS = ["take a screenshot", "add two numbers", "another screenshot", "and the sum"]


async def test_conditional_guidance_goes_to_the_tail_once_and_the_head_stands(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("shots", Screenshots())]) as it:
        for text in TOPICS:
            await it.agent.prompt(text)
    assert len(set(heads(it.requests))) == 1
    assert it.requests[-1].body.count(b"Use the browser tool.") == 1
    assert b"Use the browser tool." in it.requests[0].body


async def test_conditional_guidance_under_record_is_three_boundaries_of_its_plugin(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("shots", Screenshots())], options=RECORD) as it:
        for text in TOPICS:
            await it.agent.prompt(text)
    assert [b.owner for b in it.boundaries[1:]] == ["shots"] * 3


def probe_tool() -> Tool:
    async def run(call, ctx) -> str:
        return "probed"

    return Tool("t_probe", "Probe something.", run=run)


class Disabler:
    """Disables t_probe at the start of a run, and later asks for a boundary."""

    boundary = False

    @hookimpl
    def register_tools(self):
        return [probe_tool()]

    @hookimpl
    def before_agent_start(self, ctx):
        ctx.disable_tool("t_probe", "not in this phase")
        if self.boundary:
            ctx.request_boundary("tools", "t_probe is gone")


class Rewriter:
    """Returns the full system text it was given, which mentions t_probe, and a line more."""

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=f"{event.system_prompt}\nBe brief.")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_a_disabled_tool_is_refused_in_the_epoch_and_gone_from_prompt_and_list_after_it(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    disabler = Disabler()
    plugins = [(order[0], disabler), (order[1], Rewriter())]
    script = [[Call("t_probe", {})], [Say("ok")], [Say("later")]]
    async with lab(tmp_path, script, plugins=sorted(plugins, key=lambda p: p[0])) as it:
        await it.agent.prompt("go")
        disabler.boundary = True
        await it.agent.prompt("go on")
    first, second, third = it.requests
    assert heads([first]) == heads([second])
    assert b"t_probe is disabled by plugin" in second.body
    assert b"not in this phase" in second.body
    assert b"t_probe" not in heads([third])[0]
    assert b"Be brief." in heads([third])[0]
    assert it.boundaries[-1].cause == "tools"
    assert it.boundaries[-1].owner == order[0]


class LateRegistrar:
    """Registers 1 tool at load, 3 in its first tool_call, 8 in turn_end."""

    def __init__(self) -> None:
        self.done: set[str] = set()

    def tools(self, prefix: str, count: int) -> list[Tool]:
        async def run(call, ctx) -> str:
            return "ran"

        return [Tool(f"{prefix}_{n}", "A tool.", run=run) for n in range(count)]

    @hookimpl
    def register_tools(self):
        return self.tools("early", 1)

    @hookimpl
    def tool_call(self, event, ctx):
        if "call" not in self.done:
            self.done.add("call")
            ctx.register_tools(self.tools("middle", 3))

    @hookimpl
    def turn_end(self, ctx):
        if "end" not in self.done:
            self.done.add("end")
            ctx.register_tools(self.tools("late", 8))


async def test_tools_registered_late_wait_for_the_next_epoch_and_the_author_is_told(
    tmp_path: Path,
) -> None:
    script = [[Call("early_0", {})], [Say("ok")], [Say("more")], [Say("new epoch")]]
    async with lab(tmp_path, script, plugins=[("lazy", LateRegistrar())]) as it:
        await it.agent.prompt("go")
        await it.agent.prompt("and again")
        assert len(it.agent.toolbox.pending) == 11
        it.agent.want_boundary("tools")
        await it.agent.prompt("now")
    assert len(set(heads(it.requests[:3]))) == 1
    told = [n.text for n in it.notices if n.plugin == "lazy"]
    assert len(told) == 2
    assert "tool_call" in told[0]
    assert "turn_end" in told[1]
    assert heads(it.requests)[3].count(b"late_") >= 8


class Prepender:
    """Puts a message in front of the history for one call only, absent on every third turn."""

    def __init__(self) -> None:
        self.turn = 0

    @hookimpl
    def context(self, event):
        self.turn += 1
        if self.turn % 3 == 0:
            return None
        return [UserMessage(f"memory of turn {self.turn}"), *event.messages]


async def test_a_message_put_before_the_history_is_refused_and_its_plugin_named_once(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("memory", Prepender())]) as it:
        for n in range(6):
            await it.agent.prompt(f"prompt {n} " + "x" * 4000)
    assert prefix_breaks(it.requests) == []
    assert [n.plugin for n in it.notices] == ["memory"]
    assert "append" in it.notices[0].text


async def test_under_record_each_appearance_and_disappearance_is_a_boundary(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("memory", Prepender())], options=RECORD) as it:
        for n in range(6):
            await it.agent.prompt(f"prompt {n} " + "x" * 4000)
    crossed = it.boundaries[1:]
    assert [(b.cause, b.owner, b.avoidable) for b in crossed] == [
        ("plugin_rewrite", "memory", True)
    ] * 5
    for boundary, before in zip(crossed, it.requests, strict=False):
        # Everything behind the head is lost: the first message is another one.
        after_head = 1 - len(heads([before])[0]) / len(before.body)
        assert boundary.tokens_lost == pytest.approx(before.prompt_tokens * after_head, rel=0.03)


class Projector:
    """Shortens new messages of its own type, and leaves everything else alone."""

    @hookimpl
    async def agent_start(self, ctx):
        await ctx.append_message("finding", "long finding " * 50)

    @hookimpl
    def context(self, event):
        from attrs import evolve

        return [
            evolve(m, content="short")
            if i >= event.new_from and isinstance(m, CustomMessage)
            else m
            for i, m in enumerate(event.messages)
        ]


async def test_a_projection_of_new_messages_is_kept_for_the_epoch(tmp_path: Path) -> None:
    async with lab(tmp_path, SCRIPT, plugins=[("finder", Projector())]) as it:
        for n in range(3):
            await it.agent.prompt(f"prompt {n}")
    assert prefix_breaks(it.requests) == []
    assert b"long finding" not in it.requests[-1].body
    assert it.requests[-1].body.count(b'"short"') == 3
    assert it.notices == []
