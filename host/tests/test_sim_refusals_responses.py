"""What the strict simulator refuses on the Responses API, with the real status and words."""

import re

import orjson
import pytest

from unipi.sim import Answer, Call, Say, Simulator, Think, run_simulator
from unipi.sim.raw import RESPONSES, send

Q = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
TOOL = {"type": "function", "name": "read", "parameters": {"type": "object"}}


def call(call_id="c1", **members):
    base = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
    return base | members


def output(call_id="c1", **members):
    return {"type": "function_call_output", "call_id": call_id, "output": "r"} | members


def body(*items, **members):
    return {"model": "m", "store": False, "input": list(items) or [Q]} | members


@pytest.fixture(scope="module")
def ask():
    sim = Simulator([Say("ok")], repeat_last=True, profile="openai_legacy")
    with run_simulator(sim) as url:
        yield lambda request, **headers: send(url, RESPONSES, request, headers=headers)


MARKED = [{"type": "input_text", "text": "q", "prompt_cache_breakpoint": {"mode": "explicit"}}]

REFUSED = {
    "no model": ({"input": "q"}, "model", "Missing required parameter: 'model'."),
    "no input": ({"model": "m"}, "input", "Missing required parameter: 'input'."),
    "empty input": ({"model": "m", "input": []}, "input", "empty array"),
    "input of a number": ({"model": "m", "input": 3}, "input", "expected one of"),
    "unknown member": (body(foo=1), "foo", "Unknown parameter: 'foo'."),
    "messages of the other API": (body(messages=[Q]), "messages", "Unknown parameter"),
    "a stored response": (
        body(previous_response_id="resp_1"),
        "previous_response_id",
        "Previous response with id 'resp_1' not found.",
    ),
    "too little output": (body(max_output_tokens=15), "max_output_tokens", "value >= 16"),
    "unknown item": (body({"type": "item"}), "input[0].type", "Supported values"),
    "unknown role": (body({**Q, "role": "bot"}), "input[0].role", "Supported values"),
    "the user's part in an answer": (
        body({**SAID, "content": Q["content"]}),
        "input[0].content[0].type",
        "'output_text', 'refusal'",
    ),
    "unknown phase": (body({**SAID, "phase": "x"}), "input[0].phase", "'final_answer'"),
    "unknown status": (body(call(status="done"), output()), "input[0].status", "'completed'"),
    "an id of another kind": (body({**SAID, "id": "fc_1"}), "input[0].id", "begins with 'msg'"),
    "a call with a message's id": (
        body(call(id="msg_1"), output()),
        "input[0].id",
        "begins with 'fc'",
    ),
    "one id twice": (body(Q, SAID, Q, SAID), "input", "Duplicate item found with id msg_1"),
    "reasoning without a follower": (
        body(Q, THOUGHT, Q),
        "input",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    "reasoning at the end": (body(Q, THOUGHT), "input", "without its required following item"),
    "reasoning without an id": (
        body({k: v for k, v in THOUGHT.items() if k != "id"}, SAID),
        "input[0].id",
        "Missing required parameter",
    ),
    "a call without an output": (body(Q, call()), "input", "No tool output found"),
    "an output without a call": (
        body(Q, output()),
        "input",
        "No tool call found for function call output with call_id c1.",
    ),
    "an output before its call": (body(Q, output(), call()), "input", "No tool call found"),
    "two outputs": (body(Q, call(), output(), output()), "input", "No tool call found"),
    "long call id": (body(call("x" * 65), output("x" * 65)), None, "maximum length 64"),
    "arguments no string": (body(call(arguments={}), output()), None, "expected a string"),
    "dotted tool name": (body(tools=[{**TOOL, "name": "a.b"}]), "tools[0].name", "match"),
    "duplicate tools": (body(tools=[TOOL, TOOL]), "tools[1]", "used twice"),
    "the other API's tool": (
        body(tools=[{"type": "function", "function": TOOL}]),
        "tools[0].name",
        "Missing required parameter",
    ),
    "schema of a string": (
        body(tools=[{**TOOL, "parameters": {"type": "string"}}]),
        "tools[0].parameters",
        "Invalid schema for function 'read'",
    ),
    "cache options on an old model": (
        body(prompt_cache_options={"mode": "implicit"}),
        "prompt_cache_options",
        "not supported with this model",
    ),
    "breakpoint on an old model": (
        body({**Q, "content": MARKED}),
        "input[0].content[0].prompt_cache_breakpoint",
        "Unknown parameter",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(ask, name):
    request, param, words = REFUSED[name]
    response = ask(request)
    assert response.status == 400, response.body
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert words in error["message"]
    assert param is None or error["param"] == param


ACCEPTED = {
    "a text": {"model": "m", "input": "q"},
    "a question": body(),
    "developer and system": body({**Q, "role": "developer"}, {**Q, "role": "system"}, Q),
    "a message without its type": body({"role": "user", "content": "q"}),
    "reasoning, a text and calls": body(
        Q, THOUGHT, SAID, call("a"), call("b"), output("b"), output("a"), Q
    ),
    "one call id in two rounds": body(Q, call(), output(), call(), output()),
    "tools": body(tools=[TOOL], tool_choice="auto"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(ask, name):
    response = ask(ACCEPTED[name])
    assert response.status == 200, response.body


def test_reasoning_whose_content_was_not_kept_is_not_found(ask):
    bare = {k: v for k, v in THOUGHT.items() if k != "encrypted_content"}
    response = ask(body(Q, bare, SAID))
    assert response.status == 404
    assert (
        "Items are not persisted when `store` is set to false"
        in response.json()["error"]["message"]
    )


def test_a_prompt_over_the_window_is_told_in_a_stream_that_began_well():
    request = body({**Q, "content": "x" * 4000})
    with run_simulator(Simulator([Say("ok")] * 2, context_window=900)) as url:
        whole = send(url, RESPONSES, request)
        streamed = send(url, RESPONSES, request | {"stream": True})
    assert (whole.status, streamed.status) == (400, 200)
    assert whole.json()["error"]["code"] == "context_length_exceeded"
    *begun, event = (orjson.loads(part) for part in re.findall(rb"data: (.*)", streamed.body))
    assert [e["type"] for e in begun] == ["response.created", "response.in_progress"]
    assert (event["type"], event["code"]) == ("error", "context_length_exceeded")


def test_ids_and_status_of_items_are_not_part_of_the_prompt():
    long = {**SAID, "content": [{"type": "output_text", "text": "a" * 6000, "annotations": []}]}
    other = {**long, "id": "msg_2", "status": "incomplete"}
    with run_simulator(Simulator([Say("ok")] * 2, profile="openai_legacy")) as url:
        send(url, RESPONSES, body(Q, long, Q))
        usage = send(url, RESPONSES, body(Q, other, Q)).json()["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] > 1_024


def test_an_answer_that_is_replayed_is_part_of_the_prompt_with_its_reasoning():
    script = [Answer((Think("w" * 3000), Say("a" * 3000), Call("read", {"path": "x"}))), Say("ok")]
    with run_simulator(Simulator([*script, Say("ok")], profile="openai_legacy")) as url:
        items = send(url, RESPONSES, body(Q)).json()["output"]
        asked = [Q, *items, output(items[-1]["call_id"])]
        prompt = send(url, RESPONSES, body(*asked)).json()["usage"]["input_tokens"]
        usage = send(url, RESPONSES, body(*asked, Q)).json()["usage"]
    assert prompt > 1_500
    assert prompt - 128 < usage["input_tokens_details"]["cached_tokens"] <= prompt
