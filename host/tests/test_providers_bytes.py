"""The bytes of a request: the head's order, one fragment a message, and that they only grow."""

import attrs
import orjson
import pytest
from hypothesis import given, settings, strategies as st

from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers import api_for
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    Image,
    Model,
    SummaryMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

MESSAGES = "anthropic-messages"
CHAT = "openai-chat-completions"
APIS = [MESSAGES, CHAT]
PICTURE = Image("aGk=", "image/png")


def model(api=MESSAGES, **changes):
    base = Model(
        "sim",
        "m",
        api,
        "http://127.0.0.1:1",
        max_tokens=9000,
        reasoning=True,
        input=("text", "image"),
    )
    return attrs.evolve(base, **changes)


def head(api=MESSAGES, *, changes=None, **spec):
    made = {"system": (), "tools": (), **spec}
    return api_for(api).head(HeadSpec(model(api, **(changes or {})), **made))


def wire(api, *messages, **changes):
    """The fragments of messages, parsed; None for a message that does not go out."""
    found = api_for(api).fragments(messages, model(api, **changes))
    return [orjson.loads(fragment) if fragment else None for _, fragment in found]


def answer(*content, api=MESSAGES, provider="sim", **changes):
    return AssistantMessage(content, api=api, provider=provider, model="m", **changes)


def result(call_id, *content, **changes):
    return ToolResultMessage(call_id, "t", content or (Text("ok"),), **changes)


# ---- heads

TOOL = ToolSpec("read", "Read.", b'{"properties":{},"type":"object"}')


def test_the_anthropic_head_is_written_in_its_fixed_order():
    made = head(
        system=("one", "two"), tools=(TOOL, attrs.evolve(TOOL, name="write")), thinking="high"
    )
    marker = b',"cache_control":{"type":"ephemeral"}'
    schema = b'"description":"Read.","input_schema":{"properties":{},"type":"object"}'
    assert made.open == (
        b'{"model":"m","max_tokens":9000,"stream":true'
        + marker
        + b',"thinking":{"type":"adaptive"}'
        b',"output_config":{"effort":"high"}'
        b',"system":[{"type":"text","text":"one"},{"type":"text","text":"two"' + marker + b"}]"
        b',"tools":[{"name":"read",' + schema + b'},{"name":"write",' + schema + marker + b"}]"
        b',"messages":['
    )
    assert (made.close, made.leading) == (b"]}", False)


def test_the_chat_head_is_written_in_its_fixed_order():
    made = head(
        CHAT,
        system=("one", "two"),
        tools=(TOOL,),
        thinking="low",
        max_tokens=50,
        lineage="s1",
        changes={"dialect": "openai"},
    )
    assert made.open == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true}'
        b',"max_completion_tokens":50,"prompt_cache_key":"s1","reasoning_effort":"low"'
        b',"tools":[{"type":"function","function":{"name":"read","description":"Read."'
        b',"parameters":{"properties":{},"type":"object"}}}]'
        b',"messages":[{"role":"system","content":"one\\n\\ntwo"}'
    )
    assert (made.close, made.leading) == (b"]}", True)


def test_a_chat_server_of_another_make_gets_no_routing_key_and_the_older_name_of_the_limit():
    made = head(CHAT, lineage="s1", max_tokens=50)
    assert made.open == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true}'
        b',"max_tokens":50,"messages":['
    )
    assert not made.leading


@pytest.mark.parametrize("api", APIS)
def test_equal_specs_give_equal_bytes_whatever_the_order_of_options(api):
    one = head(api, options={"b": 1, "a": {"y": 1, "x": 2}})
    other = head(api, options={"a": {"x": 2, "y": 1}, "b": 1})
    assert one == other
    assert b'"a":{"x":2,"y":1},"b":1,"messages":[' in one.open


def test_an_option_goes_before_the_member_of_its_name_and_null_takes_it_out():
    made = head(options={"cache_control": None, "max_tokens": 7}, changes={"options": {"top_k": 1}})
    assert made.open == b'{"model":"m","max_tokens":7,"stream":true,"top_k":1,"messages":['


@pytest.mark.parametrize("api", APIS)
def test_an_option_cannot_replace_what_the_host_writes(api):
    with pytest.raises(ValueError, match=r"sim/m.*'messages'"):
        head(api, options={"messages": []})


@pytest.mark.parametrize(("level", "budget"), [("minimal", 1024), ("medium", 4500), ("off", None)])
def test_a_model_that_thinks_by_budget_gets_one_under_its_limit(level, budget):
    made = orjson.loads(head(thinking=level, changes={"dialect": "budget-thinking"}).open + b"]}")
    assert made.get("thinking") == (budget and {"type": "enabled", "budget_tokens": budget})
    assert "output_config" not in made


@pytest.mark.parametrize("api", APIS)
def test_a_model_without_reasoning_is_never_asked_for_it(api):
    made = head(api, thinking="high", changes={"reasoning": False}).open
    assert b"thinking" not in made
    assert b"effort" not in made


