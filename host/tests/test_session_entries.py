"""Messages and the fields of a line: Pi's spelling out, the same message back."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from unipi.session import Session, message_from_fields, message_to_fields
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    Cost,
    CustomMessage,
    Image,
    SummaryMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

texts = st.text(st.characters(codec=None), max_size=12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
times = st.integers(1, 253_402_300_799_999)
counts = st.integers(0, 10**7)
maybe_text = st.none() | texts
text_blocks = st.builds(Text, texts, maybe_text)
user_blocks = text_blocks | st.builds(Image, texts, texts)
calls = st.builds(
    ToolCall,
    id=texts,
    name=texts,
    arguments=st.dictionaries(texts, json_values, max_size=3),
    arguments_text=maybe_text,
    problem=maybe_text,
    thought_signature=maybe_text,
)
costs = st.builds(Cost, *[st.floats(0, 1e6)] * 4)
usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cache_read=st.none() | counts,
    cache_write=st.none() | counts,
    cache_write_1h=st.none() | counts,
    reasoning=st.none() | counts,
    cost=st.none() | costs,
)
contents = texts | st.lists(user_blocks, max_size=3).map(tuple)
messages = st.one_of(
    st.builds(UserMessage, contents, times),
    st.builds(
        AssistantMessage,
        content=st.lists(
            text_blocks | calls | st.builds(Thinking, texts, maybe_text, st.booleans()), max_size=3
        ).map(tuple),
        api=texts,
        provider=texts,
        model=texts,
        usage=st.none() | usages,
        stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted", "deferred"]),
        timestamp=times,
        response_id=maybe_text,
        error_message=maybe_text,
    ),
    st.builds(
        ToolResultMessage,
        tool_call_id=texts,
        tool_name=texts,
        content=st.lists(user_blocks, max_size=3).map(tuple),
        is_error=st.booleans(),
        details=json_values,
        timestamp=times,
    ),
    st.builds(CustomMessage, texts, contents, st.booleans(), json_values, times),
    st.builds(
        BashMessage,
        command=texts,
        output=texts,
        exit_code=st.none() | st.integers(-255, 255),
        cancelled=st.booleans(),
        truncated=st.booleans(),
        full_output_path=maybe_text,
        exclude_from_context=st.booleans(),
        timestamp=times,
    ),
)


summaries = st.builds(SummaryMessage, st.sampled_from(["compaction", "branch"]), texts, times)


@given(messages | summaries)
def test_a_message_reads_back_from_its_fields_as_it_was(message):
    assert message_from_fields(message_to_fields(message)) == message


@settings(max_examples=25, deadline=None)
@given(said=st.lists(messages, max_size=6))
def test_what_was_appended_reads_back_from_the_file_with_equal_entries(said, tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.jsonl"
    with Session.create(path, cwd=Path("/w")) as session:
        told = [session.append_message(message) for message in said]
        assert [entry.message for entry in told] == said
    before = path.read_bytes()
    with Session.open(path) as again:
        assert again.entries() == told
        assert again.damages == ()
    assert path.read_bytes() == before


unknown = st.dictionaries(st.text(min_size=1, max_size=8), json_values, max_size=4)


@settings(max_examples=25, deadline=None)
@given(lines=st.lists(st.tuples(texts, unknown), max_size=5))
def test_unknown_types_and_fields_of_another_program_are_kept_whole(lines, tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.jsonl"
    header = {"type": "session", "version": 3, "id": "x", "cwd": "/w", "extra": [1]}
    written = []
    for number, (kind, fields) in enumerate(lines):
        own = {"type": f"of-{kind}", "id": f"{number:08x}", "parentId": None, "timestamp": "t"}
        written.append({**fields, **own})
    # Both ways in which JSON may be spelt: escaped, as other programs do, and not.
    data = "".join(json.dumps(each) + "\n" for each in [header, *written]).encode()
    path.write_bytes(data)
    with Session.open(path) as session:
        assert session.header == header
        assert [entry.fields for entry in session.entries()] == written
        fork = session.fork(None, session.leaf_id)
        assert [e.fields for e in fork.entries()] == [dict(w) for w in written[-1:]]
    assert path.read_bytes() == data


def test_fields_have_the_spelling_of_pi():
    message = AssistantMessage(
        content=(
            Thinking("hm", "sig"),
            Text("hi"),
            ToolCall("c1", "read", {"path": "a"}, '{"path" :"a"}', None, "ts"),
        ),
        api="anthropic-messages",
        provider="anthropic",
        model="m",
        usage=Usage(1, 2, 3, 4, cost=Cost(0.5, 0.25, 0.125, 0.0)),
        stop_reason="toolUse",
        timestamp=7,
        response_id="r",
    )
    assert message_to_fields(message) == {
        "type": "message",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "text", "text": "hi"},
                {
                    "type": "toolCall",
                    "id": "c1",
                    "name": "read",
                    "arguments": {"path": "a"},
                    "argumentsText": '{"path" :"a"}',
                    "thoughtSignature": "ts",
                },
            ],
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": "m",
            "usage": {
                "input": 1,
                "output": 2,
                "cacheRead": 3,
                "cacheWrite": 4,
                "totalTokens": 10,
                "cost": {
                    "input": 0.5,
                    "output": 0.25,
                    "cacheRead": 0.125,
                    "cacheWrite": 0.0,
                    "total": 0.875,
                },
            },
            "stopReason": "toolUse",
            "timestamp": 7,
            "responseId": "r",
        },
    }


def test_numbers_that_were_not_reported_are_zeros_to_pi_and_none_to_us():
    silent = AssistantMessage(content=(), timestamp=1)
    usage = message_to_fields(silent)["message"]["usage"]
    assert usage["cost"]["total"] == 0
    assert usage["cacheRead"] == 0
    assert message_from_fields(message_to_fields(silent)).usage is None


def test_an_answer_of_pi_without_usage_reads_as_not_reported():
    fields = {"type": "message", "message": {"role": "assistant", "content": []}}
    assert message_from_fields(fields).usage is None


def test_a_string_and_a_list_of_blocks_stay_what_they_are():
    as_text = UserMessage("skills\n", 1)
    as_blocks = UserMessage((Text("skills\n"),), 1)
    assert message_from_fields(message_to_fields(as_text)).content == "skills\n"
    assert message_from_fields(message_to_fields(as_blocks)).content == (Text("skills\n"),)


def test_null_content_reads_as_empty_and_arguments_are_always_an_object():
    fields = {"type": "message", "message": {"role": "user", "content": None}}
    assert message_from_fields(fields).content == ()
    call = {"type": "toolCall", "id": "c", "name": "n", "arguments": [1]}
    fields = {"type": "message", "message": {"role": "assistant", "content": [call]}}
    assert message_from_fields(fields).content[0].arguments == {}


def test_a_message_without_a_time_gets_one():
    session = Session.create(None, cwd=Path("/w"))
    assert session.append_message(UserMessage("x")).message.timestamp > 0


def test_a_summary_is_no_message_to_append():
    session = Session.create(None, cwd=Path("/w"))
    with pytest.raises(TypeError, match="append\\('compaction'"):
        session.append_message(SummaryMessage("compaction", "s"))
