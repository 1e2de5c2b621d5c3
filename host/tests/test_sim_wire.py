"""Both wire APIs: the shapes of answers, streamed and whole."""

import json

import pytest

from unipi.sim import Answer, Call, Say, Simulator, Think, run_simulator
from unipi.sim.raw import CHAT, MESSAGES, send

USER = [{"role": "user", "content": "Hello"}]
MESSAGES_BODY = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": USER}
CHAT_BODY = {"model": "m", "messages": USER}
RAW = '{"path":  "a",\n "n": 2.50, "s": "\\u00e9é😀"}'
ANSWER = Answer([Think("Let me see."), Say("I will read it."), Call("read", RAW)])


def ask(answer, path, body, **options):
    sim = Simulator([answer], **options)
    with run_simulator(sim) as url:
        return send(url, path, body)


def deltas(response, kind, member):
    found = [e.json()["delta"] for e in response.events() if e.name == "content_block_delta"]
    return "".join(d[member] for d in found if d["type"] == kind)


def test_a_whole_anthropic_answer_carries_the_call_s_text_verbatim():
    response = ask(ANSWER, MESSAGES, MESSAGES_BODY)
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    assert b'"input":' + RAW.encode() + b"}" in response.body
    message = response.json()
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][2]["id"] == "toolu_sim_0001"
    assert message["stop_reason"] == "tool_use"
    assert message["role"] == "assistant"


