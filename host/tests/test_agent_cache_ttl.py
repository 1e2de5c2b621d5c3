"""How long the provider keeps the prompt is chosen with the head, and holds for the epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from unipi.agent import AgentOptions
from unipi.providers import find_model
from unipi.session import Session
from unipi.sim import Answer, Call, Clock, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import AssistantMessage, Model, Text, Tool, UserMessage, hookimpl

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


OPENAI = {"gpt": ("openai/gpt-6.1-sol", "openai_56"), "old": ("old/gpt-5.2", "openai_legacy")}


def openai(kind, api):
    name, _ = OPENAI[kind]
    if kind == "gpt":
        return evolve(find_model(name), api=api)
    return Model("openai", "gpt-5.2", api, "http://127.0.0.1:1", dialect="openai cache-retention")


def served(it, model):
    """A model of the list, served by the test's simulator."""
    here = it.agent.model
    return evolve(model, base_url=here.base_url, headers=here.headers, api_key_env=None)


@pytest.mark.parametrize(
    ("kind", "api", "choice", "member"),
    [
        ("gpt", "openai-responses", "5m", None),
        ("gpt", "openai-responses", "1h", {"mode": "implicit", "ttl": "12h"}),
        ("gpt", "openai-responses", "24h", {"mode": "implicit", "ttl": "12h"}),
        ("gpt", "openai-chat-completions", "24h", None),  # it knows 30 minutes and no other
        ("old", "openai-chat-completions", "5m", None),
        ("old", "openai-chat-completions", "1h", "24h"),
        ("old", "openai-responses", "24h", "24h"),
    ],
)
async def test_openai_is_asked_for_the_shortest_time_that_is_long_enough(
    tmp_path, kind, api, choice, member
) -> None:
    sim = Simulator([Say("a")], profile=OPENAI[kind][1])
    async with lab(tmp_path, (), sim=sim, api=api, options=AgentOptions(cache_ttl=choice)) as it:
        model = openai(kind, api)
        it.agent.model = served(it, model)
        await it.agent.prompt(LONG)
    asked = it.requests[0].parsed
    key = "prompt_cache_options" if kind == "gpt" else "prompt_cache_retention"
    assert asked.get(key) == member


async def test_twelve_hours_outlast_a_night_and_are_priced_as_such(tmp_path) -> None:
    read, priced = {}, {}
    for choice in ("5m", "24h"):
        clock = Clock()
        sim = Simulator([Say("a"), Say("b")], profile="openai_56", clock=clock)
        options = AgentOptions(cache_ttl=choice)
        async with lab(tmp_path, (), sim=sim, api="openai-responses", options=options) as it:
            model = openai("gpt", "openai-responses")
            it.agent.model = served(it, model)
            await it.agent.prompt(LONG)
            clock.advance(8 * 3_600)
            await it.agent.prompt("and?")
        read[choice] = sim.requests[1].cached_tokens
        first = next(m for m in it.agent.session.messages() if isinstance(m, AssistantMessage))
        priced[choice] = first.usage.cost.cache_write / first.usage.cache_write * 1e6
    assert read["5m"] == 0
    assert read["24h"] >= sim.requests[0].prompt_tokens
    assert priced == {"5m": pytest.approx(2.5), "24h": pytest.approx(5.0)}


@pytest.mark.parametrize("dialect", ["deepseek", "llamacpp", "mistral"])
async def test_a_server_that_documents_no_time_is_not_asked(tmp_path, dialect) -> None:
    async with lab(
        tmp_path, [Say("a")], api="openai-chat-completions", options=AgentOptions(cache_ttl="24h")
    ) as it:
        it.agent.model = evolve(it.agent.model, dialect=dialect)
        await it.agent.prompt(LONG)
    assert not {"prompt_cache_options", "prompt_cache_retention"} & it.requests[0].parsed.keys()