def test_at_most_three_of_the_four_cache_markers_are_the_host_s():
    made = head(system=("a", "b", "c"), tools=(TOOL,) * 15)
    assert made.open.count(b"cache_control") == 3


def test_an_empty_system_text_carries_no_marker():
    assert b'"system"' not in head(system=("", " ")).open


# ---- user messages


@pytest.mark.parametrize("api", APIS)
def test_a_string_and_a_list_of_blocks_stay_different_bytes(api):
    string, blocks = wire(api, UserMessage("a\n"), UserMessage([Text("a\n"), Text("b")]))
    assert string == {"role": "user", "content": "a\n"}
    assert blocks["content"] == [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]


def test_pictures_go_out_in_each_api_s_form():
    message = UserMessage([Text("see"), PICTURE])
    (anthropic,) = wire(MESSAGES, message)
    (chat,) = wire(CHAT, message)
    assert anthropic["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }
    assert chat["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,aGk="},
    }


@pytest.mark.parametrize("api", APIS)
def test_a_model_that_takes_no_pictures_gets_a_note(api):
    (message,) = wire(api, UserMessage([PICTURE]), input=("text",))
    assert "image/png" in message["content"][0]["text"]


@pytest.mark.parametrize("api", APIS)
def test_a_plugin_s_message_is_a_user_message(api):
    (shown,) = wire(api, CustomMessage("state", "on", display=False))
    assert shown == {"role": "user", "content": "on"}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["compaction", "branch"])
def test_a_summary_is_a_user_message_that_says_what_it_is(api, kind):
    (message,) = wire(api, SummaryMessage(kind, "they agreed"))
    assert message["role"] == "user"
    assert "<summary>\nthey agreed\n</summary>" in message["content"]


@pytest.mark.parametrize("api", APIS)
def test_a_user_s_command_shows_output_fence_and_how_it_ended(api):
    (message,) = wire(api, BashMessage("ls", "a```b\n", exit_code=2))
    assert message["content"].splitlines()[1:] == [
        "$ ls",
        "````",
        "a```b",
        "````",
        "It exited with code 2.",
    ]


@pytest.mark.parametrize("api", APIS)
def test_what_reaches_no_model_is_covered_by_no_bytes(api):
    assert (
        wire(
            api,
            BashMessage("ls", "a", exclude_from_context=True),
            UserMessage(""),
            UserMessage([Text("")]),
            CustomMessage("x", []),
            answer(Text("half"), stop_reason="aborted"),
            answer(Text("half"), stop_reason="error"),
            answer(Text("")),
            answer(),
        )
        == [None] * 8
    )


def test_white_space_alone_is_left_out_where_the_api_refuses_it():
    assert wire(MESSAGES, UserMessage(" \n"), answer(Text("\n"), Text("a "))) == [
        None,
        {"role": "assistant", "content": [{"type": "text", "text": "a "}]},
    ]


@pytest.mark.parametrize("api", APIS)
def test_lone_surrogates_become_one_replacement_character_each(api):
    fragments = api_for(api).fragments(
        [UserMessage("a\udfffb"), result("i", Text("\ud800"))], model(api)
    )
    text = b"".join(fragment for _, fragment in fragments).decode("utf-8", "strict")
    assert text.count("\ufffd") == 2


# ---- answers and results


def test_thinking_is_replayed_verbatim_and_in_place():
    (message,) = wire(
        MESSAGES,
        answer(
            Thinking("", "sig=="),
            Text("so"),
            Thinking("", "opaque", redacted=True),
            ToolCall("c1", "t", {"b": 1, "a": 2}),
        ),
    )
    assert message["content"] == [
        {"type": "thinking", "thinking": "", "signature": "sig=="},
        {"type": "text", "text": "so"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "tool_use", "id": "c1", "name": "t", "input": {"b": 1, "a": 2}},
    ]
    assert list(message["content"][3]["input"]) == ["b", "a"]


@pytest.mark.parametrize("foreign", [{"provider": "other"}, {"api": CHAT}])
def test_another_vendor_s_thinking_is_left_out_and_its_calls_stay(foreign):
    foreign_answer = answer(Thinking("x", "s"), ToolCall("c1", "t", {}), **foreign)
    (message,) = wire(MESSAGES, foreign_answer)
    assert [block["type"] for block in message["content"]] == ["tool_use"]


def test_thinking_without_a_signature_is_left_out():
    assert wire(MESSAGES, answer(Thinking("x"))) == [None]


def test_back_on_the_first_provider_the_first_bytes_return():
    history = [answer(Thinking("x", "s"), ToolCall("Write:6", "t", {})), result("Write:6")]
    api = api_for(MESSAGES)
    first = api.fragments(history, model())
    api_for(CHAT).fragments(history, model(CHAT))
    api.fragments(history, model(provider="other"))
    assert api.fragments(history, model()) == first


