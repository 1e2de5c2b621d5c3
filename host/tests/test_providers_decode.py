"""Answers: from events, cut anywhere, to one message; usage as reported and no more."""

import json

import attrs
import pytest

from unipi.providers import ProviderError, SseParser, api_for
from unipi_hookspecs import Model, Prices, RequestInfo, Text, Thinking, ToolCall, Usage

MESSAGES = "anthropic-messages"
CHAT = "openai-chat-completions"
WORDS = "那 café 👩‍💻\r\nend"


def decoder(api, **changes):
    info = RequestInfo("req-1", 0, "turn", "sim", api, "m", 1)
    model = attrs.evolve(Model("sim", "m", api, "http://127.0.0.1:1"), **changes)
    return api_for(api).decoder(model, info, 5)


def sse(*events, end="\n"):
    lines = [
        f"event: {e['type']}{end}data: {json.dumps(e, ensure_ascii=False)}{end}{end}"
        if "type" in e
        else f"data: {json.dumps(e, ensure_ascii=False)}{end}{end}"
        for e in events
    ]
    return "".join(lines).encode()


def run(api, *chunks, sink=None, **changes):
    parser, made = SseParser(), decoder(api, **changes)
    for chunk in chunks:
        for name, data in parser.feed(chunk):
            made.event(name, data, sink)
    return made


def anthropic(*blocks, stop="end_turn", usage=None, final=None):
    """The events of an answer; a block is `(content_block, delta, delta, …)`."""
    events = [{"type": "message_start", "message": {"id": "msg_1", "usage": usage or {}}}]
    for index, (block, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "ping"})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": final or {}})
    return [*events, {"type": "message_stop"}]


def chat(*deltas, finish="stop", usage=None):
    chunks = [{"id": "cc_1", "choices": [{"index": 0, "delta": d}]} for d in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": None})
    return [*chunks, {"choices": [], "usage": usage}] if usage else chunks


def text_delta(text):
    return {"type": "text_delta", "text": text}


def json_delta(text):
    return {"type": "input_json_delta", "partial_json": text}


def function(index, arguments, **first):
    call = {"index": index, "function": {"arguments": arguments}}
    if first:
        call |= {"id": first["id"], "type": "function"}
        call["function"]["name"] = first["name"]
    return {"tool_calls": [call]}


ARGUMENTS = json.dumps({"text": WORDS}, ensure_ascii=False)
STREAMS = {
    MESSAGES: sse(
        *anthropic(
            (
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": WORDS},
                {"type": "signature_delta", "signature": "sig"},
            ),
            ({"type": "text", "text": ""}, text_delta(WORDS[:3]), text_delta(WORDS[3:])),
            (
                {"type": "tool_use", "id": "t1", "name": "write", "input": {}},
                json_delta(""),
                json_delta(ARGUMENTS[:12]),
                json_delta(ARGUMENTS[12:]),
            ),
            stop="tool_use",
        ),
        end="\r\n",
    ),
    CHAT: sse(
        *chat(
            {"role": "assistant", "content": None, "reasoning_content": WORDS},
            {"content": WORDS[:3]},
            {"content": WORDS[3:]},
            function(0, "", id="t1", name="write"),
            function(0, ARGUMENTS[:12]),
            function(0, ARGUMENTS[12:]),
            finish="tool_calls",
        ),
        end="\r\n",
    )
    + b"data: [DONE]\r\n\r\n",
}
CONTENT = {
    MESSAGES: (Thinking(WORDS, "sig"),),
    CHAT: (Thinking(WORDS),),
}


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
def test_a_stream_cut_at_any_byte_gives_the_same_answer(api):
    stream = STREAMS[api]
    whole = run(api, stream).message()
    assert whole.content == (
        *CONTENT[api],
        Text(WORDS),
        ToolCall("t1", "write", {"text": WORDS}, ARGUMENTS),
    )
    assert whole.stop_reason == "toolUse"
    for at in range(len(stream)):
        assert run(api, stream[:at], stream[at:]).message() == whole


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
def test_the_pieces_of_a_block_joined_are_its_text(api):
    sink = []
    message = run(api, STREAMS[api], sink=sink).message()
    for index, block in enumerate(message.content):
        pieces = "".join(d.delta for d in sink if d.index == index)
        assert pieces == {
            "text": lambda b: b.text,
            "thinking": lambda b: b.thinking,
            "toolCall": lambda b: b.arguments_text,
        }[block.type](block)


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
def test_a_character_whose_halves_are_escapes_in_two_events_is_whole(api):
    sink = []
    deltas = ["a\ud83d", "\ude00b", "\ud83d"]
    if api == MESSAGES:
        events = anthropic(({"type": "text", "text": ""}, *map(text_delta, deltas)))
    else:
        events = chat(*({"content": d} for d in deltas))
    stream = "".join(f"data: {json.dumps(e)}\n\n" for e in events).encode()
    made = run(api, stream, b"data: [DONE]\n\n" if api == CHAT else b"", sink=sink)
    assert made.message().content == (Text("a😀b\ufffd"),)
    assert "".join(d.delta for d in sink) == "a😀b\ufffd"


def test_bytes_that_are_no_utf8_are_replaced_and_the_answer_goes_on():
    made = run(CHAT, b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n')
    assert made.message().content == (Text("a\ufffdb"),)


def test_thinking_without_text_keeps_its_signature_and_redacted_data_its_bytes():
    events = anthropic(
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "signature_delta", "signature": "a=="},
        ),
        ({"type": "redacted_thinking", "data": "opaque"},),
    )
    content = run(MESSAGES, sse(*events)).message().content
    assert content == (Thinking("", "a=="), Thinking("", "opaque", redacted=True))


