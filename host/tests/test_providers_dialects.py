"""Dialects of Chat Completions: each server's rules as data, and what they make of a request."""

from __future__ import annotations

import attrs
import orjson
import pytest

from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers import ProviderError, Secret, Transport, api_for, request_headers, send
from unipi.providers.dialects import DIALECTS, GENERIC, affinity_headers, dialect_of
from unipi.providers.errors import response_error
from unipi.sim import Answer, Say, Simulator
from unipi_hookspecs import (
    AssistantMessage,
    Model,
    RequestInfo,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

CHAT = "openai-chat-completions"
EVERY = pytest.mark.parametrize("name", DIALECTS)
TOOL = ToolSpec("read", "Read.", b'{"type":"object"}')
INFO = RequestInfo("r", 0, "turn", "sim", CHAT, "m", 1)


def model(name: str, **changes: object) -> Model:
    base = Model(name or "sim", "m", CHAT, "http://127.0.0.1:1", dialect=name, reasoning=True)
    return attrs.evolve(base, **changes)


def head(name: str, *, changes: dict[str, object] | None = None, **spec: object):
    made = {"system": ("Be brief.",), "tools": (TOOL,), "max_tokens": 50, "lineage": "s1", **spec}
    return api_for(CHAT).head(HeadSpec(model(name, **(changes or {})), **made))


def members(name: str, **options: object) -> dict[str, object]:
    return orjson.loads(head(name, **options).open + b"]}")


def usage(name: str, body: dict[str, object]):
    decoder = api_for(CHAT).decoder(model(name), INFO, 0)
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], **body}
    decoder.whole(orjson.dumps(answer))
    return decoder.message().usage


def openrouter(model_id: str, **spec: object) -> dict[str, object]:
    return members("openrouter", changes={"id": model_id}, **spec)


# ---- the table


@EVERY
def test_each_dialect_says_where_it_is_and_where_its_rules_are_stated(name):
    dialect = DIALECTS[name]
    assert dialect.base_url.startswith("https://" if dialect.api_key_env else "http://127.0.0.1:")
    assert dialect.source


@EVERY
def test_no_dialect_is_sent_what_it_refuses(name):
    sent = members(name, thinking="high").keys()
    assert not sent & DIALECTS[name].refused
    for refused in DIALECTS[name].refused:
        with pytest.raises(ValueError, match=rf"{name}.*{refused}.*models\.json"):
            head(name, options={refused: 1})


@EVERY
def test_each_dialect_s_overflow_is_known_by_its_words(name):
    for words in DIALECTS[name].overflow:
        body = orjson.dumps({"error": {"message": words, "code": 400}})
        error = response_error(400, {}, body, now_ms=0, provider=name)
        assert (error.kind, error.action) == ("overflow", "compact"), words
    assert DIALECTS[name].overflow


@EVERY
def test_equal_specs_give_equal_heads_and_messages_come_last(name):
    assert head(name) == head(name)
    assert list(members(name)).index("tools") == len(members(name)) - 2


def test_a_model_without_a_known_word_speaks_the_cautious_dialect():
    assert dialect_of(model("")) is dialect_of(model("budget-thinking")) is GENERIC
    assert "prompt_cache_key" not in members("")


# ---- requests


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("openai", "max_completion_tokens"),
        ("xai", "max_completion_tokens"),
        ("deepseek", "max_tokens"),
        ("openrouter", "max_tokens"),
        ("mistral", "max_tokens"),
        ("vllm", "max_tokens"),
        ("sglang", "max_tokens"),
        ("llamacpp", "max_tokens"),
        ("ollama", "max_tokens"),
    ],
)
def test_the_answer_is_bounded_by_the_member_that_the_server_knows(name, limit):
    known = {"max_tokens", "max_completion_tokens"}
    assert members(name).keys() & known == {limit}


