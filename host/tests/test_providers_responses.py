"""The Responses API: items go out as they came in, one fragment each, and answers become one message."""

import json

import attrs
import orjson
import pytest

from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers import ProviderError, SseParser, api_for
from unipi_hookspecs import (
    AssistantMessage,
    Image,
    Model,
    Prices,
    RequestInfo,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

API = "openai-responses"
MODEL = Model(
    "sim", "m", API, "http://127.0.0.1:1", max_tokens=90, reasoning=True, input=("text", "image")
)
WORDS = "那 café 👩‍💻\r\nend"
# No writer of ours would put it so: space, escapes and order are the source's.
REASONING = '{"type": "reasoning", "id":"rs_1","summary":[{"text":"hm\\u00e9","type":"summary_text"}],"encrypted_content":"gAAA=="}'
SQUEEZED = REASONING.replace(": ", ":").replace(', "id"', ',"id"')


def head(**spec):
    made = {"system": (), "tools": (), **spec}
    changes = made.pop("changes", {})
    return api_for(API).head(HeadSpec(attrs.evolve(MODEL, **changes), **made))


def wire(*messages, **changes):
    return [raw for _, raw in api_for(API).fragments(messages, attrs.evolve(MODEL, **changes))]


def sse(*events):
    return "".join(
        f"event: {e['type']}\ndata: {e.get('raw') or json.dumps(e, ensure_ascii=False)}\n\n"
        for e in events
    ).encode()


def decoder(**changes):
    model = attrs.evolve(MODEL, **changes)
    return api_for(API).decoder(model, RequestInfo("req-1", 0, "turn", "sim", API, "m", 1), 5)


def run(*chunks, sink=None, **changes):
    parser, made = SseParser(), decoder(**changes)
    for chunk in chunks:
        for name, data in parser.feed(chunk):
            made.event(name, data, sink)
    return made


def done(place, source):
    """The end of an item, with the item's source text as it is."""
    kind = "response.output_item.done"
    return {"type": kind, "raw": f'{{"type":"{kind}","output_index":{place},"item":{source}}}'}


def end(kind="completed", **members):
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "status": kind, **members}}


def text_events(place, item_id, text, **members):
    item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", **members}
    part = {"type": "output_text", "text": text, "annotations": []}
    at = {"item_id": item_id, "output_index": place, "content_index": 0}
    return [
        {
            "type": "response.output_item.added",
            "output_index": place,
            "item": {**item, "content": []},
        },
        *({"type": "response.output_text.delta", **at, "delta": c} for c in (text[:3], text[3:])),
        done(place, json.dumps({**item, "content": [part]}, ensure_ascii=False)),
    ]


def call_events(place, item_id, call_id, name, arguments):
    item = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name}
    return [
        {
            "type": "response.output_item.added",
            "output_index": place,
            "item": {**item, "arguments": ""},
        },
        *(
            {
                "type": "response.function_call_arguments.delta",
                "output_index": place,
                "item_id": item_id,
                "delta": piece,
            }
            for piece in (arguments[:5], arguments[5:])
        ),
        done(place, json.dumps({**item, "arguments": arguments, "status": "completed"})),
    ]


ANSWER = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "reasoning", "id": "rs_1", "summary": []},
    },
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hmé"},
    done(0, REASONING),
    *text_events(1, "msg_1", WORDS, phase="commentary"),
    *call_events(2, "fc_1", "call_1", "read", '{"path": "a.txt", "from": 1.0}'),
    *call_events(3, "fc_2", "call_2", "read", '{"path":"b"}'),
    end(
        usage={
            "input_tokens": 100,
            "output_tokens": 9,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "output_tokens_details": {"reasoning_tokens": 4},
        }
    ),
]


# ---- the head