def test_unknown_events_blocks_and_deltas_are_passed_over():
    events = anthropic(
        ({"type": "server_tool_use", "id": "x"}, json_delta("{}")),
        ({"type": "text", "text": ""}, {"type": "citations_delta"}, text_delta("hi")),
    )
    made = run(
        MESSAGES, sse({"type": "brand_new"}, *events, {"type": "content_block_delta", "index": {}})
    )
    assert made.message().content == (Text("hi"),)


def test_a_call_that_comes_whole_in_one_chunk_is_read():
    events = chat(function(0, '{"a":1}', id="c", name="t"), finish="stop")
    message = run(CHAT, sse(*events)).message()
    assert message.content == (ToolCall("c", "t", {"a": 1}),)
    assert message.stop_reason == "toolUse"


def test_calls_are_told_apart_by_id_where_a_server_leaves_the_index_out():
    def item(call_id):
        return {"id": call_id, "function": {"name": "t", "arguments": "{}"}}

    events = chat({"tool_calls": [item("a")]}, {"tool_calls": [item("b")]})
    assert [c.id for c in run(CHAT, sse(*events)).message().content] == ["a", "b"]


def test_calls_without_an_id_or_with_the_same_one_get_ids_of_their_own():
    events = chat(
        function(0, "{}", id="", name="t"),
        function(1, "{}", id="same", name="t"),
        function(2, "{}", id="same", name="t"),
    )
    found = [c.id for c in run(CHAT, sse(*events)).message().content]
    assert found == ["req-1-0", "same", "req-1-2"]


@pytest.mark.parametrize(
    ("api", "word", "reason"),
    [
        (MESSAGES, "end_turn", "stop"),
        (MESSAGES, "stop_sequence", "stop"),
        (MESSAGES, "pause_turn", "stop"),
        (MESSAGES, "max_tokens", "length"),
        (MESSAGES, "model_context_window_exceeded", "length"),
        (MESSAGES, "refusal", "error"),
        (MESSAGES, "something_new", "stop"),
        (CHAT, "stop", "stop"),
        (CHAT, "length", "length"),
        (CHAT, "content_filter", "error"),
    ],
)
def test_stop_reasons_are_pi_s(api, word, reason):
    events = anthropic(stop=word) if api == MESSAGES else chat({"content": "x"}, finish=word)
    message = run(api, sse(*events)).message()
    assert message.stop_reason == reason
    assert (message.error_message is None) == (reason != "error")


@pytest.mark.parametrize(
    ("start", "final", "expected"),
    [
        ({"input_tokens": 3, "output_tokens": 1}, {"output_tokens": 9}, Usage(3, 9)),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 8},
            {"output_tokens": 9, "cache_read_input_tokens": None},
            Usage(3, 9, 0, 8),
        ),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 5},
            {"input_tokens": 4, "output_tokens": 9, "cache_read_input_tokens": 6},
            Usage(4, 9, 6, None),
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_1h_input_tokens": 5},
            },
            {"output_tokens": 2},
            Usage(1, 2, None, 7, 5),
        ),
        ({"input_tokens": 0}, {"output_tokens": 0}, Usage(0, 0)),
        ({}, {}, None),
    ],
)
def test_anthropic_usage_is_the_last_value_reported_never_a_sum(start, final, expected):
    events = anthropic(usage=start, final=final)
    assert run(MESSAGES, sse(*events)).message().usage == expected


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None},
            Usage(10, 2),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
            },
            Usage(1, 2, 4, 5),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            Usage(10, 2, 0, None, reasoning=1),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_cache_hit_tokens": 7,
                "prompt_cache_miss_tokens": 3,
            },
            Usage(3, 2, 7),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 99},
            },
            Usage(0, 0, 99),
        ),
        (
            {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {}},
            Usage(0, 0),
        ),
        (None, None),
    ],
)
def test_chat_usage_counts_each_prompt_token_once_and_unreported_is_not_zero(reported, expected):
    made = run(CHAT, sse(*chat({"content": "x"}, usage=reported)))
    assert made.message().usage == expected


