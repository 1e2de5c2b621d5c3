"""Field reports F18 to F20: cache markers where plugins, wide turns and look-back meet."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import attrs
import orjson
import pytest

from unipi.agent import AgentOptions, RunFailedError
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say, Simulator, Think
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import CustomMessage, Text, Tool, UserMessage, hookimpl

MARKER = b',"cache_control":{"type":"ephemeral"}'
HISTORY = "the history of this project, line by line. " * 1_000
BLOCK_TOKENS = 40  # more than the largest block behind the last marker of these sessions


class Echo:
    """A tool to be called many times at once."""

    @hookimpl
    def register_tools(self):
        return [Tool("echo", "Say it again.", parameters={"type": "object"}, run=self.run)]

    async def run(self, call, ctx) -> str:
        return f"{call.id} said"


def wide(calls: int, name: str = "") -> Answer:
    """An answer with thinking, a text, and so many calls at once."""
    spoken = [Call("echo", {"n": n, "of": name}) for n in range(calls)]
    return Answer((Think(f"thinking of {calls}"), Say(f"{calls} calls {name}"), *spoken))


def marked(request) -> int:
    """How many markers a request carries, the automatic one included."""
    return request.body.count(b'"cache_control":{"type":"ephemeral"}')


def bare(request) -> bytes:
    head, brace, rest = request.body.partition(b'"messages":[')
    return head + brace + rest.replace(MARKER, b"")


def kept(requests) -> list[int]:
    """Of each request but the first: how much of the prompt before it was not read, in tokens."""
    return [before.prompt_tokens - now.cached_tokens for before, now in pairwise(requests)]


@pytest.mark.parametrize("calls", [5, 9, 10, 18, 30, 60])
async def test_a_turn_of_any_width_leaves_the_whole_prompt_before_it_readable(
    tmp_path: Path, calls: int
) -> None:
    script = [Say("begun"), wide(calls), Say("done"), Say("after")]
    async with lab(tmp_path, script, plugins=[("echo", Echo())]) as it:
        await it.agent.prompt(HISTORY)
        await it.agent.prompt("all at once")
        await it.agent.prompt("and now?")
    assert len(it.requests) == 4
    assert max(kept(it.requests)) <= 0
    assert all(marked(request) <= 4 for request in it.requests)
    bodies = [request.body for request in it.requests]  # a first one moves no byte
    assert all(after.startswith(before[:-2]) for before, after in pairwise(bodies))


@pytest.mark.parametrize("widths", [[18, 60, 30], [10, 10, 10, 10], [30, 1, 30, 1, 30]])
async def test_wide_turns_in_a_row_move_markers_and_nothing_else(
    tmp_path: Path, widths: list[int]
) -> None:
    script = [Say("begun"), *(wide(n, str(i)) for i, n in enumerate(widths)), Say("done")]
    async with lab(tmp_path, script, plugins=[("echo", Echo())]) as it:
        await it.agent.prompt(HISTORY)
        await it.agent.prompt("go on and on")
    assert max(kept(it.requests)) <= 0
    assert all(marked(request) <= 4 for request in it.requests)
    bodies = [bare(request) for request in it.requests]
    assert all(b.startswith(a[:-2]) for a, b in pairwise(bodies))
    assert [b.cause for b in it.boundaries] == ["first"]


async def test_a_resumed_session_sends_the_marker_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    sim = Simulator([Say("begun"), wide(30), Say("done"), Say("after")], profile="anthropic")
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, (), plugins=[("echo", Echo())], sim=sim, session=session) as it:
            await it.agent.prompt(HISTORY)
            await it.agent.prompt("all at once")
    with Session.open(path) as session:
        async with lab(tmp_path, (), plugins=[("echo", Echo())], sim=sim, session=session) as it:
            await it.agent.prompt("and now?")
    assert prefix_breaks(sim.requests) == []
    assert marked(sim.requests[-1]) == 4
    assert max(kept(sim.requests)) <= 0
    assert it.boundaries == []


async def test_blocks_of_a_request_that_failed_are_counted_for_the_next_one_s_look_back(
    tmp_path: Path,
) -> None:
    """Their request may have written nothing, so the end to reach is that of the one before."""
    more = UserMessage([Text("go on"), Text("to the end")], 1)
    script = [Say("begun"), wide(8), Fault(status=400), Say("done")]
    async with lab(tmp_path, script, plugins=[("echo", Echo())]) as it:
        await it.agent.prompt(HISTORY)
        with pytest.raises(RunFailedError):
            await it.agent.prompt("all at once")
        await it.agent.user_message(more, "follow_up")
        await it.agent.settled()
    *_, read, failed, last = it.sim.requests
    assert (read.status, failed.status, last.status) == (200, 400, 200)
    assert (marked(failed), marked(last)) == (3, 4)
    assert last.cached_tokens >= read.prompt_tokens


async def test_what_is_sealed_says_where_messages_end_with_the_markers_in(tmp_path: Path) -> None:
    ends: list[list[bytes]] = []
    shared: list[bool] = []

    class Watches:
        last = b""

        @hookimpl
        def provider_request_sealed(self, event) -> None:
            ends.append([event.body[end - 1 : end] for end in event.message_ends])
            known = event.body[: event.shared_length]
            shared.append(self.last.startswith(known) and event.shared_length > 0)
            self.last = event.body

    script = [Say("begun"), wide(30), wide(30, "b"), Say("done"), Say("after")]
    plugins = [("echo", Echo()), ("watches", Watches())]
    async with lab(tmp_path, script, plugins=plugins) as it:
        await it.agent.prompt(HISTORY)
        await it.agent.prompt("all at once")
        await it.agent.prompt("and now?")
    assert all(set(last) == {b"}"} for last in ends)
    assert shared == [False, True, True, True, True]


# ---- F19


class Marks:
    """Marks the newest user message for the cache, in each request."""

    @hookimpl
    def before_provider_request(self, event):
        messages = list(event.payload.messages)
        message = messages[-1]
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        last = {**content[-1], "cache_control": {"type": "ephemeral"}}
        messages[-1] = {**message, "content": [*content[:-1], last]}
        return attrs.evolve(event.payload, messages=messages)


class Many:
    """Fifteen tools."""

    @hookimpl
    def register_tools(self):
        schema = {"type": "object"}
        return [
            Tool(f"tool{n:02}", "Do it.", parameters=schema, run=lambda call, ctx: "done")
            for n in range(15)
        ]


@pytest.mark.parametrize("policy", ["enforce", "record"])
async def test_a_plugin_s_markers_never_make_more_than_four_and_are_no_rewrite(
    tmp_path: Path, policy
) -> None:
    rounds = [Answer((Say(f"round {n}"), Call(f"tool{n:02}", {}))) for n in range(4)]
    script = [*rounds, Say("done"), wide(12), Say("end")]
    plugins = [("marks", Marks()), ("many", Many()), ("echo", Echo())]
    options = AgentOptions(policy=policy)
    async with lab(tmp_path, script, plugins=plugins, options=options) as it:
        await it.agent.prompt(HISTORY)
        await it.agent.prompt("and wide")
    assert {request.status for request in it.sim.requests} == {200}
    assert len(it.sim.requests) == 7
    assert [marked(request) for request in it.requests] == [4] * 7
    assert max(kept(it.requests)) <= 0
    assert [b.cause for b in it.boundaries] == ["first"]
    told = [notice for notice in it.notices if "marker" in notice.text]
    assert [notice.plugin for notice in told] == ["marks"]
    bodies = [bare(request) for request in it.requests]
    assert all(b.startswith(a[:-2]) for a, b in pairwise(bodies))


async def test_a_marker_on_an_old_message_is_set_aside_without_a_boundary(tmp_path: Path) -> None:
    class MarksTheFirst:
        @hookimpl
        def before_provider_request(self, event):
            first, *others = event.payload.messages
            text = first["content"]
            if isinstance(text, str):
                return None
            marked_part = {**text[0], "cache_control": {"type": "ephemeral"}}
            return attrs.evolve(
                event.payload, messages=[{**first, "content": [marked_part]}, *others]
            )

    script = [Say("one"), Say("two"), Say("three")]
    async with lab(tmp_path, script, plugins=[("late", MarksTheFirst())]) as it:
        for text in ("a", "b", "c"):
            await it.agent.prompt(text)
    assert prefix_breaks(it.requests) == []
    assert [b.cause for b in it.boundaries] == ["first"]
    assert it.agent.rewrites == []


# ---- F18


class PerCall:
    """Appends a message that is never stored, another one in each call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0

    @hookimpl
    def context(self, event):
        self.calls += 1
        note = CustomMessage(self.name, f"{self.name} at call {self.calls}")
        return [*event.messages, note]


@pytest.mark.parametrize("plugins", [1, 2, 3])
async def test_per_call_messages_are_refused_by_name_and_the_whole_prompt_is_read(
    tmp_path: Path, plugins: int
) -> None:
    names = ["one", "two", "three"][:plugins]
    given = [(name, PerCall(name)) for name in names]
    async with lab(tmp_path, [Say(f"turn {n}") for n in range(5)], plugins=given) as it:
        for text in (HISTORY, "b", "c", "d", "e"):
            await it.agent.prompt(text)
    assert max(kept(it.requests)) <= 0
    assert prefix_breaks(it.requests) == []
    assert [b.cause for b in it.boundaries] == ["first"]
    refused = [notice.plugin for notice in it.notices if "refused" in notice.text]
    assert sorted(refused) == sorted(names)
    assert all(b"at call" not in request.body for request in it.requests)
    assert all(orjson.loads(request.body) for request in it.requests)