def test_the_results_of_a_turn_share_one_anthropic_message():
    found = api_for(MESSAGES).fragments(
        [result("a"), result("b", Text(""), is_error=True), UserMessage("go on")], model()
    )
    assert [count for count, _ in found] == [2, 1]
    assert orjson.loads(found[0][1])["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "ok"}]},
        {"type": "tool_result", "tool_use_id": "b", "content": "", "is_error": True},
    ]


def test_on_chat_each_result_is_a_message_and_a_picture_in_it_a_note():
    first, second = wire(CHAT, result("a"), result("b", Text("x"), PICTURE))
    assert first == {"role": "tool", "tool_call_id": "a", "content": "ok"}
    assert second["content"].startswith("x\n")
    assert "image/png" in second["content"]


@pytest.mark.parametrize("api", APIS)
def test_results_of_an_aborted_answer_leave_with_it(api):
    aborted = answer(ToolCall("a", "t", {}), stop_reason="aborted")
    found = api_for(api).fragments([aborted, result("a"), UserMessage("again")], model(api))
    assert [fragment for _, fragment in found[:-1]] == [b"", b""]
    assert b"again" in found[-1][1]


def test_a_chat_answer_of_calls_alone_has_null_content():
    (message,) = wire(CHAT, answer(ToolCall("a", "t", {}, '{ "k": 1.0 }')))
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{ "k": 1.0 }'}}
    ]


@pytest.mark.parametrize("api", APIS)
def test_call_and_result_of_a_replaced_id_still_match(api):
    called, returned = wire(api, answer(ToolCall("Write:6|x", "t", {})), result("Write:6|x"))
    if api == MESSAGES:
        assert called["content"][0]["id"] == returned["content"][0]["tool_use_id"]
    else:
        assert called["tool_calls"][0]["id"] == returned["tool_call_id"]


def test_deepseek_s_turns_with_calls_carry_their_reasoning_and_the_others_none():
    thought = (Thinking("hm"), Text("yes"))
    own = {"api": CHAT}
    with_call, without, foreign = wire(
        CHAT,
        answer(*thought, ToolCall("a", "t", {}), **own),
        answer(*thought, **own),
        answer(*thought, ToolCall("b", "t", {}), provider="other"),
        dialect="deepseek",
    )
    assert with_call["reasoning_content"] == "hm"
    assert "reasoning_content" not in without
    assert foreign["reasoning_content"] == ""


def test_other_chat_servers_get_no_reasoning_back():
    (message,) = wire(CHAT, answer(Thinking("hm"), ToolCall("a", "t", {}), api=CHAT))
    assert "reasoning_content" not in message


# ---- growth

texts = st.text(st.characters(codec=None), max_size=8)
user_blocks = st.lists(st.builds(Text, texts) | st.just(PICTURE), max_size=3)
ids = st.sampled_from(["a", "b", "Write:6", ""])
calls = st.builds(
    ToolCall,
    ids,
    st.sampled_from(["read", "write"]),
    st.just({"k": 1}),
    st.none() | st.sampled_from(['{"k": 1}', '{"k"', "[]", ""]),
)
blocks = (
    st.builds(Text, texts) | st.builds(Thinking, texts, st.none() | texts, st.booleans()) | calls
)
messages = st.lists(
    st.builds(UserMessage, texts | user_blocks)
    | st.builds(CustomMessage, st.just("c"), texts | user_blocks)
    | st.builds(SummaryMessage, st.sampled_from(["compaction", "branch"]), texts)
    | st.builds(
        BashMessage, texts, texts, st.none() | st.integers(0, 2), exclude_from_context=st.booleans()
    )
    | st.builds(
        AssistantMessage,
        st.lists(blocks, max_size=4),
        st.sampled_from(APIS),
        st.sampled_from(["sim", "other"]),
        stop_reason=st.sampled_from(["stop", "toolUse", "aborted", "error", "length"]),
    )
    | st.builds(ToolResultMessage, ids, st.just("t"), user_blocks, st.booleans()),
    max_size=12,
)


@pytest.mark.parametrize("api", APIS)
@given(history=messages, at=st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_converting_a_longer_history_only_appends(api, history, at):
    # A request point: the run of tool results before it is complete.
    at = min(at, len(history))
    while 0 < at < len(history) and isinstance(history[at], ToolResultMessage):
        at += 1
    shorter = api_for(api).fragments(history[:at], model(api))
    longer = api_for(api).fragments(history, model(api))
    assert longer[: len(shorter)] == shorter


@pytest.mark.parametrize("api", APIS)
@given(history=messages)
@settings(max_examples=150, deadline=None)
def test_the_fragments_cover_each_message_once_and_are_json_objects(api, history):
    found = api_for(api).fragments(history, model(api))
    assert sum(count for count, _ in found) == len(history)
    assert all(isinstance(orjson.loads(fragment), dict) for _, fragment in found if fragment)