def test_a_llama_server_s_timings_tell_what_it_had_cached():
    chunk = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    chunk["timings"] = {"cache_n": 6}
    assert run(CHAT, sse(*chat({"content": "x"}), chunk)).message().usage == Usage(3, 1, 6)


def test_usage_carries_its_price():
    prices = Prices(3.0, 15.0, 0.3, 3.75)
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 12_304,
        "cache_read_input_tokens": 0,
    }
    events = anthropic(usage=usage, final={"output_tokens": 550})
    message = run(MESSAGES, sse(*events), prices=prices).message()
    assert message.usage.prompt == 12_307
    assert message.usage.cost.total == pytest.approx(0.054399)


# ---- whole answers


def test_a_whole_anthropic_answer_keeps_the_source_text_of_a_call():
    made = decoder(MESSAGES)
    made.whole(
        b'{ "id": "msg_1", "content": [ {"type":"text","text":"hi"},'
        b' {"type":"tool_use","id":"a","input": { "n": 1e3, "s":"\\u00e9" },"name":"t"} ],'
        b' "stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2} }'
    )
    message = made.message()
    assert message.content == (
        Text("hi"),
        ToolCall("a", "t", {"n": 1000.0, "s": "é"}, '{ "n": 1e3, "s":"\\u00e9" }'),
    )
    assert (message.stop_reason, message.usage, message.response_id) == (
        "toolUse",
        Usage(1, 2),
        "msg_1",
    )


def test_a_whole_chat_answer_is_read():
    made = decoder(CHAT)
    call = {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{ "k":1}'}}
    message = {"role": "assistant", "content": "hi", "tool_calls": [call]}
    made.whole(
        json.dumps({"id": "x", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    )
    assert made.complete
    assert made.message().content == (Text("hi"), ToolCall("a", "t", {"k": 1}, '{ "k":1}'))


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
@pytest.mark.parametrize("body", [b"{}", b"[]", b"not json"])
def test_a_whole_body_that_is_no_answer_is_an_error(api, body):
    with pytest.raises(ProviderError) as caught:
        decoder(api).whole(body)
    assert caught.value.kind == "stream"


# ---- streams that end badly


@pytest.mark.parametrize("api", [MESSAGES, CHAT])
def test_an_answer_without_its_end_is_not_complete(api):
    stream = STREAMS[api]
    end = stream.index(b"message_stop") if api == MESSAGES else stream.index(b'tool_calls"}')
    assert not run(api, stream[: end - 8]).complete
    assert run(api, stream).complete


@pytest.mark.parametrize(
    ("api", "event", "kind"),
    [
        (
            MESSAGES,
            {"type": "error", "error": {"type": "overloaded_error", "message": "O"}},
            "overloaded",
        ),
        (MESSAGES, {"type": "error", "error": {"type": "api_error", "message": "x"}}, "server"),
        (CHAT, {"error": {"code": 500, "message": "x", "type": "server_error"}}, "server"),
        (CHAT, {"error": {"code": "rate_limit_exceeded", "message": "x"}}, "rate_limit"),
        (CHAT, {"error": "plain words"}, "server"),
        (
            CHAT,
            {"error": {"message": "the request exceeds the available context size"}},
            "overflow",
        ),
    ],
)
def test_an_error_event_in_a_running_stream_is_an_error_of_its_kind(api, event, kind):
    with pytest.raises(ProviderError) as caught:
        run(api, sse(event))
    assert caught.value.kind == kind


def test_an_event_that_is_no_json_is_an_error_that_quotes_it_bounded():
    with pytest.raises(ProviderError, match="not JSON") as caught:
        run(CHAT, b"data: <html>" + b"x" * 5000 + b"\n\n")
    assert len(str(caught.value)) < 600
