"""What the strict simulator refuses on Chat Completions, with the real status and words."""

import pytest

from unipi.sim import Say, Simulator, run_simulator
from unipi.sim.raw import CHAT, send

Q = {"role": "user", "content": "q"}
A = {"role": "assistant", "content": "a"}


def call(id_="c1", arguments="{}", name="read"):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(id_="c1"):
    return {"role": "tool", "tool_call_id": id_, "content": "r"}


def tool(name="read", parameters=None):
    function = {"name": name, "parameters": parameters or {"type": "object"}}
    return {"type": "function", "function": function}


def body(*messages, **members):
    return {"model": "m", "messages": list(messages) or [Q]} | members


@pytest.fixture(scope="module")
def ask():
    sim = Simulator([Say("ok")], repeat_last=True, profile="openai_legacy")
    with run_simulator(sim) as url:
        yield lambda request, **headers: send(url, CHAT, request, headers=headers)


EXPLICIT = [{"type": "text", "text": "q", "prompt_cache_breakpoint": {"mode": "explicit"}}]

REFUSED = {
    "no model": ({"messages": [Q]}, None, "you must provide a model parameter"),
    "no messages": ({"model": "m"}, "messages", "Missing required parameter: 'messages'."),
    "empty messages": ({"model": "m", "messages": []}, "messages", "empty array"),
    "unknown member": (body(foo=1), None, "Unrecognized request argument supplied: foo"),
    "unknown role": (body({"role": "bot", "content": "x"}), "messages[0].role", "Supported values"),
    "orphan tool message": (
        body(Q, result()),
        "messages.[1].role",
        "must be a response to a preceeding message with 'tool_calls'",
    ),
    "tool message after another turn": (
        body(Q, asked(call()), result(), A, result()),
        "messages.[4].role",
        "must be a response",
    ),
    "call without tool message": (
        body(Q, asked(call("a"), call("b")), result("a"), Q),
        "messages.[1].role",
        "did not have response messages: b",
    ),
    "call at the end": (body(Q, asked(call())), "messages.[1].role", "response messages: c1"),
    "two calls of one id": (body(Q, asked(call(), call()), result()), None, "Duplicate value"),
    "two tool messages of one id": (body(Q, asked(call()), result(), result()), None, "must be"),
    "no id": (body(Q, asked(call("")), result()), None, "tool_calls[0].id"),
    "long id": (body(Q, asked(call("x" * 65)), result()), None, "maximum length 64"),
    "arguments no string": (
        body(Q, asked(call(arguments={})), result()),
        None,
        "expected a string",
    ),
    "arguments no JSON": (body(Q, asked(call(arguments='{"a"')), result()), None, "as JSON"),
    "arguments no object": (body(Q, asked(call(arguments="[]")), result()), None, "a JSON object"),
    "empty calls": (body(Q, asked()), "messages[1].tool_calls", "empty array"),
    "null content": (
        body(Q, {"role": "assistant", "content": None}),
        "messages[1].content",
        "expected a string, got null",
    ),
    "null user content": (body({"role": "user"}), "messages[0].content", "got null"),
    "unknown part": (
        body({"role": "user", "content": [{"type": "image"}]}),
        "messages[0].content[0].type",
        "Supported values",
    ),
    "duplicate tools": (body(tools=[tool(), tool()]), "tools[1]", "used twice"),
    "no tools": (body(tools=[]), "tools", "empty array"),
    "long tool name": (body(tools=[tool("x" * 65)]), "tools[0].function.name", "maximum length 64"),
    "dotted tool name": (body(tools=[tool("a.b")]), "tools[0].function.name", "match pattern"),
    "schema of a string": (
        body(tools=[tool(parameters={"type": "string"})]),
        "tools[0].function.parameters",
        "Invalid schema for function 'read'",
    ),
    "tool choice without tools": (body(tool_choice="auto"), "tool_choice", "only allowed when"),
    "stream options without stream": (
        body(stream_options={"include_usage": True}),
        "stream_options",
        "only allowed when 'stream' is enabled",
    ),
    "cache options on an old model": (
        body(prompt_cache_options={"mode": "implicit"}),
        "prompt_cache_options",
        "not supported with this model",
    ),
    "breakpoint on an old model": (
        body({"role": "user", "content": EXPLICIT}),
        "messages[0].content[0].prompt_cache_breakpoint",
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
    "a plain question": body(),
    "system and developer": body(
        {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, Q
    ),
    "an answered round": body(Q, asked(call("a"), call("b")), result("b"), result("a"), Q),
    "one id in two rounds": body(Q, asked(call()), result(), asked(call()), result()),
    "an empty answer": body(Q, {"role": "assistant", "content": ""}, Q),
    "tools": body(tools=[tool()], tool_choice="auto", parallel_tool_calls=True),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(ask, name):
    response = ask(ACCEPTED[name])
    assert response.status == 200, response.body


@pytest.mark.parametrize("raw", [b"{", b"[]", rb'{"model": "\udfff"}', b'{"model": "\xc3"}'])
def test_a_body_that_is_no_json_object_is_a_400(ask, raw):
    assert ask(raw).status == 400


def test_a_request_without_credentials_is_a_401(ask):
    response = ask(body(), authorization="")
    assert response.status == 401
    assert response.json()["error"]["code"] == "invalid_api_key"


def test_a_prompt_over_the_window_is_refused_in_the_real_words():
    with run_simulator(Simulator([Say("ok")], context_window=900)) as url:
        error = send(url, CHAT, body({"role": "user", "content": "x" * 4000})).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith(
        "This model's maximum context length is 900 tokens. However, your messages resulted in 1003"
    )


def test_stored_arguments_are_left_alone_when_asked():
    sim = Simulator([Say("ok")], check_arguments=False)
    with run_simulator(sim) as url:
        assert send(url, CHAT, body(Q, asked(call(arguments="{")), result())).status == 200


def test_newer_models_check_the_values_of_cache_options():
    sim = Simulator([Say("ok")], repeat_last=True, profile="openai_56")
    with run_simulator(sim) as url:
        good = body(prompt_cache_options={"mode": "explicit", "ttl": "30m"})
        assert send(url, CHAT, good).status == 200
        assert send(url, CHAT, body(prompt_cache_options={"ttl": "12h"})).status == 400
        assert send(url, CHAT, body(prompt_cache_options={"prewarm": True})).status == 400
        marked = {"role": "assistant", "content": EXPLICIT}
        assert send(url, CHAT, body(Q, marked, Q)).status == 400


def test_compatible_servers_take_members_that_openai_does_not_know():
    with run_simulator(Simulator([Say("ok")], profile="exact")) as url:
        assert send(url, CHAT, body(cache_prompt=True, id_slot=0)).status == 200


def test_a_lenient_simulator_answers_what_the_strict_one_refuses():
    sim = Simulator([Say("ok")], repeat_last=True, strict=False)
    with run_simulator(sim) as url:
        for request, _, _ in REFUSED.values():
            assert send(url, CHAT, request, headers={"authorization": ""}).status == 200