def test_the_head_is_written_in_its_fixed_order_with_input_last():
    tool = ToolSpec("read", "Read.", b'{"properties":{},"type":"object"}')
    made = head(
        system=("one", "two"),
        tools=(tool,),
        thinking="low",
        max_tokens=50,
        lineage="s1",
        changes={"dialect": "openai"},
    )
    assert made.open == (
        b'{"model":"m","stream":true,"store":false,"max_output_tokens":50'
        b',"reasoning":{"effort":"low","summary":"auto"}'
        b',"include":["reasoning.encrypted_content"],"prompt_cache_key":"s1"'
        b',"instructions":"one\\n\\ntwo"'
        b',"tools":[{"type":"function","name":"read","description":"Read."'
        b',"parameters":{"properties":{},"type":"object"},"strict":false}],"input":['
    )
    assert (made.close, made.leading) == (b"]}", False)


@pytest.mark.parametrize("name", ["input", "instructions", "tools"])
def test_an_option_cannot_replace_what_the_host_writes(name):
    with pytest.raises(ValueError, match=rf"sim/m.*'{name}'"):
        head(options={name: []})


# ---- items that go back


def test_every_item_of_an_answer_goes_back_as_it_came_and_in_its_order():
    message = run(sse(*ANSWER)).message()
    reasoning, text, *calls = wire(message)
    assert reasoning == SQUEEZED.encode()
    assert orjson.loads(text) == {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": WORDS, "annotations": []}],
        "phase": "commentary",
    }
    assert [orjson.loads(c) for c in calls] == [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path": "a.txt", "from": 1.0}',
            "status": "completed",
        },
        {
            "type": "function_call",
            "id": "fc_2",
            "call_id": "call_2",
            "name": "read",
            "arguments": '{"path":"b"}',
            "status": "completed",
        },
    ]


def test_the_items_of_one_message_cover_it_once():
    message = run(sse(*ANSWER)).message()
    assert [n for n, _ in api_for(API).fragments([message], MODEL)] == [0, 0, 0, 1]


def test_a_session_of_pi_s_replays_its_ids():
    content = (
        Thinking("hm", SQUEEZED),
        Text("now", '{"v":1,"id":"msg_9","phase":"final_answer"}'),
        ToolCall("call_9|fc_9", "read", {}, arguments_text="{}"),
    )
    message = AssistantMessage(content, api=API, provider="sim", model="m")
    ids = [orjson.loads(raw)["id"] for raw in wire(message)]
    assert ids == ["rs_1", "msg_9", "fc_9"]


def test_a_result_names_its_call_without_the_item_s_id():
    (raw,) = wire(ToolResultMessage("call_9|fc_9", "read", [Text("a"), Text("b")]))
    assert orjson.loads(raw) == {
        "type": "function_call_output",
        "call_id": "call_9",
        "output": "a\nb",
    }


def test_a_picture_in_a_result_makes_its_output_a_list():
    (raw,) = wire(ToolResultMessage("c", "t", [Text("see"), Image("aGk=", "image/png")]))
    assert [part["type"] for part in orjson.loads(raw)["output"]] == ["input_text", "input_image"]


def test_what_another_model_wrote_goes_back_as_plain_text_and_calls():
    message = run(sse(*ANSWER)).message()
    text, *calls = (orjson.loads(raw) for raw in wire(message, id="another"))
    assert text["id"].startswith("msg_")
    assert (text["id"] == "msg_1", "phase" in text) == (False, False)
    assert all("id" not in call for call in calls)
    assert [call["call_id"] for call in calls] == ["call_1", "call_2"]


def test_a_made_id_is_the_same_each_time_and_no_other_text_s():
    message = AssistantMessage(
        (Text("a"), Text("b")), api="anthropic-messages", provider="x", model="y", timestamp=7
    )
    ids = [orjson.loads(raw)["id"] for raw in wire(message)]
    assert ids == [orjson.loads(raw)["id"] for raw in wire(message)]
    assert len(set(ids)) == 2


def test_reasoning_that_nothing_follows_is_left_out():
    assert wire(
        AssistantMessage((Thinking("hm", SQUEEZED),), api=API, provider="sim", model="m")
    ) == [b""]


