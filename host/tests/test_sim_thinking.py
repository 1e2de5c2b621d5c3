"""Preserved thinking: a signature binds a thinking block to all that stands before it."""

import copy

import pytest

from unipi.sim import Call, Say, Simulator, Think, run_simulator
from unipi.sim.raw import MESSAGES, send

BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
TOOLS = [{"name": "read", "description": "d", "input_schema": {"type": "object"}}]


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def text(words):
    return {"type": "text", "text": words}


class Session:
    """Three turns of thinking, one with a tool call, as a client would replay them."""

    def __init__(self, url):
        self.url = url
        self.body = {
            "model": "claude-opus-5-5",
            "max_tokens": 99,
            "system": [text("s")],
            "tools": copy.deepcopy(TOOLS),
            "messages": [user(text("one"))],
        }

    def send(self, headers=None, **members):
        return send(self.url, MESSAGES, self.body | members, headers=headers)

    def turn(self, *blocks):
        response = self.send()
        assert response.status == 200, response.body
        messages = self.body["messages"]
        messages.append({"role": "assistant", "content": response.json()["content"]})
        messages.append(user(*blocks))


@pytest.fixture
def session():
    answers = [
        [Think("a"), Call("read", '{"p": 1}', id="t1")],
        [Think("", redacted=True), Say("b")],
        [Think("c"), Say("d")],
    ]
    sim = Simulator([*answers, Say("end")], repeat_last=True, check_thinking=True)
    with run_simulator(sim) as url:
        made = Session(url)
        made.turn({"type": "tool_result", "tool_use_id": "t1", "content": "r"})
        made.turn(text("two"))
        made.turn(text("three"))
        made.recorded = sim.requests
        yield made


def thoughts(session):
    return [m["content"] for m in session.body["messages"] if m["role"] == "assistant"]


def test_an_appended_history_is_valid(session):
    assert session.send().status == 200


def test_moving_markers_and_changing_what_is_outside_the_prompt_is_valid(session):
    mark = {"cache_control": {"type": "ephemeral"}}
    session.body["system"][0].update(mark)
    session.body["messages"][0]["content"][0].update(mark)
    assert session.send(max_tokens=5, output_config={"effort": "low"}).status == 200


def test_dropping_thinking_from_the_front_is_valid(session):
    del thoughts(session)[0][0]
    assert session.send().status == 200
    del thoughts(session)[1][0]
    assert session.send().status == 200


def test_an_unreferenced_deferred_tool_is_valid(session):
    late = TOOLS[0] | {"name": "late", "defer_loading": True}
    session.body["tools"].append(late)
    assert session.send().status == 200


def change_system(body):
    body["system"][0]["text"] = "t"


def change_tool(body):
    body["tools"][0]["description"] = "e"


def add_tool(body):
    body["tools"].append(TOOLS[0] | {"name": "b"})


def edit_first_message(body):
    body["messages"][0]["content"][0]["text"] = "One"


def add_to_first_message(body):
    body["messages"][0]["content"].append(text("more"))


def edit_result(body):
    body["messages"][2]["content"][0]["content"] = "R"


def edit_answer(body):
    body["messages"][3]["content"][1]["text"] = "B"


@pytest.mark.parametrize(
    "change",
    [
        change_system,
        change_tool,
        add_tool,
        edit_first_message,
        add_to_first_message,
        edit_result,
        edit_answer,
    ],
)
def test_a_changed_prefix_is_refused_in_the_documented_words(session, change):
    change(session.body)
    response = session.send()
    assert response.status == 400
    message = response.json()["error"]["message"]
    assert "block is bound to a different conversation. Remove the block, or set" in message
    assert '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block"' in message
    assert message.startswith("messages.")


def test_a_gap_in_the_middle_is_refused(session):
    del thoughts(session)[1][0]
    response = session.send()
    assert response.status == 400
    assert response.json()["error"]["message"].startswith("messages.5.content.0: Invalid")


def test_a_changed_thought_and_a_foreign_signature_are_refused(session):
    for field, value in (("thinking", "A"), ("signature", "Zm9yZWlnbg=="), ("signature", "?")):
        kept = thoughts(session)[0][0][field]
        thoughts(session)[0][0][field] = value
        message = session.send().json()["error"]["message"]
        assert message == "messages.1.content.0: Invalid `signature` in `thinking` block"
        thoughts(session)[0][0][field] = kept
    assert session.send().status == 200


def test_blocks_can_be_dropped_instead_and_are_reported(session):
    del thoughts(session)[1][0]
    response = session.send(BETA, thinking=DROP)
    assert response.json()["input_transformations"] == [
        {
            "type": "thinking_dropped",
            "path": "messages.5.content.0",
            "reason": "prefix_binding_mismatch",
        }
    ]


def test_a_gap_invalidates_every_later_block(session):
    session.turn(text("four"))
    session.turn(text("five"))
    answers = thoughts(session)
    sign = [Think("e"), Say("f")]
    with run_simulator(Simulator([sign], check_thinking=True)) as url:
        session.body["messages"].extend(
            [
                {
                    "role": "assistant",
                    "content": send(url, MESSAGES, session.body).json()["content"],
                },
                user(text("six")),
            ]
        )
    del answers[1][0]
    dropped = session.send(BETA, thinking=DROP).json()["input_transformations"]
    assert [block["path"] for block in dropped] == ["messages.5.content.0", "messages.11.content.0"]


def test_thinking_of_another_model_is_left_out_and_costs_nothing(session):
    session.send()
    response = session.send(model="claude-fable-5-1")
    assert response.status == 200
    same, other = session.recorded[-2:]
    assert other.prompt_tokens < same.prompt_tokens


def test_a_session_goes_on_against_another_simulator(session):
    with run_simulator(Simulator([Say("x")], check_thinking=True)) as url:
        assert send(url, MESSAGES, session.body).status == 200


def test_without_the_check_nothing_is_refused(session):
    change_system(session.body)
    with run_simulator(Simulator([Say("x")])) as url:
        assert send(url, MESSAGES, session.body).status == 200
