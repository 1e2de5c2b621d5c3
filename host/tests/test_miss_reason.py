"""The provider can be asked what it thinks has changed; the question moves no byte of the prefix."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve

from unipi.agent import AgentOptions, open_agent
from unipi.providers import ModelsFileError, load_models
from unipi.session import Session
from unipi.sim import Answer, Call, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import Lab, host, model
from unipi_hookspecs import BeforeProviderRequestEvent, ProviderResponseEndEvent, hookimpl

LONG = "word " * 2_000
TALK = [Say("a"), Answer([Call("ls", {})]), Say("b"), Say("c")]
BETA = "cache-diagnosis-2026-04-07"


async def session_of(cwd: Path, *prompts, path=None, api="anthropic-messages", **options):
    """Say each prompt, with the model asked about misses; returns what was seen."""
    sim = options.pop("sim", None) or Simulator(TALK, profile="anthropic", strict=True)
    plugins = options.pop("plugins", ())
    prepared, events = host(cwd, plugins), []
    fresh = path is None or not path.exists()
    session = Session.create(path, cwd=cwd) if fresh else Session.open(path)
    async with sim.serve() as url:
        asking = evolve(model(url, api), asks_miss_reason=True)
        given = AgentOptions(**options)
        async with open_agent(prepared, session, asking, given, observer=events.append) as agent:
            for prompt in prompts:
                await (prompt(agent) if callable(prompt) else agent.prompt(prompt))
    return Lab(agent, sim, prepared, events)


def asked(request):
    return json.loads(request.body).get("diagnostics")


def told(it):
    """What the provider said of each answer."""
    ends = [event for event in it.events if isinstance(event, ProviderResponseEndEvent)]
    return [event.usage.miss_reason for event in ends]


async def test_each_request_asks_about_the_answer_before_it_and_nothing_of_the_prefix_moves(
    tmp_path,
):
    it = await session_of(tmp_path, LONG, "look")
    ids = [m.response_id for m in it.agent.session.messages() if m.role == "assistant"]
    assert [asked(r)["previous_message_id"] for r in it.requests] == [None, *ids[:-1]]
    assert prefix_breaks(it.requests) == []
    assert told(it) == [None, None, None]
    for before, now in pairwise(it.requests):
        assert now.cached_tokens >= before.prompt_tokens


async def test_a_retry_asks_in_the_same_bytes(tmp_path):
    from unipi.sim import Fault

    sim = Simulator([Say("a"), Fault(status=529, message="busy"), Say("b")], profile="anthropic")
    it = await session_of(tmp_path, LONG, "again", sim=sim)
    assert it.sim.requests[1].body == it.sim.requests[2].body


class Shaper:
    def __init__(self):
        self.text = ""

    @hookimpl
    def before_provider_request(self, event: BeforeProviderRequestEvent):
        if not self.text:
            return None
        system = [{"type": "text", "text": self.text}]
        return evolve(event.payload, system=system)


async def test_the_provider_s_word_stands_beside_the_boundary_that_we_recorded(tmp_path):
    shaper = Shaper()

    async def change(agent):
        shaper.text = "another prompt"
        await agent.prompt("more")

    path = tmp_path / "s.jsonl"
    it = await session_of(
        tmp_path, LONG, change, path=path, plugins=[("shaper", shaper)], policy="record"
    )
    assert told(it) == [None, "system_changed", None]
    assert it.boundaries[-1].cause == "system_prompt"
    with Session.open(path) as again:  # it is kept with the answer
        answers = [m for m in again.messages() if m.role == "assistant"]
    assert answers[1].usage.miss_reason == "system_changed"


async def test_after_a_restart_the_question_goes_on_with_the_stored_answer(tmp_path):
    path = tmp_path / "s.jsonl"
    sim = Simulator(TALK, profile="anthropic")
    await session_of(tmp_path, LONG, path=path, sim=sim)
    it = await session_of(tmp_path, "look", path=path, sim=sim)
    assert told(it) == [None, None]
    assert asked(sim.requests[1])["previous_message_id"]
    assert prefix_breaks(sim.requests) == []


@pytest.mark.parametrize("api", ["openai-chat-completions", "openai-responses"])
async def test_an_api_without_the_place_is_not_asked(tmp_path, api):
    sim = Simulator(TALK, profile="openai_56")
    it = await session_of(tmp_path, LONG, api=api, sim=sim)
    assert [asked(r) for r in it.requests] == [None]
    assert BETA not in it.requests[0].headers.get("anthropic-beta", "")


async def test_nobody_is_asked_unless_the_model_s_data_say_so(tmp_path):
    async with lab(tmp_path, [Say("a")]) as it:
        await it.agent.prompt("hello")
    assert asked(it.requests[0]) is None
    assert "anthropic-beta" not in it.requests[0].headers


async def test_a_server_that_does_not_know_the_answer_is_told_as_such(tmp_path):
    path = tmp_path / "s.jsonl"
    await session_of(tmp_path, LONG, path=path)
    it = await session_of(tmp_path, "on", path=path, sim=Simulator([Say("b")], profile="anthropic"))
    assert told(it) == ["previous_message_not_found"]


async def test_switching_it_on_or_off_is_a_boundary_since_the_beta_header_is_part_of_the_key(
    tmp_path,
):
    path = tmp_path / "s.jsonl"
    sim = Simulator([Say("a"), Say("b")], profile="anthropic")
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, (), sim=sim, session=session) as it:
            await it.agent.prompt(LONG)
    it = await session_of(tmp_path, "on", path=path, sim=sim)
    assert [b.cause for b in it.boundaries] == ["payload_shape"]


def test_a_user_s_file_switches_it_on(tmp_path):
    file = tmp_path / "models.json"
    file.write_text('{"providers": {"anthropic": {"asks_miss_reason": true}}}')
    models = load_models(file)
    assert models["anthropic/claude-opus-5-5"].asks_miss_reason
    file.write_text('{"providers": {"anthropic": {"asks_miss_reason": "yes"}}}')
    with pytest.raises(ModelsFileError, match="asks_miss_reason must be true or false"):
        load_models(file)