def test_a_message_of_several_parts_stays_one_item():
    signature = '{"v":1,"id":"msg_1"}'
    message = AssistantMessage(
        (Text("a", signature), Text("b", signature)), api=API, provider="sim", model="m"
    )
    (raw,) = wire(message)
    assert [part["text"] for part in orjson.loads(raw)["content"]] == ["a", "b"]


# ---- answers


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_a_stream_cut_anywhere_gives_the_same_answer(step):
    stream = sse(*ANSWER)
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    message = run(*pieces).message()
    assert message == run(stream).message()
    assert message.content[0] == Thinking("hmé", SQUEEZED)
    assert [block.id for block in message.content[2:]] == ["call_1|fc_1", "call_2|fc_2"]
    assert (message.stop_reason, message.response_id) == ("toolUse", "resp_1")


def test_an_answer_that_is_not_streamed_gives_the_same_message():
    sources = [e["raw"].partition('"item":')[2][:-1] for e in ANSWER if e.get("raw")]
    response = json.dumps(ANSWER[-1]["response"])
    body = f'{response[:-1]},"output":[{",".join(sources)}]}}'
    made = decoder()
    made.whole(body.encode())
    assert made.message() == run(sse(*ANSWER)).message()


def test_usage_is_parted_into_read_written_and_paid_in_full():
    usage = run(sse(*ANSWER), prices=Prices(1.0, 1.0, 1.0, 1.0)).message().usage
    assert attrs.evolve(usage, cost=None) == Usage(
        input=10, output=9, cache_read=60, cache_write=30, reasoning=4
    )
    assert usage.cost is not None


def test_a_server_that_counts_no_cached_tokens_reports_none():
    usage = run(sse(end(usage={"input_tokens": 5, "output_tokens": 1}))).message().usage
    assert (usage.input, usage.cache_read, usage.cache_write) == (5, None, None)


@pytest.mark.parametrize(
    ("why", "stop"), [("max_output_tokens", "length"), ("content_filter", "error")]
)
def test_an_incomplete_answer_says_why(why, stop):
    events = [
        *text_events(0, "msg_1", "half"),
        end("incomplete", incomplete_details={"reason": why}),
    ]
    message = run(sse(*events)).message()
    assert message.stop_reason == stop
    assert (message.error_message is not None) == (stop == "error")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "context_length_exceeded", "message": "Too long.", "param": None},
        {"type": "error", "error": {"code": "context_length_exceeded", "message": "Too long."}},
        end("failed", error={"code": "context_length_exceeded", "message": "Too long."}),
    ],
    ids=["flat", "nested", "failed"],
)
def test_an_overflow_told_in_the_stream_is_one_to_compact(event):
    with pytest.raises(ProviderError, match=r"Too long\.") as caught:
        run(sse(event))
    assert caught.value.action == "compact"


def test_a_stream_without_its_end_is_not_complete():
    assert not run(sse(*ANSWER[:-1])).complete


def test_items_and_events_that_nobody_asked_for_are_passed_over():
    extra = [{"type": "response.web_search_call.searching"}, done(0, '{"type":"web_search_call"}')]
    message = run(sse(*extra, *text_events(1, "msg_1", "here"), end())).message()
    assert [block.text for block in message.content] == ["here"]


def test_a_server_that_tells_items_by_their_ids_alone_is_understood():
    events = [
        {key: value for key, value in event.items() if key != "output_index"}
        if "raw" not in event
        else {**event, "raw": event["raw"].replace('"output_index":0,', "")}
        for event in call_events(0, "fc_1", "call_1", "read", '{"a":1}')
    ]
    (call,) = run(sse(*events, end())).message().content
    assert (call.id, call.name, call.arguments) == ("call_1|fc_1", "read", {"a": 1})


def test_user_messages_are_items_with_parts():
    (raw,) = wire(UserMessage("a"))
    assert orjson.loads(raw) == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "a"}],
    }
