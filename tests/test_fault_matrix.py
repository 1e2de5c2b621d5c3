"""Planted faults in a real session: each is told with its transition, place, cause and owner.

Policy `record`, so that what would be refused is sent and can be seen. The diagnostics plugin judges;
the ledger names. What is no boundary must not be called one.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from attrs import Factory, define, evolve, frozen

import unipi_diagnostics
from unipi.agent import AgentOptions, CompactionOptions, open_agent
from unipi.session import Session
from unipi.sim import Answer, Call, Clock, Say, Simulator, Think
from unipi.testing import prefix_breaks
from unipi.testing.lab import host, model
from unipi_diagnostics.session import SessionState
from unipi_hookspecs import Image, Resources, StartWith, Tool, hookimpl

RECORD = AgentOptions(policy="record")
LONG = "word " * 1_500
RED, BLUE = (
    base64.b64encode(b"\x89PNG\r\n\x1a\n" + colour * 64).decode() for colour in (b"\1", b"\2")
)

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "number", "default": 1.5}, "name": {"type": "string"}},
    "required": ["name", "size"],
}


@define
class Planted:
    """A plugin that behaves until a test tells it what to do."""

    prompt: Callable[[str], str] | None = None
    payload: Callable | None = None
    project: Callable | None = None
    headers: dict[str, str] = Factory(dict)
    rules: str = "Be careful. " * 600

    @hookimpl
    def register_tools(self):
        run = lambda call, ctx: "seen"  # noqa: E731 - the shortest tool there is
        return [
            Tool("measure", "Measure it.", parameters=SCHEMA, run=run),
            Tool("look", "Look.", parameters={"type": "object"}, run=run),
        ]

    @hookimpl
    def resources_discover(self):
        return Resources([self.rules])

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=self.prompt(event.system_prompt)) if self.prompt else None

    @hookimpl
    def before_provider_request(self, event):
        return self.payload(event.payload) if self.payload else None

    @hookimpl
    def context(self, event):
        return self.project(event.messages) if self.project else None

    @hookimpl
    def before_provider_headers(self, event):
        return {**event.headers, **self.headers} if self.headers else None


@define
class Scene:
    """A session that has been running, for a fault to be planted in."""

    agent: object
    planted: Planted
    sim: Simulator
    clock: Clock
    cwd: Path

    @property
    def state(self) -> SessionState:
        return unipi_diagnostics._sessions().of(self.agent.session.id)

    async def talk(self, text="and now?", images=()):
        await self.agent.prompt(text, images)


Act = Callable[[Scene], Awaitable[None] | None]


@frozen
class Fault:
    """What is planted, and what must be told of the next request.

    `cause` and `owner` None: no boundary. `place` is part of the words about where it is.
    """

    name: str
    act: Act
    transition: str = "prefix_extended"
    place: str = ""
    cause: str | None = None
    owner: str | None = None
    avoidable: bool = True


def clock_in_prompt(scene):
    scene.planted.prompt = lambda text: f"{text}\nIt is 12:00:01."


def on_payload(change):
    def act(scene):
        scene.planted.payload = change

    return act


def on_context(change):
    def act(scene):
        scene.planted.project = change

    return act


def tools(change):
    return on_payload(lambda payload: evolve(payload, tools=change(list(payload.tools))))


def of_tool(name, change):
    def changed(given):
        return [{**tool, **change(tool)} if tool["name"] == name else tool for tool in given]

    return tools(changed)


def schema(change):
    return of_tool("measure", lambda tool: {"input_schema": change(tool["input_schema"])})


def messages(change):
    """Change wire messages; `change` gets a list and returns one."""
    return on_payload(lambda payload: evolve(payload, messages=change(list(payload.messages))))


def envelope(**members):
    return on_payload(lambda p: evolve(p, envelope={**p.envelope, **members}))


def edited_result(given):
    changed = list(given)
    for place, message in enumerate(changed):
        content = message["content"]
        if isinstance(content, list) and content[0].get("type") == "tool_result":
            block = {**content[0], "content": "[cleared]"}
            changed[place] = {**message, "content": [block, *content[1:]]}
            break
    return changed


def without_thinking(given):
    def bare(message):
        if not isinstance(message["content"], list):
            return message
        kept = [b for b in message["content"] if b.get("type") != "thinking"]
        return {**message, "content": kept}

    return [bare(message) for message in given]


def merged(given):
    """The first two user turns as one, the answer between them left out."""
    first, _, second, *rest = given
    return [{"role": "user", "content": f"{first['content']}{second['content']}"}, *rest]


def other_picture(given):
    text = [dict(message) for message in given]
    for message in text:
        if isinstance(message["content"], list):
            message["content"] = [
                {**b, "source": {**b["source"], "data": BLUE}} if b.get("type") == "image" else b
                for b in message["content"]
            ]
    return text


def marked(given):
    last = dict(given[-1])
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
    return [*given[:-1], {**last, "content": blocks}]


async def there_and_back(scene):
    agent = scene.agent
    first = agent.model
    await agent.set_model(evolve(first, id="another"), agent.api)
    await agent.set_model(first, agent.api)


async def another_model(scene):
    agent = scene.agent
    await agent.set_model(evolve(agent.model, id="another"), agent.api)


async def compacted(scene):
    said = await scene.agent.compact()
    assert said.startswith("compacted"), said


async def late_tool(scene):
    ctx = scene.agent.contexts.of("planted")
    ctx.register_tools([Tool("late", "Comes late.", run=lambda call, ctx: "ran")])


def tool_gone(scene):
    scene.agent.contexts.of("planted").disable_tool("look", "not now")


def asked(scene):
    scene.agent.contexts.of("planted").request_boundary("reload", "rules were read again")


def reload(scene):
    scene.agent.want_boundary("reload", "AGENTS.md was edited")


def longer_ttl(scene):
    scene.agent.cache_ttl = "1h"


FAULTS = [
    Fault(
        "clock in the system prompt",
        clock_in_prompt,
        "envelope_changed",
        "system[0].text",
        "system_prompt",
        "planted",
    ),
    Fault(
        "shuffled tools",
        tools(lambda given: given[::-1]),
        "envelope_changed",
        "tools[0] (the same ones in another order)",
        "tools",
        "planted",
    ),
    Fault(
        "tool added by a payload",
        tools(lambda given: [*given, {"name": "x", "input_schema": {"type": "object"}}]),
        "envelope_changed",
        "(added; 1 more than before)",
        "tools",
        "planted",
    ),
    Fault(
        "tool taken out by a payload",
        tools(lambda given: given[1:]),
        "envelope_changed",
        "tools[0] (removed; 1 fewer than before)",
        "tools",
        "planted",
    ),
    Fault(
        "tool description with a counter",
        of_tool("look", lambda tool: {"description": "Look. Used 3 times."}),
        "envelope_changed",
        ".description",
        "tools",
        "planted",
    ),
    Fault("schema key order", schema(lambda s: dict(reversed(s.items())))),
    Fault(
        "order of required",
        schema(lambda s: {**s, "required": s["required"][::-1]}),
        "envelope_changed",
        ".input_schema.required (the same ones in another order)",
        "tools",
        "planted",
    ),
    Fault(
        "number in another form",
        schema(
            lambda s: {
                **s,
                "properties": {**s["properties"], "size": {"type": "number", "default": 2}},
            }
        ),
        "envelope_changed",
        ".input_schema.properties.size.default",
        "tools",
        "planted",
    ),
    Fault(
        "escapes in another form",
        # The same value, whatever escapes it was read from: the host writes it in its own way.
        messages(lambda given: [dict(message) for message in given]),
    ),
    Fault(
        "dropped thinking",
        messages(without_thinking),
        "history_rewritten",
        "message 2 of",
        "plugin_rewrite",
        "planted",
    ),
    Fault(
        "merged user messages",
        messages(merged),
        "history_rewritten",
        "message 1 of",
        "plugin_rewrite",
        "planted",
    ),
    Fault(
        "edited old tool result",
        messages(edited_result),
        "history_rewritten",
        "message 3 of 5 is the first to differ (messages[2].content[0].content",
        "plugin_rewrite",
        "planted",
    ),
    Fault(
        "picture of equal size",
        messages(other_picture),
        "history_rewritten",
        "message 1 of 5 is the first to differ (messages[0].content[1].source.data)",
        "plugin_rewrite",
        "planted",
    ),
    Fault(
        "message put before the history",
        on_context(lambda given: [evolve(given[0], content="Remember me."), *given]),
        "history_rewritten",
        "message 1 of",
        "plugin_rewrite",
        "planted",
    ),
    Fault(
        "oldest messages trimmed",
        on_context(lambda given: list(given)[-1:]),
        "history_rewritten",
        "message 1 of 1",
        "plugin_rewrite",
        "planted",
    ),
    Fault("cache marker moved", messages(marked)),
    Fault("model there and back", there_and_back),
    Fault(
        "another model",
        another_model,
        "first_request",
        "became",
        "model",
        "user",
        avoidable=False,
    ),
    Fault(
        "another thinking level",
        lambda scene: scene.agent.set_thinking("low"),
        "first_request",
        "",
        "thinking",
        "user",
        avoidable=False,
    ),
    Fault(
        "sampling",
        envelope(temperature=0.3),
        "envelope_changed",
        "temperature",
        "payload_shape",
        "planted",
    ),
    Fault(
        "stop sequences",
        envelope(stop_sequences=["END"]),
        "envelope_changed",
        "stop_sequences",
        "payload_shape",
        "planted",
    ),
    Fault(
        "output limit",
        envelope(max_tokens=1_234),
        "envelope_changed",
        "max_tokens",
        "payload_shape",
        "planted",
    ),
    Fault(
        "whole payload replaced by a late plugin",
        on_payload(
            lambda p: evolve(p, system=[{"type": "text", "text": "Mine."}], messages=p.messages)
        ),
        "envelope_changed",
        "system",
        "system_prompt",
        "planted",
    ),
    Fault("header only", lambda scene: scene.planted.headers.update({"x-trace": "1"})),
    Fault("idle past the TTL", lambda scene: scene.clock.advance(600)),
    Fault("compaction", compacted, "first_request", "", "compaction", "user", avoidable=False),
    Fault("tool registered late", late_tool),
    Fault("tool disabled", tool_gone),
    Fault(
        "boundary that a plugin asked for",
        asked,
        "prefix_extended",
        "",
        "reload",
        "planted",
        avoidable=False,
    ),
    Fault(
        "context file edited and reloaded",
        reload,
        "prefix_extended",
        "",
        "reload",
        "user",
        avoidable=False,
    ),
    Fault("time to live chosen within an epoch", longer_ttl),
]

SCRIPT = [
    Answer([Think("hm", None), Call("look", {})]),
    Answer([Say("a")]),
    Answer([Say("What was said so far is that a thing was looked at.")]),
    Answer([Say("c")]),
    Answer([Say("d")]),
]


async def watched(tmp_path, do) -> None:
    """Run a session of one turn with a call, and let `do` go on in it."""
    planted, clock = Planted(), Clock()
    sim = Simulator(SCRIPT, profile="anthropic", clock=clock)
    plugins = [("diagnostics", unipi_diagnostics), ("planted", planted)]
    prepared = host(tmp_path, plugins)
    session = Session.create(None, cwd=tmp_path)
    async with sim.serve() as url:
        options = AgentOptions(policy="record", compaction=CompactionOptions(keep=10))
        served = evolve(model(url), reasoning=True, input=("text", "image"), binds_thinking=False)
        async with open_agent(prepared, session, served, options) as agent:
            scene = Scene(agent, planted, sim, clock, tmp_path)
            await scene.talk(LONG, [Image(RED, "image/png")])
            await do(scene)
    assert {request.status for request in sim.requests} == {200}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_planted_fault_is_told_by_transition_place_cause_and_owner(tmp_path, fault) -> None:
    async def do(scene):
        pending = fault.act(scene)
        if pending is not None:
            await pending
        await scene.talk()
        state = scene.state
        seen = state.boundaries[-1] if state.boundaries else None
        told = state.current.change
        assert told.transition == fault.transition, told
        assert fault.place in (told.where or state.current.where)
        assert (seen and seen.cause, seen and seen.owner) == (fault.cause, fault.owner)
        if seen is not None:
            assert seen.recorded
            assert seen.avoidable == fault.avoidable
        assert state.boundary_count == (fault.cause is not None)

    await watched(tmp_path, do)


@frozen
class Restart:
    """What is another thing when the session is opened again, and what must be told of it."""

    name: str
    rules: str = Planted().rules
    more_tools: bool = False
    fewer_tools: bool = False
    options: AgentOptions = RECORD
    model_id: str = ""
    cause: str | None = None
    owner: str | None = None


RESTARTS = [
    Restart("nothing"),
    Restart("context file edited", rules="Be bold. " * 600),
    Restart(
        "context file edited, fresh head",
        rules="Be bold. " * 600,
        options=AgentOptions(policy="record", fresh_head=True),
        cause="reload",
        owner="user",
    ),
    Restart("catalogue has one tool more", more_tools=True),
    Restart("catalogue has one tool less, as after a plugin's update", fewer_tools=True),
    Restart(
        "catalogue changed, fresh head",
        more_tools=True,
        options=AgentOptions(policy="record", fresh_head=True),
        cause="reload",
        owner="user",
    ),
    Restart("another model", model_id="another", cause="model", owner="user"),
    Restart(
        "another thinking level",
        options=AgentOptions(policy="record", thinking="high"),
        cause="thinking",
        owner="user",
    ),
]


@define
class Catalogue(Planted):
    """The planted plugin with another list of tools."""

    more: bool = False
    fewer: bool = False

    @hookimpl
    def register_tools(self):
        run = lambda call, ctx: "seen"  # noqa: E731 - the shortest tool there is
        tools = [Tool("look", "Look.", parameters={"type": "object"}, run=run)]
        if not self.fewer:
            tools.append(Tool("measure", "Measure it.", parameters=SCHEMA, run=run))
        if self.more:
            tools.append(Tool("aaa", "Comes first.", parameters={"type": "object"}, run=run))
        return tools


@pytest.mark.parametrize("restart", RESTARTS, ids=lambda restart: restart.name)
async def test_a_session_that_is_opened_again_says_what_ended_its_epoch(tmp_path, restart) -> None:
    sim = Simulator(SCRIPT, profile="anthropic")
    path = tmp_path / "s.jsonl"
    seen = []
    for later in (False, True):
        planted = Catalogue(
            rules=restart.rules if later else Planted().rules,
            more=later and restart.more_tools,
            fewer=later and restart.fewer_tools,
        )
        prepared = host(tmp_path, [("diagnostics", unipi_diagnostics), ("planted", planted)])
        session = Session.open(path) if later else Session.create(path, cwd=tmp_path)
        options = restart.options if later else RECORD
        async with sim.serve() as url:
            served = evolve(model(url), reasoning=True, binds_thinking=False)
            if later and restart.model_id:
                served = evolve(served, id=restart.model_id)
            async with open_agent(prepared, session, served, options) as agent:
                await agent.prompt("and now?" if later else LONG)
                state = unipi_diagnostics._sessions().of(session.id)
                seen = [(b.cause, b.owner, b.avoidable) for b in state.boundaries]
    expected = [(restart.cause, restart.owner, False)] if restart.cause else []
    assert seen == expected
    assert {request.status for request in sim.requests} == {200}
    extends = prefix_breaks(sim.requests) == []
    assert extends == (restart.cause is None)


def test_there_are_at_least_25_faults() -> None:
    assert len(FAULTS) + len(RESTARTS) >= 25
