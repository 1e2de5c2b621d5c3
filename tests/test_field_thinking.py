"""Field reports F22, F23 and F51, and thinking that is bound to what stands before it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import anyio
import attrs
import pytest

from unipi.agent import AgentOptions, RunFailedError
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say, Simulator, Think
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import AssistantMessage, Image, Thinking, Tool, ToolOutput, hookimpl

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation."
)


def strict(*script: object) -> Simulator:
    """The simulator that refuses thinking whose prefix has changed."""
    return Simulator(list(script), profile="anthropic", check_thinking=True)


def thought(words: str, *more: object) -> Answer:
    return Answer((Think(words), Say(f"said {words}"), *more))


def blocks(request, kind: str) -> list[dict]:
    return [
        block
        for message in json.loads(request.body)["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == kind
    ]


class Tools:
    """Three tools: one that works, one that fails, one that waits for ever."""

    @hookimpl
    def register_tools(self):
        made = (("a", self.works), ("b", self.fails), ("c", self.waits))
        return [Tool(n, "Do.", parameters={"type": "object"}, run=run) for n, run in made]

    async def works(self, call, ctx):
        return "worked"

    async def fails(self, call, ctx):
        raise RuntimeError("failed")

    async def waits(self, call, ctx):
        self.agent.steer("hurry up")
        self.agent.abort()
        await anyio.sleep_forever()


# ---- F22


async def test_thinking_comes_back_whole_after_failures_cancellation_and_a_steer(
    tmp_path: Path,
) -> None:
    calls = (Call("a", {}), Call("b", {}), Call("c", {}))
    sim = strict(
        Answer((Think("", redacted=False), Think("deep"), Say("now"), *calls)),
        Answer((Think("", redacted=True), Say("next"))),
        Say("end"),
    )
    tools = Tools()
    async with lab(tmp_path, (), sim=sim, plugins=[("three", tools)]) as it:
        tools.agent = it.agent
        await it.agent.prompt("three at once")
        await it.agent.go_on()
        await it.agent.prompt("and on")
    assert {request.status for request in sim.requests} == {200}
    assert prefix_breaks(sim.requests) == []
    last = sim.requests[-1]
    assert [b["thinking"] for b in blocks(last, "thinking")] == ["", "deep"]
    assert len(blocks(last, "redacted_thinking")) == 1
    assert [r["tool_use_id"] for r in blocks(last, "tool_result")] == [
        c["id"] for c in blocks(last, "tool_use")
    ]
    assert [bool(r.get("is_error")) for r in blocks(last, "tool_result")] == [False, True, True]


# ---- F23


@pytest.mark.parametrize(
    "change",
    [
        lambda content: (Thinking("I invented this."), *content),
        lambda content: tuple(b for b in content if not isinstance(b, Thinking)),
        lambda content: tuple(
            attrs.evolve(b, thinking="edited") if isinstance(b, Thinking) else b for b in content
        ),
    ],
    ids=["invented", "taken out", "edited"],
)
async def test_thinking_that_a_plugin_changes_is_refused_at_the_door_by_its_name(
    tmp_path: Path, change
) -> None:
    class Helpful:
        @hookimpl
        def message_end(self, event):
            if isinstance(event.message, AssistantMessage):
                return attrs.evolve(event.message, content=change(event.message.content))
            return None

    sim = strict(thought("one"), thought("two"))
    async with lab(tmp_path, (), sim=sim, plugins=[("helpful", Helpful())]) as it:
        await it.agent.prompt("a")
        await it.agent.prompt("b")
        kept = it.agent.session.messages()[1]
    assert [b.thinking for b in kept.content if isinstance(b, Thinking)] == ["one"]
    assert {n.plugin for n in it.notices if "thinking of an answer" in n.text} == {"helpful"}
    assert {request.status for request in sim.requests} == {200}
    assert prefix_breaks(sim.requests) == []


# ---- what is bound


async def test_another_level_keeps_thinking_for_it_is_no_part_of_the_prompt(tmp_path: Path) -> None:
    sim = strict(thought("one"), thought("two"))
    async with lab(tmp_path, (), sim=sim) as it:
        it.agent.model = attrs.evolve(it.agent.model, reasoning=True)
        await it.agent.prompt("a")
        await it.agent.set_thinking("high")
        await it.agent.prompt("b")
    assert [r.status for r in sim.requests] == [200, 200]
    assert len(blocks(sim.requests[-1], "thinking")) == 1
    assert [b.cause for b in it.boundaries] == ["first", "thinking"]


class Clock:
    """Puts another text into the system prompt in each run."""

    runs = 0

    @hookimpl
    def before_agent_start(self, event):
        from unipi_hookspecs import StartWith

        self.runs += 1
        return StartWith(system_prompt=f"run {self.runs}\n{event.system_prompt}")


async def test_a_changed_head_leaves_thinking_out_and_the_boundary_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    sim = strict(*(thought(str(n)) for n in range(4)))
    options = AgentOptions(policy="record")
    with Session.create(path, cwd=tmp_path) as session:
        plugins = [("clock", Clock())]
        async with lab(
            tmp_path, (), sim=sim, plugins=plugins, options=options, session=session
        ) as it:
            for text in "abc":
                await it.agent.prompt(text)
    assert [r.status for r in sim.requests] == [200, 200, 200]
    assert [len(blocks(r, "thinking")) for r in sim.requests] == [0, 0, 0]
    crossed = it.boundaries[1:]
    assert {(b.cause, b.owner) for b in crossed} == {("system_prompt", "clock")}
    assert all("thinking of 1 answers left out" in b.detail for b in crossed)
    with Session.open(path) as session:  # the decision holds in the next process
        async with lab(tmp_path, (), sim=sim, session=session) as it:
            await it.agent.prompt("d")
    assert it.boundaries == []
    assert prefix_breaks(sim.requests[-2:]) == []
    assert len(blocks(sim.requests[-1], "thinking")) == 1  # that of the last answer, still valid


async def test_a_refusal_of_thinking_is_one_boundary_and_one_retry(tmp_path: Path) -> None:
    refused = Fault(status=400, message=BOUND)
    sim = strict(thought("one"), refused, thought("two"), thought("three"))
    async with lab(tmp_path, (), sim=sim) as it:
        for text in "abc":
            await it.agent.prompt(text)
    assert [r.status for r in sim.requests] == [200, 400, 200, 200]
    assert blocks(sim.requests[2], "thinking") == []
    assert [b.cause for b in it.boundaries] == ["first", "payload_shape"]
    assert "refused the thinking" in it.boundaries[1].detail
    assert prefix_breaks(sim.requests[2:]) == []


async def test_a_refusal_that_stays_is_told_after_one_retry(tmp_path: Path) -> None:
    sim = strict(thought("one"), *[Fault(status=400, message=BOUND)] * 3)
    async with lab(tmp_path, (), sim=sim) as it:
        await it.agent.prompt("a")
        with pytest.raises(RunFailedError, match="bound_thinking"):
            await it.agent.prompt("b")
    assert [r.status for r in sim.requests] == [200, 400, 400]


async def test_what_compaction_keeps_carries_no_thinking_that_would_be_refused(
    tmp_path: Path,
) -> None:
    from unipi.agent import CompactionOptions

    summary = "## Goal\n- Keep the tests green and change no public name, as the user asked."
    sim = strict(*(thought(str(n)) for n in range(4)), Say(summary), thought("after"), Say("end"))
    options = AgentOptions(compaction=CompactionOptions(keep=900))
    async with lab(tmp_path, (), sim=sim, options=options) as it:
        for n in range(4):
            await it.agent.prompt(f"{n} " + "word " * 600)
        await it.agent.prompt("/compact")
        await it.agent.prompt("on")
        await it.agent.prompt("further")
    assert {r.status for r in sim.requests} == {200}
    assert [len(blocks(r, "thinking")) for r in sim.requests[-2:]] == [0, 1]
    assert it.boundaries[1].cause == "compaction"


# ---- F51


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        (Image(base64.b64encode(PNG).decode(), "image/jpeg"), "image/png"),
        (Image(base64.b64encode(PNG).decode(), "text/html"), "image/png"),
        (Image("A" * 16_000_000, "image/png"), "over the limit of 5,000,000"),
        (Image("PHN2Zz48L3N2Zz4=", "image/svg+xml"), "no model takes this type"),
        (Image("not base64!", "image/png"), "no base64 text"),
    ],
    ids=["wrong type", "no picture type", "12 MB", "svg", "garbage"],
)
@pytest.mark.parametrize("way", ["tool", "prompt"])
async def test_a_picture_that_would_be_refused_never_enters_the_history(
    tmp_path: Path, image: Image, shown: str, way: str
) -> None:
    class Camera:
        @hookimpl
        def register_tools(self):
            run = lambda call, ctx: ToolOutput([image])  # noqa: E731 - the shortest tool there is
            return [Tool("look", "Look.", parameters={"type": "object"}, run=run)]

    script = [Answer((Call("look", {}),)), Say("seen")] if way == "tool" else [Say("seen")]
    async with lab(tmp_path, script, plugins=[("camera", Camera())]) as it:
        it.agent.model = attrs.evolve(it.agent.model, input=("text", "image"))
        await it.agent.prompt("look", [image] if way == "prompt" else [])
    body = it.requests[-1].body.decode()
    assert shown in body
    assert len(body) < 100_000
    assert "text/html" not in body


async def test_a_model_without_vision_gets_a_text_that_stays_the_same(tmp_path: Path) -> None:
    image = Image(base64.b64encode(PNG).decode(), "image/png")
    async with lab(tmp_path, [Say("a"), Say("b")]) as it:
        await it.agent.prompt("look", [image])
        await it.agent.prompt("again")
    assert prefix_breaks(it.requests) == []
    assert b"image/png" in it.requests[0].body
    assert b'"type":"image"' not in it.requests[0].body


async def test_two_megabytes_of_base64_in_a_text_are_cut_and_kept_beside(tmp_path: Path) -> None:
    text = json.dumps({"screenshot": "iVBORw0KGgo" + "A" * 2_000_000})

    class Shot:
        @hookimpl
        def register_tools(self):
            run = lambda call, ctx: text  # noqa: E731 - the shortest tool there is
            return [Tool("shot", "Shoot.", parameters={"type": "object"}, run=run)]

    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path)
    script = [Answer((Call("shot", {}),)), Say("seen")]
    async with lab(tmp_path, script, plugins=[("shot", Shot())], session=session) as it:
        await it.agent.prompt("shoot")
    assert len(it.requests[-1].body) < 100_000
    assert b"artifacts" in it.requests[-1].body