def test_an_anthropic_stream_sends_the_documented_events_in_order():
    response = ask(ANSWER, MESSAGES, {**MESSAGES_BODY, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    names = [e.name for e in response.events() if e.name not in ("content_block_delta", "ping")]
    block = ["content_block_start", "content_block_stop"]
    assert names == ["message_start", *block * 3, "message_delta", "message_stop"]
    assert all(e.name == e.json()["type"] for e in response.events())
    assert deltas(response, "text_delta", "text") == "I will read it."
    assert deltas(response, "thinking_delta", "thinking") == "Let me see."
    assert deltas(response, "input_json_delta", "partial_json") == RAW
    assert deltas(response, "signature_delta", "signature")


def test_a_stream_is_cut_into_chunks_of_the_asked_size():
    answer = Answer([Say("abcdefgh")], chunk=3)
    response = ask(answer, MESSAGES, {**MESSAGES_BODY, "stream": True})
    pieces = [
        e.json()["delta"]["text"]
        for e in response.events()
        if "delta" in e.name and "block" in e.name
    ]
    assert pieces == ["abc", "def", "gh"]


def test_redacted_thinking_carries_its_data():
    response = ask([Think("hidden", redacted=True), Say("x")], MESSAGES, MESSAGES_BODY)
    block = response.json()["content"][0]
    assert block["type"] == "redacted_thinking"
    assert block["data"]
    assert "hidden" not in response.body.decode()


def test_a_given_signature_is_sent_as_given():
    response = ask([Think("t", signature="sig=="), Say("x")], MESSAGES, MESSAGES_BODY)
    assert response.json()["content"][0]["signature"] == "sig=="


def test_a_whole_chat_answer_carries_arguments_as_the_very_string():
    message = ask(ANSWER, CHAT, CHAT_BODY).json()["choices"][0]["message"]
    assert message["content"] == "I will read it."
    assert message["reasoning_content"] == "Let me see."
    call = message["tool_calls"][0]
    assert call["id"] == "call_sim_0001"
    assert call["function"] == {"name": "read", "arguments": RAW}


def test_a_chat_stream_sends_role_then_deltas_then_usage_then_done():
    body = {**CHAT_BODY, "stream": True, "stream_options": {"include_usage": True}}
    events = ask([Say("One."), Call("a", {}), Call("b", RAW)], CHAT, body).events()
    assert events[-1].data == b"[DONE]"
    chunks = [event.json() for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    calls = [c for chunk in chunks[:-1] for c in chunk["choices"][0]["delta"].get("tool_calls", [])]
    arguments = {0: "", 1: ""}
    for call in calls:
        arguments[call["index"]] += call["function"]["arguments"]
    assert arguments == {0: "{}", 1: RAW}
    assert [c["id"] for c in calls if "id" in c] == ["call_sim_0001", "call_sim_0002"]


def test_a_chat_stream_has_no_usage_unless_it_is_asked_for():
    events = ask([Say("x")], CHAT, {**CHAT_BODY, "stream": True}).events()
    assert all("usage" not in event.json() for event in events[:-1])


@pytest.mark.parametrize(
    ("stop", "anthropic", "chat"),
    [
        ("max_tokens", "max_tokens", "length"),
        ("stop", "end_turn", "stop"),
        ("refusal", "refusal", "content_filter"),
        ("pause_turn", "pause_turn", "pause_turn"),
    ],
)
def test_a_stop_reason_is_said_in_each_api_s_word(stop, anthropic, chat):
    answer = Answer([Say("x")], stop=stop)
    assert ask(answer, MESSAGES, MESSAGES_BODY).json()["stop_reason"] == anthropic
    assert ask(answer, CHAT, CHAT_BODY).json()["choices"][0]["finish_reason"] == chat


def test_usage_overrides_are_put_over_what_is_computed():
    answer = Answer([Say("x")], usage_overrides={"output_tokens": 9, "service_tier": "batch"})
    usage = ask(answer, MESSAGES, MESSAGES_BODY).json()["usage"]
    assert (usage["output_tokens"], usage["service_tier"]) == (9, "batch")


def test_cache_fields_are_left_out_when_unreported():
    usage = ask([Say("x")], MESSAGES, MESSAGES_BODY, report_cache=False).json()["usage"]
    assert set(usage) == {"input_tokens", "output_tokens"}
    usage = ask([Say("x")], CHAT, CHAT_BODY, report_cache=False).json()["usage"]
    assert set(usage) == {"prompt_tokens", "completion_tokens", "total_tokens"}


def test_the_arguments_of_a_call_that_are_no_json_reach_the_client_only_in_a_stream():
    broken = [Call("read", '{"path": ')]
    assert ask(broken, MESSAGES, MESSAGES_BODY).json()["content"][0]["input"] == {}
    streamed = ask(broken, MESSAGES, {**MESSAGES_BODY, "stream": True})
    assert deltas(streamed, "input_json_delta", "partial_json") == '{"path": '


def test_models_are_listed_in_either_shape():
    with run_simulator(Simulator([], models=["a", "b"])) as url:
        anthropic = send(url, "/v1/models", None, method="GET").json()
        openai = send(
            url, "/v1/models", None, method="GET", headers={"anthropic-version": ""}
        ).json()
    assert [m["id"] for m in anthropic["data"]] == ["a", "b"]
    assert anthropic["has_more"] is False
    assert openai["object"] == "list"


def test_an_unknown_path_is_a_404_in_the_shape_of_the_api_spoken():
    with run_simulator(Simulator([])) as url:
        anthropic = send(url, "/v1/other", {})
        openai = send(url, "/v1/other", {}, headers={"anthropic-version": ""})
    assert anthropic.status == openai.status == 404
    assert anthropic.json()["error"]["type"] == "not_found_error"
    assert openai.json()["error"]["type"] == "invalid_request_error"


def test_what_arrived_is_recorded():
    sim = Simulator([[Say("x")]])
    with run_simulator(sim) as url:
        raw = json.dumps({**MESSAGES_BODY, "stream": True}, indent=1).encode()
        send(url, MESSAGES + "?beta=true", raw, headers={"X-Client-Request-Id": "r-1"})
    (record,) = sim.requests
    assert record.api == "anthropic-messages"
    assert record.path == "/v1/messages?beta=true"
    assert record.body == raw
    assert record.parsed["max_tokens"] == 100
    assert record.headers["authorization"] == "Bearer test"
    assert (record.status, record.streamed, record.answer_index) == (200, True, 0)
    assert (record.model, record.request_id, record.at) == ("claude-sonnet-5", "r-1", 0.0)


def test_the_prompt_is_counted_at_four_rendered_bytes_a_token():
    sim = Simulator([[Say("x")]], repeat_last=True)
    with run_simulator(sim) as url:
        for length in range(100, 105):
            text = "y" * length
            send(url, MESSAGES, {**MESSAGES_BODY, "messages": [{"role": "user", "content": text}]})
    rendered = [len(b'user text ""\n') + length for length in range(100, 105)]
    assert [r.prompt_tokens for r in sim.requests] == [(size + 3) // 4 for size in rendered]