@pytest.mark.parametrize(
    ("name", "member"),
    [("openai", "prompt_cache_key"), ("mistral", "prompt_cache_key"), ("openrouter", "session_id")],
)
def test_the_session_s_lineage_is_the_routing_key_where_there_is_one(name, member):
    assert members(name)[member] == "s1"
    assert member not in members(name, lineage="")


@pytest.mark.parametrize("name", ["deepseek", "xai", "vllm", "sglang", "llamacpp", "ollama"])
def test_a_server_without_a_routing_member_gets_none(name):
    assert not members(name).keys() & {"prompt_cache_key", "session_id", "user"}


def test_xai_is_told_the_conversation_by_a_header_that_stays():
    headers = request_headers(model("xai"), Secret("key-1"), INFO, lineage="s1")
    assert headers["x-grok-conv-id"] == "s1"
    others = [name for name in DIALECTS if affinity_headers(model(name), "s1")]
    assert others == ["xai"]
    assert not affinity_headers(model("xai"), "")


@EVERY
def test_usage_in_a_stream_is_asked_for_unless_it_comes_unasked(name):
    asked = members(name).get("stream_options")
    assert asked == (None if name == "mistral" else {"include_usage": True})


@pytest.mark.parametrize(
    ("name", "sent"), [("openai", "low"), ("mistral", "high"), ("xai", None), ("vllm", "low")]
)
def test_a_thinking_level_is_said_in_the_server_s_words(name, sent):
    assert members(name, thinking="low").get("reasoning_effort") == sent
    assert "reasoning_effort" not in members(name)


def test_openrouter_marks_the_system_of_a_model_that_caches_at_markers_only():
    made = openrouter("anthropic/claude-opus-5-5")
    marker = {"type": "ephemeral"}
    assert made["cache_control"] == marker
    assert made["messages"][0]["content"] == [
        {"type": "text", "text": "Be brief.", "cache_control": marker}
    ]
    plain = openrouter("deepseek/deepseek-v4-pro")
    assert "cache_control" not in orjson.dumps(plain).decode()


def test_openrouter_s_moving_marker_is_in_the_head_so_no_message_s_bytes_change():
    asked = model("openrouter", id="anthropic/claude-opus-5-5")
    history = [UserMessage("one"), AssistantMessage((Text("two"),)), UserMessage("three")]
    api = api_for(CHAT)
    bodies = []
    for upto in (1, 3):
        opened = api.head(HeadSpec(asked, ("Be brief.",), (TOOL,), lineage="s1")).open
        sent = [raw for _, raw in api.fragments(history[:upto], asked)]
        bodies.append(opened + b"," + b",".join(sent) + b"]}")
    assert bodies[1].startswith(bodies[0].removesuffix(b"]}") + b",")
    assert b"cache_control" not in bodies[1].partition(b'"role":"user"')[2]


def test_mistral_s_calls_are_named_by_nine_letters_and_digits():
    call, kept = ToolCall("call_a|b:1", "read", {}), ToolCall("abcDEF123", "read", {})
    history = [
        AssistantMessage((call, kept)),
        ToolResultMessage(call.id, "read", [Text("ok")]),
        ToolResultMessage(kept.id, "read", [Text("ok")]),
    ]
    sent = [orjson.loads(raw) for _, raw in api_for(CHAT).fragments(history, model("mistral"))]
    named = [item["id"] for item in sent[0]["tool_calls"]]
    assert [item["tool_call_id"] for item in sent[1:]] == named
    assert named[1] == "abcDEF123"
    assert len(named[0]) == 9
    assert named[0].isalnum()


@EVERY
def test_reasoning_goes_back_with_calls_to_deepseek_and_to_nobody_else(name):
    own = {"api": CHAT, "provider": name, "model": "m"}
    history = [
        AssistantMessage((Thinking("hm"), ToolCall("abcDEF123", "read", {})), **own),
        AssistantMessage((Thinking("hm"), Text("yes")), **own),
    ]
    called, said = (orjson.loads(raw) for _, raw in api_for(CHAT).fragments(history, model(name)))
    assert called.get("reasoning_content") == ("hm" if name == "deepseek" else None)
    assert "reasoning_content" not in said


