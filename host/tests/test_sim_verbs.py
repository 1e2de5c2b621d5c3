"""The strict simulator takes what the real APIs take at the end of a conversation, and nothing else."""

import pytest

from unipi.session import message_from_fields, message_to_fields
from unipi.sim import Say, Simulator, run_simulator
from unipi.sim.raw import MESSAGES, send
from unipi_hookspecs import CustomMessage, ToolText, Verb

RESPONSES = "/v1/responses"
SCHEMA = {"type": "object"}
TOOL = {"name": "read", "input_schema": SCHEMA}
EFFORT = "mid-conversation-output-config-2026-07-01"
INLINE = "inline-tools-2026-09-15"
CHANGES = "mid-conversation-tool-changes-2026-07-01"
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}


def system(*blocks, **members):
    return {"role": "system", "content": list(blocks)} | members


def text(words="be brief"):
    return {"type": "text", "text": words}


def reference(kind, name="read"):
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def definition(name="new", **members):
    made = {"name": name, "input_schema": SCHEMA} | members
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": made}}


LOW = {"output_config": {"effort": "low"}}


@pytest.fixture(scope="module")
def ask():
    sim = Simulator([Say("ok")], repeat_last=True, system_messages=True)
    with run_simulator(sim) as url:

        def asking(*messages, model="claude-opus-5-5", tools=(TOOL,), betas=(EFFORT, INLINE)):
            body = {"model": model, "max_tokens": 9, "messages": list(messages)}
            if tools:
                body["tools"] = list(tools)
            headers = {"anthropic-beta": ",".join(betas)} if betas else {}
            return send(url, MESSAGES, body, headers=headers)

        yield asking


TAKEN = {
    "an instruction": [USER, system(text())],
    "an instruction and an answer": [USER, system(text()), ANSWER, USER],
    "effort alone, anywhere": [USER, ANSWER, system(**LOW), USER],
    "all at once": [USER, system(text(), reference("tool_removal"), definition(), **LOW)],
    "a tool defined before": [
        USER,
        system(definition()),
        ANSWER,
        USER,
        system(reference("tool_removal", "new")),
    ],
}


@pytest.mark.parametrize("messages", TAKEN.values(), ids=TAKEN)
def test_what_the_documents_allow_is_taken(ask, messages):
    assert ask(*messages).status == 200


REFUSED = {
    "first": ([system(text()), USER], "must directly follow a user message"),
    "before a user": ([USER, system(text()), USER], "must directly follow a user message"),
    "two in a row": ([USER, system(text()), system(text())], "must directly follow a user message"),
    "effort beside an instruction": (
        [USER, system(text()), system(**LOW), ANSWER, USER],
        "must directly follow a user message",
    ),
    "nothing in it": ([USER, system()], "non-empty content"),
    "effort that is none": (
        [USER, system(output_config={"effort": "huge"})],
        "output_config.effort: Input should be 'low'",
    ),
    "a tool that is unknown": (
        [USER, system(reference("tool_removal", "nope"))],
        "Tool 'nope' not found",
    ),
    "a definition that is none": ([USER, system(definition(input_schema=1))], "input_schema"),
    "turn-scoped": ([USER, system(text(), clear_at="never")], "clear_at: Extra inputs"),
    "a picture": ([USER, system({"type": "image", "source": {}})], "Input should be 'text'"),
}


@pytest.mark.parametrize(("messages", "words"), REFUSED.values(), ids=REFUSED)
def test_what_they_do_not_is_refused(ask, messages, words):
    answer = ask(*messages)
    assert (answer.status, words in answer.json()["error"]["message"]) == (400, True), answer.body


@pytest.mark.parametrize(
    ("message", "betas", "words"),
    [
        (system(**LOW), (INLINE,), "output_config: Extra inputs are not permitted"),
        (system(definition()), (EFFORT,), "type: Input should be 'text'"),
        (system(definition()), (CHANGES,), "tool.type: Input should be 'tool_reference'"),
    ],
    ids=["effort", "tools", "definition"],
)
def test_each_needs_its_beta_header(ask, message, betas, words):
    answer = ask(USER, message, betas=betas)
    assert (answer.status, words in answer.json()["error"]["message"]) == (400, True), answer.body


def test_a_reference_needs_the_older_beta_only(ask):
    assert ask(USER, system(reference("tool_removal")), betas=(CHANGES,)).status == 200


def test_models_that_lack_a_verb_refuse_it(ask):
    assert ask(USER, system(text()), model="claude-sonnet-5").status == 400
    assert ask(USER, system(**LOW), model="claude-opus-4-8").status == 400


def test_a_tool_needs_one_that_was_declared_in_the_head(ask):
    assert ask(USER, system(definition()), tools=()).status == 400


def item(**members):
    tool = {"type": "function", "name": "new", "parameters": SCHEMA}
    return {"type": "additional_tools", "role": "developer", "tools": [tool]} | members


@pytest.mark.parametrize(
    ("added", "model", "status"),
    [
        (item(), "gpt-6.1-sol", 200),
        (item(), "gpt-4o", 400),
        (item(role="user"), "gpt-6.1-sol", 400),
        (item(tools=None), "gpt-6.1-sol", 400),
        (item(tools=[{"type": "function", "name": "read"}]), "gpt-6.1-sol", 400),
    ],
    ids=["taken", "old model", "user", "no tools", "a name twice"],
)
def test_additional_tools_are_an_item_of_the_developer_s(added, model, status):
    tools = [{"type": "function", "name": "read", "parameters": SCHEMA}]
    given = [{"type": "message", "role": "user", "content": "q"}, added]
    with run_simulator(Simulator([Say("ok")], profile="openai_56")) as url:
        answer = send(url, RESPONSES, {"model": model, "input": given, "tools": tools})
    assert answer.status == status, answer.body


def test_a_message_s_verb_goes_through_the_file_and_back():
    verb = Verb(True, "low", (ToolText("a", "A.", '{"type":"object"}'),), ("b",), ("c",))
    for message in (CustomMessage("x", "text", verb=verb), CustomMessage("x", "text")):
        assert message_from_fields(message_to_fields(message)) == message


@pytest.mark.parametrize(
    "broken", [3, {}, {"effort": 1}, {"define": [{"name": "a"}], "offer": "b"}, {"system": "yes"}]
)
def test_a_broken_verb_reads_as_none(broken):
    fields = message_to_fields(CustomMessage("x", "text")) | {"verb": broken}
    assert message_from_fields(fields).verb is None
