"""After a restart plugins are asked for the same head again, and nobody is blamed for it."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from unipi.agent import AgentOptions
from unipi.session import Session
from unipi.sim import Answer, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import PROFILES
from unipi_hookspecs import PluginError, StartWith, UserMessage, hookimpl

RECORD = AgentOptions(policy="record")
ENFORCE = AgentOptions()


class Adds:
    """Adds a line to the system prompt of the payload; `says` makes it."""

    def __init__(self, says=lambda: "Be brief."):
        self.says = says

    @hookimpl
    def before_provider_request(self, event):
        system = event.payload.system
        extra = (
            {"role": "system", "content": self.says()}
            if "role" in system[0]
            else {"type": "text", "text": self.says()}
        )
        return evolve(event.payload, system=[*system, extra])


class Edits:
    """Adds a line to the system prompt when a run starts."""

    def __init__(self, says=lambda: "Answer in verse."):
        self.says = says

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=f"{event.system_prompt}\n{self.says()}")


class Looks:
    """Looks at every wire message, as a logger would."""

    def __init__(self):
        self.seen = []

    @hookimpl
    def before_provider_request(self, event):
        self.seen.append(len(list(event.payload.messages)))


class Runs:
    """One session in one process after another, against one simulator."""

    def __init__(self, folder, api):
        self.folder, self.api = folder, api
        self.path = folder / "s.jsonl"
        self.sim = Simulator([Say("ok")], profile=PROFILES[api], repeat_last=True)

    def open(self, *plugins, options=ENFORCE):
        known = self.path.exists()
        return lab(
            self.folder,
            [],
            plugins=[(f"p{n}", plugin) for n, plugin in enumerate(plugins)],
            api=self.api,
            session=(
                Session.open(self.path) if known else Session.create(self.path, cwd=self.folder)
            ),
            sim=self.sim,
            options=options,
        )

    async def say(self, *plugins, options=ENFORCE, prompts=("go",)):
        async with self.open(*plugins, options=options) as it:
            for prompt in prompts:
                await it.agent.prompt(prompt)
        return it

    def unbroken(self):
        accepted = [request.status for request in self.sim.requests]
        return set(accepted) == {200} and prefix_breaks(self.sim.requests) == []


@pytest.fixture(params=PROFILES)
def runs(request, tmp_path):
    return Runs(tmp_path, request.param)


@pytest.mark.parametrize("options", [ENFORCE, RECORD])
@pytest.mark.parametrize("plugin", [Adds, Edits])
async def test_a_plugin_that_makes_the_same_head_again_is_not_blamed(runs, plugin, options):
    for _ in range(3):
        it = await runs.say(plugin(), options=options)
    assert it.boundaries == []
    if plugin is Adds or options is RECORD:
        assert it.notices == []
    assert runs.unbroken()


@pytest.mark.parametrize("options", [ENFORCE, RECORD])
async def test_the_stored_head_stands_when_the_plugin_that_shaped_it_is_gone(runs, options):
    await runs.say(Adds(), options=options)
    it = await runs.say(Looks(), options=options)
    assert (it.boundaries, it.notices) == ([], [])
    assert b"Be brief." in runs.sim.requests[-1].body
    assert runs.unbroken()


@pytest.mark.parametrize("kind", [Adds, Edits])
async def test_who_moves_the_head_is_told_even_when_another_comes_after(runs, kind):
    count = iter(range(9))

    def plugins():
        return kind(), kind(lambda: f"run {next(count)}"), kind(lambda: "The end.")

    await runs.say(*plugins(), options=RECORD)
    it = await runs.say(*plugins(), options=RECORD)
    assert [(b.cause, b.owner, b.avoidable) for b in it.boundaries] == [
        ("system_prompt", "p1", True)
    ]


@pytest.mark.parametrize("kind", [Adds, Edits])
async def test_one_who_moved_the_head_once_is_not_blamed_for_the_next_move(runs, kind):
    first, second = iter("abbbb"), iter("xxyyy")
    plugins = kind(lambda: next(first)), kind(lambda: next(second))
    it = await runs.say(*plugins, options=RECORD, prompts=["1", "2", "3", "4"])
    assert [b.owner for b in it.boundaries] == ["host", "p0", "p1"]


async def test_an_edit_of_the_prompt_stays_in_the_head_across_a_restart_and_a_boundary(runs):
    await runs.say(Edits(), options=RECORD)
    async with runs.open(Edits(), options=RECORD) as it:
        await it.agent.prompt("again")
        it.agent.want_boundary("reload")
        await it.agent.prompt("after the boundary")
        await it.agent.prompt("and on")
    assert [b.cause for b in it.boundaries] == ["reload"]
    assert runs.sim.requests[-1].body.count(b"Answer in verse.") == 1


async def test_another_thinking_level_is_named_as_the_cause(runs):
    await runs.say()
    it = await runs.say(options=AgentOptions(thinking="high"))
    assert [(b.cause, b.owner) for b in it.boundaries] == [("thinking", "user")]


async def test_a_process_that_ended_between_a_boundary_and_its_request_costs_no_other_cause(runs):
    async with runs.open() as it:
        await it.agent.prompt("one")
        it.agent.want_boundary("tools", "wanted")
        await it.agent.prompt("two")
    lines = runs.path.read_bytes().splitlines(keepends=True)
    heads = [n for n, line in enumerate(lines) if b'"customType":"unipi.head"' in line]
    runs.path.write_bytes(b"".join(lines[: heads[1] + 1]))
    it = await runs.say()
    again = await runs.say()
    assert [(b.number, b.cause, b.owner, b.detail) for b in it.boundaries] == [
        (3, "tools", "user", "wanted")
    ]
    assert again.boundaries == []


async def test_a_rewrite_that_ends_with_its_process_is_a_boundary_of_its_plugin(runs):
    class Remembers:
        @hookimpl
        def context(self, event):
            return [UserMessage("a memory"), *event.messages]

    await runs.say(Remembers(), options=RECORD)
    it = await runs.say(options=RECORD)
    assert [(b.cause, b.owner, b.avoidable) for b in it.boundaries] == [
        ("plugin_rewrite", "p0", True)
    ]


async def test_an_answer_without_content_is_no_wire_message_for_plugins_either(runs):
    looks = Looks()
    runs.sim = Simulator([Answer([])], profile=PROFILES[runs.api], repeat_last=True)
    it = await runs.say(looks, prompts=["one", "two", "three"])
    assert it.notices == []
    assert looks.seen == [1, 2, 3]
    assert runs.unbroken()


@pytest.mark.parametrize("content", ["", " \n"])
async def test_a_plugins_message_that_no_provider_would_take_is_refused_at_the_door(runs, content):
    async with runs.open() as it:
        context = it.agent.contexts.of("p")
        with pytest.raises(PluginError, match="says nothing"):
            await context.append_message("state", content, trigger_turn=True)
        with pytest.raises(PluginError, match="says nothing"):
            await context.send_user_message(content)
    assert runs.sim.requests == []


async def test_a_stored_head_that_nobody_shaped_is_kept_once(runs):
    await runs.say()
    stored = [
        entry["data"]
        for entry in map(json.loads, runs.path.read_bytes().splitlines())
        if entry.get("customType") == "unipi.head"
    ]
    assert len(stored) == 1
    assert not {"base", "prompt", "shapes", "edits"} & set(stored[0])
