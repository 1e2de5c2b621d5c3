"""Field reports F24, F25, F44 and F45: what is counted, and what a change of provider sends."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import orjson
import pytest

from unipi.agent import AgentOptions
from unipi.cli._summary import JsonLines, Summary
from unipi.providers import api_for
from unipi.providers.dialects import DIALECTS
from unipi.sim import Call, Say, Think
from unipi.testing import lab
from unipi_hookspecs import (
    AssistantMessage,
    Model,
    Prices,
    ProviderResponseEndEvent,
    RequestInfo,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
)

MESSAGES, CHAT = "anthropic-messages", "openai-chat-completions"
PRICES = Prices(3.0, 15.0, 0.3, 3.75)
INFO = RequestInfo("r", 0, "turn", "sim", MESSAGES, "m", 1)


def ended(usage: Usage | None) -> ProviderResponseEndEvent:
    return ProviderResponseEndEvent(INFO, usage, "stop", None, None, 1.0)


def test_tokens_written_to_the_cache_are_charged_once() -> None:
    asked = Model("acme", "m", MESSAGES, "http://127.0.0.1:1", prices=PRICES)
    decoder = api_for(MESSAGES).decoder(asked, INFO, 0)
    counts = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 12_304,
        "cache_read_input_tokens": 0,
        "output_tokens": 550,
    }
    decoder.whole(orjson.dumps({"content": [], "usage": counts}))
    usage = decoder.message().usage
    assert usage is not None
    assert usage.cost is not None
    assert usage.prompt == 12_307
    assert usage.cost.total == pytest.approx(0.054399)
    summary = Summary(JsonLines())
    summary(ended(usage))
    assert (summary.prompt_tokens, summary.cost) == (12_307, usage.cost.total)


def test_answers_without_cache_figures_do_not_count_as_misses() -> None:
    summary = Summary(JsonLines())
    assert summary.share is None
    for usage in (Usage(100, 5), Usage(0, 5), None):
        summary(ended(usage))
    assert summary.share is None
    summary(ended(Usage(25, 5, 75)))
    assert summary.share == 0.75


LONG = "toolu_" + "x" * 60
IDS = ["a" * 40 + "|" + "b" * 53, "Write:6", "", LONG + "1" * 28, LONG + "2" * 28, "call_ok-1"]


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
@pytest.mark.parametrize("dialect", ["", *DIALECTS])
def test_call_ids_of_another_provider_go_out_in_a_form_each_accepts(api: str, dialect: str) -> None:
    def sent(wire: str) -> list[bytes]:
        asked = Model("other", "m", wire, "http://127.0.0.1:1", dialect=dialect)
        return [raw for _, raw in api_for(wire).fragments(history, asked)]

    calls = [ToolCall(given, "read", {}) for given in IDS]
    results = [ToolResultMessage(call.id, "read", [Text("ok")]) for call in calls]
    history = [AssistantMessage(calls, api=CHAT, provider="first", model="m"), *results]
    first = sent(api)
    found = [re.findall(rb'"(?:id|tool_use_id|tool_call_id)":"([^"]*)"', raw) for raw in first]
    named, answered = found[0], [one for many in found[1:] for one in many]
    assert named == answered
    assert len(set(named)) == len(IDS)
    assert all(re.fullmatch(rb"[A-Za-z0-9_-]{1,64}", one) for one in named)
    assert (api == CHAT and dialect == "mistral") or named[-1] == b"call_ok-1"
    sent(CHAT if api == MESSAGES else MESSAGES)
    assert sent(api) == first
    assert [call.id for call in calls] == IDS


async def test_signed_thinking_of_another_vendor_is_left_out_and_comes_back_with_its_maker(
    tmp_path: Path,
) -> None:
    script = [
        [Think("one"), Think("two"), Call("read", {"path": "nothing"})],
        [Say("three")],
        [Say("four")],
        [Say("five")],
    ]
    async with lab(tmp_path, script, options=AgentOptions()) as it:
        await it.agent.prompt("a")
        mine = it.agent.model
        other = attrs.evolve(mine, provider="another-vendor", id="another-model")
        await it.agent.set_model(other, api_for(MESSAGES))
        await it.agent.prompt("b")
        await it.agent.set_model(mine, api_for(MESSAGES))
        await it.agent.prompt("c")
        made, foreign, back = (it.requests[n].body for n in (1, 2, 3))
        assert made.count(b'"type":"thinking"') == back.count(b'"type":"thinking"') == 2
        assert b'"type":"thinking"' not in foreign.partition(b'"messages":')[2]
        assert foreign.count(b'"tool_use"') == foreign.count(b'"tool_result"') == 1
        assert [b.cause for b in it.boundaries] == ["first", "model", "model"]
        shared = made.partition(b'"messages":')[2].removesuffix(b"]}")
        assert back.partition(b'"messages":')[2].startswith(shared)