# ---- answers


@pytest.mark.parametrize("name", sorted({*DIALECTS, ""} - {"deepseek"}))
def test_cached_tokens_are_read_where_the_server_states_them(name):
    details = {"prompt_tokens": 100, "completion_tokens": 5}
    read = usage(name, {"usage": {**details, "prompt_tokens_details": {"cached_tokens": 60}}})
    assert (read.input, read.cache_read, read.output) == (40, 60, 5)


def test_deepseek_counts_hits_in_its_own_field():
    counts = {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}
    read = usage("deepseek", {"usage": {"prompt_tokens": 100, "completion_tokens": 5, **counts}})
    assert (read.input, read.cache_read) == (36, 64)


def test_llama_cpp_counts_in_its_timings_where_usage_says_nothing():
    body = {"usage": {"prompt_tokens": 100, "completion_tokens": 5}, "timings": {"cache_n": 99}}
    assert usage("llamacpp", body).cache_read == 99
    assert usage("vllm", body).cache_read is None


@EVERY
def test_a_server_that_reports_no_cache_leaves_the_figure_unknown(name):
    read = usage(name, {"usage": {"prompt_tokens": 100, "completion_tokens": 5}})
    assert (read.cache_read, read.cache_write, read.input) == (None, None, 100)


@pytest.mark.parametrize("name", ["openai", "openrouter"])
def test_written_tokens_are_read_and_paid_once(name):
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    body = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": details}
    read = usage(name, {"usage": body})
    assert (read.input, read.cache_read, read.cache_write) == (10, 60, 30)


# ---- against a server that refuses what it does not know


@pytest.mark.parametrize(
    ("name", "profile"),
    [  # not Mistral: the simulator tells usage in a stream only where it was asked for
        ("openai", "openai_legacy"),
        ("deepseek", "deepseek"),
        ("openrouter", "openai_legacy"),
        ("xai", "openai_legacy"),
        ("vllm", "block16"),
        ("sglang", "exact"),
        ("llamacpp", "exact"),
        ("ollama", "exact"),
    ],
)
async def test_a_second_request_reads_the_first_from_the_cache(name, profile):
    sim = Simulator(
        [Answer([Say("fine")])], profile=profile, repeat_last=True, strict=name == "openai"
    )
    api, history = api_for(CHAT), [UserMessage("x" * 9000)]
    async with sim.serve() as url, Transport() as transport:
        asked = model(name, base_url=url, id="anthropic/m" if name == "openrouter" else "m")
        spec = HeadSpec(asked, ("Be brief.",), (TOOL,), lineage="s1", max_tokens=50)
        for _ in range(2):
            fragments = b",".join(raw for _, raw in api.fragments(history, asked))
            body = api.head(spec).open + b"," + fragments + b"]}"
            headers = request_headers(asked, Secret("key-1"), INFO, lineage="s1")
            answer = await send(transport, asked, body, headers, info=INFO, clock_ms=lambda: 0)
            history += [answer, UserMessage("and?")]
    first, second = sim.requests
    assert answer.usage is not None
    assert answer.usage.cache_read == second.cached_tokens
    assert second.cached_tokens >= first.prompt_tokens - 128


async def test_an_overflow_comes_through_as_one_to_compact():
    sim = Simulator([Say("no")], profile="openai_legacy", context_window=100)
    async with sim.serve() as url, Transport() as transport:
        asked = model("openai", base_url=url)
        opened = api_for(CHAT).head(HeadSpec(asked, (), ())).open
        fragments = api_for(CHAT).fragments([UserMessage("x" * 9000)], asked)
        body = opened + fragments[0][1] + b"]}"
        with pytest.raises(ProviderError) as caught:
            headers = request_headers(asked, Secret("key-1"), INFO)
            await send(transport, asked, body, headers, info=INFO, clock_ms=lambda: 0)
    assert caught.value.action == "compact"
