"""What the strict simulator refuses on Anthropic Messages, with the real status and words."""

import pytest

from unipi.sim import Say, Simulator, run_simulator
from unipi.sim.raw import MESSAGES, send

SCHEMA = {"type": "object"}
MARK = {"type": "ephemeral"}


def tool(name="read", **members):
    return {"name": name, "input_schema": SCHEMA} | members


def text(words, **members):
    return {"type": "text", "text": words} | members


def call(id_="t1", **members):
    return {"type": "tool_use", "id": id_, "name": "read", "input": {}} | members


def result(id_="t1", **members):
    return {"type": "tool_result", "tool_use_id": id_, "content": "r"} | members


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def body(*messages, **members):
    given = list(messages) or [user(text("q"))]
    return {"model": "claude-sonnet-5", "max_tokens": 2048, "messages": given} | members


@pytest.fixture(scope="module")
def ask():
    with run_simulator(Simulator([Say("ok")], repeat_last=True)) as url:
        yield lambda request, **headers: send(url, MESSAGES, request, headers=headers)


def without(name):
    return {key: value for key, value in body().items() if key != name}


Q, A = user(text("q")), assistant(text("a"))
MARKED = [text(f"b{i}", cache_control=MARK) for i in range(5)]

REFUSED = {
    "no model": (without("model"), "model: Field required"),
    "no max_tokens": (without("max_tokens"), "max_tokens: Field required"),
    "no messages": (without("messages"), "messages: Field required"),
    "negative max_tokens": (body(max_tokens=-1), "max_tokens: Input should be"),
    "unknown member": (body(foo=1), "foo: Extra inputs are not permitted"),
    "empty messages": (body() | {"messages": []}, "at least one message is required"),
    "unknown role": (body({"role": "tool", "content": "x"}), 'Unexpected role "tool"'),
    "system role": (body(Q, {"role": "system", "content": "x"}), 'Unexpected role "system"'),
    "assistant first": (body(A, Q), 'first message must use the "user" role'),
    "prefill": (body(Q, A), "does not support assistant message prefill"),
    "empty content": (body(user()), "must have non-empty content"),
    "empty text": (body(user(text(""))), "text content blocks must be non-empty"),
    "blank text": (body(user(text(" \n"))), "must contain non-whitespace text"),
    "unknown block": (body(user({"type": "input_text"})), "does not match any of the expected"),
    "extra block member": (body(user(text("a", id="1"))), "text.id: Extra inputs"),
    "extra message member": (body(Q | {"name": "n"}), "messages.0.name: Extra inputs"),
    "orphan result": (
        body(Q, A, user(result())),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1.",
    ),
    "result of an older turn": (
        body(Q, assistant(call()), user(result()), A, user(result())),
        "unexpected `tool_use_id`",
    ),
    "call without result": (
        body(Q, assistant(call()), Q),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1.",
    ),
    "one of two results missing": (
        body(Q, assistant(call("a"), call("b")), user(result("a"))),
        "immediately after: b.",
    ),
    "results in two messages": (
        body(Q, assistant(call("a"), call("b")), user(result("a")), user(result("b"))),
        "immediately after: b.",
    ),
    "text before the results": (
        body(Q, assistant(call()), user(text("x"), result())),
        "immediately after: t1.",
    ),
    "two results for one call": (
        body(Q, assistant(call()), user(result(), result())),
        "each tool_use must have a single result",
    ),
    "ids not unique": (
        body(Q, assistant(call()), user(result()), assistant(call()), user(result())),
        "`tool_use` ids must be unique",
    ),
    "call by the user": (body(user(call())), "can only be in `assistant` messages"),
    "result by the assistant": (body(Q, assistant(result()), Q), "can only be in `user` messages"),
    "bad call id": (
        body(Q, assistant(call("Write:6")), user(result("Write:6"))),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "input no object": (body(Q, assistant(call(input="{}")), Q), "should be a valid dictionary"),
    "duplicate tools": (body(tools=[tool(), tool()]), "tools: Tool names must be unique."),
    "long tool name": (
        body(tools=[tool("x" * 65)]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ),
    "dotted tool name": (body(tools=[tool("a.b")]), "tools.0.custom.name: String should match"),
    "tool without schema": (body(tools=[{"name": "a"}]), "input_schema: Field required"),
    "schema without type": (
        body(tools=[tool(input_schema={})]),
        "input_schema.type: Field required",
    ),
    "schema of a string": (
        body(tools=[tool(input_schema={"type": "string"})]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "tool choice without tools": (body(tool_choice={"type": "auto"}), "while providing tools"),
    "choice of an unknown tool": (
        body(tools=[tool()], tool_choice={"type": "tool", "name": "b"}),
        "Tool 'b' not found",
    ),
    "five markers": (
        body(user(*MARKED)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "four markers and the automatic one": (
        body(user(*MARKED[:4], text("end")), cache_control=MARK),
        "Found 5.",
    ),
    "marker on thinking": (
        body(
            Q,
            assistant(
                {"type": "thinking", "thinking": "t", "signature": "s", "cache_control": MARK},
                text("a"),
            ),
            Q,
        ),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "marker on empty text": (
        body(user(text("", cache_control=MARK))),
        "cache_control cannot be set for empty text blocks",
    ),
    "longer lifetime after a shorter": (
        body(user(text("a", cache_control=MARK), text("b", cache_control=MARK | {"ttl": "1h"}))),
        "a ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "unknown lifetime": (
        body(user(text("a", cache_control=MARK | {"ttl": "2h"}))),
        "ttl: Input should be '5m' or '1h'",
    ),
    "thinking without signature": (
        body(Q, assistant({"type": "thinking", "thinking": "t"}, text("a")), Q),
        "thinking.signature: Field required",
    ),
    "budget over max_tokens": (
        body(thinking={"type": "enabled", "budget_tokens": 2048}),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    ),
    "streaming prewarm": (body(max_tokens=0, stream=True), "cannot be used with `stream`"),
    "binding control without its beta": (
        body(thinking={"type": "adaptive", "block_binding": {}}),
        "thinking.block_binding: Extra inputs are not permitted",
    ),
    "system of images": (body(system=[{"type": "image"}]), "system.0.type: Input should be 'text'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(ask, name):
    request, words = REFUSED[name]
    response = ask(request)
    assert response.status == 400, response.body
    error = response.json()
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    assert words in error["error"]["message"]


ACCEPTED = {
    "a plain question": body(),
    "four markers": body(user(*MARKED[:4])),
    "the automatic marker where one already stands": body(user(*MARKED[:4]), cache_control=MARK),
    "consecutive user messages": body(Q, Q),
    "text after results": body(Q, assistant(call()), user(result(), text("and"))),
    "a user message after the results": body(Q, assistant(call()), user(result()), Q),
    "an empty result": body(Q, assistant(call()), user(result(content=[]))),
    "a failed result": body(Q, assistant(call()), user(result(is_error=True))),
    "tools and a choice": body(tools=[tool()], tool_choice={"type": "any"}),
    "a server tool": body(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(ask, name):
    response = ask(ACCEPTED[name])
    assert response.status == 200, response.body


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'{"model": NaN}', b'{"model": "\xff"}', rb'{"model": "\ud800"}'],
    ids=["empty", "cut", "array", "nan", "bad utf-8", "lone surrogate"],
)
def test_a_body_that_is_no_json_object_is_a_400(ask, raw):
    response = ask(raw)
    assert response.status == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_request_without_credentials_is_a_401(ask):
    response = ask(body(), authorization="")
    assert response.status == 401
    assert response.json()["error"]["type"] == "authentication_error"
    assert ask(body(), authorization="", **{"x-api-key": "k"}).status == 200


def test_the_api_version_is_asked_for(ask):
    assert "header is required" in ask(body(), **{"anthropic-version": ""}).body.decode()
    assert "not a valid version" in ask(body(), **{"anthropic-version": "1"}).body.decode()


def test_the_version_of_october_2026_refuses_sampling_settings(ask):
    assert ask(body(temperature=1)).status == 200
    newer = ask(body(temperature=1), **{"anthropic-version": "2026-10-21"})
    assert newer.status == 400
    assert "temperature" in newer.json()["error"]["message"]


def test_a_body_over_32_mb_is_a_413(ask):
    response = ask(b" " * (32 * 1024 * 1024 + 1))
    assert response.status == 413
    assert response.json()["error"]["type"] == "request_too_large"


def test_a_prompt_over_the_window_is_refused_in_the_real_words():
    long = user(text("x" * 4000))
    with run_simulator(Simulator([Say("y" * 400)], repeat_last=True, context_window=900)) as url:
        over = send(url, MESSAGES, body(long)).json()["error"]["message"]
        old = body(Q, model="claude-3-opus")
        both = send(url, MESSAGES, old).json()["error"]["message"]
        near = send(url, MESSAGES, body(user(text("x" * 3400)))).json()
    assert over == "prompt is too long: 1004 tokens > 900 maximum"
    assert both.startswith("input length and `max_tokens` exceed context limit: 4 + 2048 > 900")
    assert near["stop_reason"] == "model_context_window_exceeded"


def test_a_model_that_is_not_served_is_a_404():
    with run_simulator(Simulator([Say("ok")], models=["other"])) as url:
        response = send(url, MESSAGES, body())
    assert response.status == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_a_lenient_simulator_answers_what_the_strict_one_refuses():
    sim = Simulator([Say("ok")], repeat_last=True, strict=False)
    with run_simulator(sim) as url:
        for request, _ in REFUSED.values():
            assert send(url, MESSAGES, request, headers={"authorization": ""}).status == 200


SYSTEM = {"role": "system", "content": "be brief"}


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (None, [Q, SYSTEM]),
        (None, [Q, SYSTEM, A, Q]),
        (None, [Q, assistant(call()), user(result()), SYSTEM]),
        ("must directly follow a user message", [SYSTEM, Q]),
        ("must directly follow a user message", [Q, A, SYSTEM, Q]),
        ("must directly follow a user message", [Q, SYSTEM, Q]),
        ("must directly follow a user message", [Q, assistant(call()), SYSTEM, user(result())]),
        ("Input should be 'text'", [Q, SYSTEM | {"content": [{"type": "image"}]}]),
    ],
)
def test_system_messages_in_mid_conversation_are_taken_where_they_are_allowed(words, messages):
    sim = Simulator([Say("ok")], repeat_last=True, system_messages=True)
    with run_simulator(sim) as url:
        response = send(url, MESSAGES, body(*messages, model="claude-opus-5"))
        unsupported = send(url, MESSAGES, body(*messages, model="claude-sonnet-5"))
    assert response.status == (400 if words else 200), response.body
    assert (words or "") in response.body.decode()
    if messages[0] == Q:
        error = unsupported.json()["error"]["message"]
        assert error == "role 'system' is not supported on this model"


def test_a_marked_result_of_several_blocks_may_also_be_the_automatic_one(ask):
    last = result(content=[text("r")], cache_control=MARK)
    marked = user(*MARKED[:3])
    request = body(marked, assistant(call()), user(last), cache_control=MARK)
    assert ask(request).status == 200
