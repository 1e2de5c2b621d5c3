"""`unipi cache audit --requests`: which body broke the prefix, where, and which did not."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from unipi.cli.main import cli
from unipi_diagnostics.compare import SAME_MEANING, compare
from unipi_diagnostics.requests_audit import Row, compare_lines
from unipi_diagnostics.structure import parse
from unipi_diagnostics.transition import BREAKS

KEY = b"0123456789abcdef" * 2
PEERS = Path(__file__).parents[4] / "shared" / "diagpeers"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The user's own settings are not ours to read."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))


def schema(**extra):
    properties = {"file": {"type": "string"}, "how": {"enum": ["fast", "exact"]}}
    return {"type": "object", "properties": properties, "required": ["file", "how"], **extra}


def tool(name):
    return {"name": name, "description": f"Does {name}.", "input_schema": schema()}


def marked(block):
    return {**block, "cache_control": {"type": "ephemeral"}}


def text(said):
    return {"type": "text", "text": said}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {"file": "b.py", "limit": 1.50}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": [text("y = 2\n"), PICTURE]}


def base():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 512,
        "tools": [tool("change"), tool("look"), tool("run")],
        "system": [marked(text("Be careful."))],
        "messages": [
            {"role": "user", "content": [text("Mend b.py. ")]},
            {"role": "assistant", "content": [thinking, copy.deepcopy(CALL)]},
            {"role": "user", "content": [marked(copy.deepcopy(RESULT))]},
        ],
    }


def grown(body):
    more = [
        {"role": "assistant", "content": [text("There: naïve 😀")]},
        {"role": "user", "content": [text("Go on.")]},
    ]
    return {**body, "messages": [*body["messages"], *more]}


def message(body, index, block=0):
    return body["messages"][index]["content"][block]


def replace(holder, key, value):
    holder[key] = value


def backwards(mapping):
    return dict(reversed(list(mapping.items())))


BROKEN = {
    "a clock in the system prompt": (
        "system[0].text",
        "changed",
        lambda b: replace(b["system"][0], "text", "It is 10:01. Be careful."),
    ),
    "tools in another order": ("tools[0]", "order", lambda b: b["tools"].reverse()),
    "a tool more": ("tools[3]", "added", lambda b: b["tools"].append(tool("web"))),
    "a tool before the others": ("tools[0]", "added", lambda b: b["tools"].insert(0, tool("a"))),
    "a tool less": ("tools[1]", "removed", lambda b: b["tools"].pop(1)),
    "another order of keys in a schema": (
        "tools[0].input_schema",
        SAME_MEANING,
        lambda b: replace(b["tools"][0], "input_schema", backwards(schema())),
    ),
    "another order of required": (
        "tools[0].input_schema.required",
        "order",
        lambda b: b["tools"][0]["input_schema"]["required"].reverse(),
    ),
    "another order of an enum": (
        "tools[0].input_schema.properties.how.enum",
        "order",
        lambda b: b["tools"][0]["input_schema"]["properties"]["how"]["enum"].reverse(),
    ),
    "another description": (
        "tools[1].description",
        "changed",
        lambda b: replace(b["tools"][1], "description", "Does look!"),
    ),
    "another number in an old call": (
        "messages[1].content[1].input",
        "changed",
        lambda b: replace(message(b, 1, 1)["input"], "limit", 1.5000001),
    ),
    "another order of keys in an old call": (
        "messages[1].content[1].input",
        SAME_MEANING,
        lambda b: replace(message(b, 1, 1), "input", backwards(CALL["input"])),
    ),
    "thinking left out": (
        "messages[1].content[0]",
        "removed",
        lambda b: b["messages"][1]["content"].pop(0),
    ),
    "another signature": (
        "messages[1].content[0].signature",
        "changed",
        lambda b: replace(message(b, 1), "signature", "c2lo"),
    ),
    "an old result edited": (
        "messages[2].content[0].content[0].text",
        "changed",
        lambda b: replace(message(b, 2)["content"][0], "text", "[removed]"),
    ),
    "another picture of the same size": (
        "messages[2].content[0].content[1].source.data",
        "changed",
        lambda b: replace(message(b, 2)["content"][1]["source"], "data", "QUJE"),
    ),
    "a space at the end gone": (
        "messages[0].content[0].text",
        "changed",
        lambda b: replace(message(b, 0), "text", "Mend b.py."),
    ),
    "a message before all others": (
        "messages[0].content[0]",
        "added",
        lambda b: b["messages"].insert(0, {"role": "user", "content": [text("Remember: x")]}),
    ),
    "the oldest message gone": (
        "messages[0].content[0]",
        "removed",
        lambda b: b["messages"].pop(0),
    ),
    "another model": ("model", "changed", lambda b: replace(b, "model", "claude-opus-5")),
    "thinking switched on": (
        "thinking",
        "added",
        lambda b: replace(b, "thinking", {"type": "adaptive"}),
    ),
    "a tool forced": ("tool_choice", "added", lambda b: replace(b, "tool_choice", {"type": "any"})),
}


def _move_marker(body):
    del message(body, 2)["cache_control"]
    body["messages"][-1]["content"][0] = marked(message(body, -1))


def _join(body):
    message_3 = body["messages"][2]["content"]
    message_3.append(text("And this."))
    del body["messages"][3:]


HARMLESS = {
    "more messages": lambda b: None,
    "a marker moved": _move_marker,
    "another limit": lambda b: replace(b, "max_tokens", 4096),
    "metadata": lambda b: replace(b, "metadata", {"user_id": "u"}),
    "top-level keys in another order": lambda b: backwards(b),
    "plain text for a block": lambda b: replace(b["messages"][0], "content", "Mend b.py. "),
    "a text joined to the last result": _join,
    "a plain system prompt": lambda b: replace(b, "system", "Be careful."),
    "keys of a block in another order": lambda b: replace(
        b["messages"][0]["content"], 0, backwards(message(b, 0))
    ),
}


def changed(change):
    body = grown(base())
    result = change(body)
    return result if isinstance(result, dict) and "model" in result else body


def encoded(body, **options):
    return json.dumps(body, **options).encode()


def between(before, after):
    return compare(parse(encoded(before), KEY), parse(encoded(after), KEY))


@pytest.mark.parametrize("name", BROKEN)
def test_a_break_is_found_at_its_place(name):
    location, kind, change = BROKEN[name]
    finding = between(base(), changed(change))
    assert finding.transition in BREAKS
    assert (finding.location, finding.kind) == (location, kind)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_provider_renders_alike_is_no_break(name):
    finding = between(base(), changed(HARMLESS[name]))
    assert finding.transition == "prefix_extended"
    assert finding.marker_only == (name == "a marker moved")


@pytest.mark.skipif(not PEERS.is_dir(), reason="the peers' matrix (shared/diagpeers) is not here")
def test_on_the_peers_own_pairs_all_breaks_and_no_false_alarm(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    monkeypatch.delitem(sys.modules, "faults", raising=False)
    from faults import CASES

    wrong = []
    for name, broken, where, before, after in CASES:
        finding = between(before, after)
        root = finding.location.split(".")[0]
        if where == "envelope":
            right = finding.transition == "envelope_changed"
            right = right and root.split("[")[0] not in ("tools", "system")
        else:
            right = where == "-" or where in (root, root.split("[")[0])
        if (finding.transition in BREAKS) != broken or not right:
            wrong.append((name, finding))
    assert len(CASES) == 26
    assert not wrong


def test_the_bytes_that_survive_end_where_the_first_difference_stands():
    before, after = base(), changed(BROKEN["an old result edited"][2])
    kept = sum(len(encoded(part)) for part in (*after["tools"], *after["system"]))
    kept += len(encoded(after["messages"][0]))
    kept += sum(len(encoded(block)) for block in after["messages"][1]["content"])
    assert between(before, after).surviving_bytes == kept
    assert between(before, changed(BROKEN["another model"][2])).surviving_bytes == 0


def test_the_same_request_again_is_a_retry_and_a_shorter_one_a_rewrite():
    assert between(base(), base()).transition == "identical_retry"
    shorter = between(grown(base()), base())
    assert (shorter.transition, shorter.kind) == ("history_rewritten", "removed")
    assert shorter.location == "messages[3].content[0]"


@pytest.mark.parametrize(
    ("options", "detail"),
    [({"ensure_ascii": False}, "escapes"), ({"separators": (",", ":")}, "white space")],
)
def test_another_notation_of_the_same_request_is_said_and_is_no_break(options, detail):
    body = grown(base())
    finding = compare(parse(encoded(body), KEY), parse(encoded(body, **options), KEY))
    assert finding.transition == "identical_retry"
    assert (finding.kind, finding.detail) == (SAME_MEANING, detail)


def test_the_form_of_a_number_in_an_old_call_is_a_break_of_its_own_kind():
    before = encoded(base())
    after = before.replace(b'"limit": 1.5', b'"limit": 1.50')
    finding = compare(parse(before, KEY), parse(after, KEY))
    assert finding.transition == "history_rewritten"
    assert (finding.kind, finding.detail) == (SAME_MEANING, "form of a number")


def test_a_parameter_of_a_marker_s_name_is_a_parameter():
    before, after = base(), base()
    after["tools"][0]["input_schema"]["properties"]["cache_control"] = {"type": "string"}
    assert between(before, after).location.endswith("properties.cache_control")
    after = base()
    message(after, 1, 1)["input"]["cache_control"] = {"type": "ephemeral"}
    assert between(before, after).location == "messages[1].content[1].input"


def test_names_of_arguments_are_not_repeated():
    before, after = base(), base()
    message(before, 1, 1)["input"] = {"a": [{"secret-name": 1}]}
    message(after, 1, 1)["input"] = {"a": [{"secret-name": 2}]}
    assert "secret" not in str(between(before, after))


def chat(*messages, **fields):
    function = {"name": "look", "parameters": schema()}
    tools = [{"type": "function", "function": function}]
    return {"model": "gpt-6", "tools": tools, "messages": list(messages), **fields}


def test_a_chat_completion_is_compared_by_its_messages():
    said = [{"role": "system", "content": "Be careful."}, {"role": "user", "content": "Hello"}]
    assert between(chat(*said), chat(*said, {"role": "assistant", "content": "Hi"})).transition == (
        "prefix_extended"
    )
    finding = between(chat(*said), chat({"role": "system", "content": "It is 10:01."}, said[1]))
    assert finding.transition == "history_rewritten"
    assert finding.location == "messages[0].content[0].text"
    # Two messages of one role stay two here: a chat template renders each with its own frame.
    two = [{"role": "user", "content": [text("a")]}, {"role": "user", "content": [text("b")]}]
    one = [{"role": "user", "content": [text("a"), text("b")]}]
    assert between(chat(*two), chat(*one)).transition == "history_rewritten"
    moved = chat(*said)
    moved["tools"][0]["function"]["parameters"] = backwards(schema())
    assert between(chat(*said), moved).location == "tools[0].function.parameters"


def test_a_response_is_compared_by_its_items_and_instructions():
    items = [{"role": "user", "content": "Hello"}, {"type": "reasoning", "id": "r", "summary": []}]
    first = {"model": "gpt-6", "instructions": "Be careful.", "input": items}
    more = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    assert between(first, {**first, "input": [*items, more]}).transition == "prefix_extended"
    assert between(first, {**first, "input": items[1:]}).location == "input[0]"
    assert between(first, {**first, "instructions": "Be bold."}).location == "instructions"
    listed = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, items[1]]
    assert between(first, {**first, "input": listed}).transition == "identical_retry"


def test_another_field_for_the_conversation_is_another_shape():
    said = [{"role": "user", "content": "Hello"}]
    finding = between(chat(*said), {"model": "gpt-6", "input": said})
    assert finding.transition == "payload_shape_changed"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.booleans(), st.booleans())
def test_notation_never_changes_what_is_rendered(value, ascii_only, tight):
    body = {"messages": [{"role": "user", "content": [{"type": "x", "input": value}]}]}
    separators = (",", ":") if tight else (", ", " : ")
    other = encoded(body, ensure_ascii=ascii_only, separators=separators)
    one, two = parse(encoded(body), KEY), parse(other, KEY)
    assert [item.rendered for item in one.messages] == [item.rendered for item in two.messages]


@settings(max_examples=80, deadline=None)
@given(JSON, JSON)
def test_two_values_are_rendered_alike_only_when_they_are_written_alike(one, two):
    def rendered(value):
        body = {"messages": [{"role": "user", "content": [{"type": "x", "input": value}]}]}
        return parse(encoded(body), KEY).messages[0].rendered

    assert (rendered(one) == rendered(two)) == (json.dumps(one) == json.dumps(two))


@pytest.mark.parametrize(
    "bad", [b"", b"[]", b"{", b'{"a":}', b'{"a" 1}', b"{} x", b'{"a":[1 2]}', b"[" * 100_000]
)
def test_what_is_no_request_is_an_error_and_not_a_crash(bad):
    with pytest.raises(ValueError, match=r".+"):
        parse(bad, KEY)


def rows(*bodies):
    return list(compare_lines(encoded(body) + b"\n" for body in bodies))


def test_conversations_that_take_turns_are_told_apart():
    agent, helper = base(), chat({"role": "user", "content": "Summarise."})
    after = chat({"role": "user", "content": "Summarise."}, {"role": "assistant", "content": "Ok"})
    found = rows(agent, helper, grown(agent), after)
    assert [row.conversation for row in found] == [0, 1, 0, 1]
    assert [row.finding.transition for row in found] == ["first_request"] * 2 + [
        "prefix_extended"
    ] * 2


def test_a_log_may_name_its_conversations_and_hold_bodies_as_text():
    lines = [
        {"session": "a", "body": json.dumps(base())},
        {"session": "b", "request": base()},
        {"session": "a", "body": json.dumps(changed(BROKEN["a tool more"][2]))},
        {"note": "no request"},
    ]
    *found, skipped = compare_lines(encoded(line) for line in lines)
    assert [row.conversation for row in found] == [0, 1, 0]
    assert found[2].finding.location == "tools[3]"
    assert not isinstance(skipped, Row)
    assert skipped.line == 4


def test_the_command_prints_a_row_a_request(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(
        encoded(base()) + b"\n" + encoded(changed(BROKEN["a tool more"][2])) + b"\nno\n"
    )
    done = CliRunner().invoke(cli, ["cache", "audit", "--requests", str(log), "--json"])
    assert done.exit_code == 0
    report = json.loads(done.output)
    assert (report["requests"], report["breaks"], report["skipped_lines"]) == (2, 1, [3])
    row = report["rows"][1]
    assert (row["index"], row["transition"], row["location"]) == (1, "envelope_changed", "tools[3]")
    assert {"kind", "surviving_bytes"} <= set(row)
    done = CliRunner().invoke(cli, ["cache", "audit", "--requests", str(log)])
    assert "2 requests in 1 conversations, 1 broke the prefix" in done.output


def test_nothing_that_was_said_comes_out(tmp_path):
    secret = "hunter2-is-the-password"
    body = json.loads(encoded(grown(base())).replace(b"b.py", secret.encode()))
    body["system"][0]["text"] = body["metadata"] = secret
    message(body, 1, 1)["input"][secret] = secret
    log = tmp_path / "log.jsonl"
    log.write_bytes(
        encoded({"session": "a", "request": base()})
        + b"\n"
        + encoded({"session": "a", "request": {**body, "system": base()["system"]}})
        + b"\n"
        + encoded({"session": "a", "request": body})
    )
    for options in ([], ["--json"]):
        done = CliRunner().invoke(cli, ["cache", "audit", "--requests", str(log), *options])
        assert done.exit_code == 0
        assert "history_rewritten" in done.output.replace("\n", "") or not options
        assert "hunter2" not in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--requests", "none.jsonl"], "none.jsonl"),
        (["--requests", "x", "session.jsonl"], "takes one file"),
        ([], "name a session"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_a_way_out(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["cache", "audit", *arguments])
    assert done.exit_code == 2
    assert says in done.output
