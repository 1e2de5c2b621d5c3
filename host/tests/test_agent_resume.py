"""A session goes on with the bytes that were sent, or says why it cannot."""

from __future__ import annotations

import pytest
from attrs import evolve

from unipi.agent import AgentOptions
from unipi.session import Session
from unipi.sim import Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import PROFILES
from unipi_hookspecs import (
    AssistantMessage,
    CustomMessage,
    Resources,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SCRIPT = [[Say(f"answer {n}")] for n in range(8)]


class Runs:
    """The same session in one process after another, against one simulator."""

    def __init__(self, tmp_path, api):
        self.cwd, self.api = tmp_path, api
        self.path = tmp_path / "s.jsonl"
        self.sim = Simulator(SCRIPT, profile=PROFILES[api])

    def __call__(self, *plugins, options=None):
        session = (
            Session.open(self.path)
            if self.path.exists()
            else Session.create(self.path, cwd=self.cwd)
        )
        return lab(
            self.cwd,
            [],
            plugins=plugins,
            api=self.api,
            session=session,
            sim=self.sim,
            options=options,
        )

    async def say(self, text, *plugins, options=None):
        async with self(*plugins, options=options) as it:
            await it.agent.prompt(text)
        return it


@pytest.fixture(params=APIS)
def runs(request, tmp_path):
    return Runs(tmp_path, request.param)


async def test_the_same_bytes_go_on_after_each_reopening(runs):
    for n in range(3):
        it = await runs.say(f"prompt {n}")
        assert [b.cause for b in it.boundaries] == (["first"] if n == 0 else [])
    assert len(runs.sim.requests) == 3
    assert prefix_breaks(runs.sim.requests) == []


async def test_what_has_changed_since_is_told_and_the_stored_head_goes_on(runs):
    class Rule:
        @hookimpl
        def resources_discover(self):
            return Resources(["A new rule."])

    class More:
        @hookimpl
        def register_tools(self):
            return [Tool("extra", "Extra.", run=lambda call, ctx: "")]

    await runs.say("one", ("more", More()))
    it = await runs.say("two", ("rule", Rule()))
    assert it.boundaries == []
    assert prefix_breaks(runs.sim.requests) == []
    (notice,) = it.notices
    assert "tools that are gone: extra" in notice.text
    assert "--fresh-head" in notice.text


async def test_a_fresh_head_is_the_users_choice_and_a_recorded_boundary(runs):
    await runs.say("one")
    it = await runs.say("two", options=AgentOptions(fresh_head=True))
    assert [(b.cause, b.owner, b.number) for b in it.boundaries] == [("reload", "user", 2)]


async def test_another_thinking_level_is_a_boundary_of_the_user(runs):
    await runs.say("one")
    it = await runs.say("two", options=AgentOptions(thinking="high"))
    assert [b.owner for b in it.boundaries] == ["user"]


async def test_a_history_that_was_edited_meanwhile_is_a_boundary_that_says_so(runs):
    await runs.say("first words")
    runs.path.write_bytes(runs.path.read_bytes().replace(b"first words", b"other words"))
    it = await runs.say("two")
    assert [(b.cause, b.owner) for b in it.boundaries] == [("resume", "host")]
    assert b"other words" in runs.sim.requests[-1].body


async def test_a_lost_secret_costs_a_boundary_and_nothing_else(runs):
    await runs.say("one")
    (key,) = runs.cwd.glob("*.key")
    key.unlink()
    it = await runs.say("two")
    assert [b.cause for b in it.boundaries] == ["resume"]


async def test_a_call_without_its_result_is_closed_and_the_session_goes_on(runs):
    await runs.say("one")
    with Session.open(runs.path) as session:
        session.append_message(UserMessage("two"))
        session.append_message(
            AssistantMessage(
                [ToolCall("call_1", "ls", {"path": "."})],
                api=runs.api,
                provider="sim",
                model="sim-model",
                stop_reason="toolUse",
            )
        )
    it = await runs.say("three")
    closed = [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]
    assert "not run" in closed[0].content[0].text
    assert any("1 tool call" in n.text for n in it.notices)
    assert [r.status for r in runs.sim.requests] == [200, 200]
    assert prefix_breaks(runs.sim.requests) == []


class Notes:
    """Keeps a note for people, which the model never sees, and shortens another."""

    @hookimpl
    async def session_start(self, ctx):
        ctx.exclude_custom_type("private")

    @hookimpl
    async def agent_start(self, ctx):
        await ctx.append_message("private", "not for the model")
        await ctx.append_message("long", "many words " * 20)

    @hookimpl
    def context(self, event):
        return [
            evolve(m, content="few words")
            if i >= event.new_from and isinstance(m, CustomMessage)
            else m
            for i, m in enumerate(event.messages)
        ]


async def test_what_plugins_decided_of_a_message_holds_after_reopening(runs):
    for n in range(3):
        it = await runs.say(f"prompt {n}", ("notes", Notes()))
        assert [b.cause for b in it.boundaries] == (["first"] if n == 0 else [])
    assert prefix_breaks(runs.sim.requests) == []
    assert b"many words" not in runs.sim.requests[-1].body
    assert b"not for the model" not in runs.sim.requests[-1].body


async def test_it_holds_even_when_the_plugin_is_gone(runs):
    await runs.say("one", ("notes", Notes()))
    it = await runs.say("two")
    assert it.boundaries == []
    assert prefix_breaks(runs.sim.requests) == []
    assert b"not for the model" not in runs.sim.requests[-1].body


async def test_a_failing_plugin_at_the_start_does_not_keep_the_session_shut(runs):
    class Broken:
        @hookimpl
        def session_start(self):
            raise ValueError("no")

        @hookimpl
        def resources_discover(self):
            raise ValueError("no")

    it = await runs.say("one", ("broken", Broken()))
    assert len(it.requests) == 1
