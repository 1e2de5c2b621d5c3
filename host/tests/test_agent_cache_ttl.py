"""How long the provider keeps the prompt is chosen with the head, and holds for the epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from unipi.agent import AgentOptions
from unipi.session import Session
from unipi.sim import Answer, Call, Clock, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import AssistantMessage, Text, Tool, UserMessage, hookimpl

HOUR = b'"cache_control":{"ttl":"1h","type":"ephemeral"}'
SHORT = b'"cache_control":{"type":"ephemeral"}'
LONG = "word " * 2_000
OPTIONS = AgentOptions(cache_ttl="1h")


async def test_an_hour_outlasts_a_pause_that_five_minutes_do_not(tmp_path: Path) -> None:
    read = {}
    for ttl in ("5m", "1h"):
        clock = Clock()
        sim = Simulator([Say("a"), Say("b")], profile="anthropic", clock=clock)
        async with lab(tmp_path, (), sim=sim, options=AgentOptions(cache_ttl=ttl)) as it:
            await it.agent.prompt(LONG)
            clock.advance(1_200)
            await it.agent.prompt("and?")
        read[ttl] = sim.requests[1].cached_tokens
        assert prefix_breaks(sim.requests) == []
    assert read["5m"] == 0
    assert read["1h"] >= sim.requests[0].prompt_tokens


async def test_all_markers_have_one_time_to_live_in_a_wide_turn_and_after_a_restart(
    tmp_path: Path,
) -> None:
    class Echo:
        @hookimpl
        def register_tools(self):
            run = lambda call, ctx: "said"  # noqa: E731 - the shortest tool there is
            return [Tool("echo", "Say it.", parameters={"type": "object"}, run=run)]

    path = tmp_path / "s.jsonl"
    wide = Answer([Call("echo", {"n": n}) for n in range(30)])
    sim = Simulator([Say("a"), wide, Say("b"), wide, Say("c")], profile="anthropic")
    plugins = [("echo", Echo())]
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(
            tmp_path, (), sim=sim, options=OPTIONS, session=session, plugins=plugins
        ) as it:
            await it.agent.prompt(LONG)
            await it.agent.prompt("wide")
    with Session.open(path) as session:  # the stored head stands, whatever the setting says now
        async with lab(tmp_path, (), sim=sim, session=session, plugins=plugins) as it:
            await it.agent.prompt("wide again")
    assert {request.status for request in sim.requests} == {200}
    assert all(SHORT not in request.body for request in sim.requests)
    assert sim.requests[-1].body.count(HOUR) == 4
    assert it.boundaries == []


@pytest.mark.parametrize(("pause", "chosen"), [(60, SHORT), (1_200, HOUR), (7_200, SHORT)])
async def test_auto_takes_an_hour_once_a_pause_was_worth_it(tmp_path, pause, chosen) -> None:
    session = Session.create(None, cwd=tmp_path)
    said = AssistantMessage((Text("hello"),), api="x", timestamp=1_000_000)
    for message in (
        UserMessage("hi", 999_000),
        said,
        UserMessage("yes?", 1_000_000 + pause * 1000),
    ):
        session.append_message(message)
    options = AgentOptions(cache_ttl="auto")
    async with lab(tmp_path, [Say("a")], session=session, options=options) as it:
        await it.agent.prompt("go on")
    assert chosen in it.requests[0].body
