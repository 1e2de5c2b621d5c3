"""A request beside the session's line reads all of it, and moves nothing of it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from unipi.agent.side import ask_beside
from unipi.sim import Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import UserMessage, hookimpl

LONG = "word " * 2_000
APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]


@pytest.mark.parametrize("api", APIS)
async def test_the_session_s_own_requests_are_as_if_it_had_never_been_sent(tmp_path, api) -> None:
    purposes: list[str] = []

    class Watches:
        @hookimpl
        def provider_request_sealed(self, event) -> None:
            purposes.append(event.info.purpose)

    script = [Say("one"), Say("beside"), Say("two")]
    async with lab(tmp_path, script, api=api, plugins=[("watches", Watches())]) as it:
        await it.agent.prompt(LONG)
        entries = len(it.agent.session.entries())
        answer = await ask_beside(it.agent, "side_thread", [UserMessage("by the way?")])
        assert len(it.agent.session.entries()) == entries
        await it.agent.prompt("on")
    first, beside, second = it.requests
    assert [part.text for part in answer.content] == ["beside"]
    assert purposes == ["turn", "side_thread", "turn"]
    assert prefix_breaks([first, beside]) == prefix_breaks([first, second]) == []
    assert b"by the way" not in second.body
    assert beside.cached_tokens >= first.prompt_tokens - 128
    assert [b.cause for b in it.boundaries] == ["first"]


@pytest.mark.parametrize("api", APIS[1:])
async def test_where_only_breakpoints_are_cached_a_side_request_and_the_next_one_read_the_last(
    tmp_path: Path, api: str
) -> None:
    sim = Simulator([Say("one"), Say("two"), Say("beside"), Say("three")], profile="openai_56")
    async with lab(tmp_path, (), api=api, sim=sim) as it:
        it.agent.model = attrs.evolve(it.agent.model, dialect="openai")
        await it.agent.prompt(LONG)
        await it.agent.prompt("more")
        await ask_beside(it.agent, "side_thread", [UserMessage("by the way?")])
        await it.agent.prompt("on")
    _, last, beside, after = sim.requests
    assert beside.cached_tokens >= last.prompt_tokens
    assert after.cached_tokens >= last.prompt_tokens


async def test_less_of_the_line_can_be_sent_and_it_stays_whole(tmp_path: Path) -> None:
    script = [Say("one"), Say("two"), Say("beside"), Say("three")]
    async with lab(tmp_path, script) as it:
        await it.agent.prompt("first words")
        await it.agent.prompt("second words")
        await ask_beside(it.agent, "compaction", [UserMessage("sum up")], upto=2)
        await it.agent.prompt("third words")
    _, second, beside, third = it.requests
    assert b"first words" in beside.body
    assert b"second words" not in beside.body
    assert prefix_breaks([second, third]) == []
