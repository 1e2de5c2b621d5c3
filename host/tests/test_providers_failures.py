"""The failure table, row by row, through a whole agent against the simulator.

A row is what the provider does, what it means, and what helps. Retried requests must be the same
bytes under the same id; whatever happened, the session goes on and the prefix holds.
"""

from __future__ import annotations

import contextlib
import re
from typing import get_args

import anyio
import attrs
import pytest

from unipi.agent import AgentOptions, RetryPolicy, RunFailedError, open_agent
from unipi.providers import ProviderError
from unipi.providers.errors import _BY_STATUS, _BY_TYPE, RETRYABLE, Action, ErrorKind
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import host, model
from unipi_hookspecs import AssistantMessage, ProviderRequestSealedEvent, ToolCall

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
FAST = AgentOptions(retry=RetryPolicy(attempts=3, base=0.001, cap=0.002), wants_bodies=True)
LONG = Answer([Say("I shall now"), Call("read", {"path": "a" * 60})], chunk=3)


@attrs.frozen
class Row:
    """One row of the failure table."""

    kind: ErrorKind
    action: Action
    fault: Fault
    api: str | None = None  # None: both


def status(
    number: int, kind: ErrorKind, action: Action, text: str = "words", **more: object
) -> Row:
    api = more.pop("api", None)
    return Row(kind, action, Fault(status=number, message=text, **more), api)


def event(kind: ErrorKind, action: Action, name: str, text: str = "words", after: int = 3) -> Row:
    return Row(kind, action, Fault(stream_error=(name, text), after=after, answer=LONG))


WINDOW = "This model's maximum context length is 8192 tokens. However, your messages"
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block."
ROWS = (
    # Statuses.
    status(400, "invalid", "fail"),
    status(401, "auth", "authenticate"),
    status(402, "quota", "fail"),
    status(403, "permission", "fail"),
    status(404, "not_found", "fail"),
    status(408, "timeout", "retry"),
    status(409, "server", "retry"),
    status(413, "overflow", "compact"),
    status(422, "invalid", "fail"),
    status(429, "rate_limit", "retry"),
    status(429, "rate_limit", "retry", headers={"retry-after-ms": "2"}),
    status(500, "server", "retry"),
    status(502, "server", "retry"),
    status(503, "server", "retry"),
    status(503, "overloaded", "retry", "Slow Down"),
    status(504, "timeout", "retry"),
    status(529, "overloaded", "retry"),
    status(307, "invalid", "fail"),
    status(418, "invalid", "fail"),
    # Texts and codes that say more than the status.
    status(400, "bound_thinking", "unbind", BOUND),
    status(400, "overflow", "compact", "prompt is too long: 207791 tokens > 200000 maximum"),
    status(400, "overflow", "compact", WINDOW),
    status(400, "overflow", "compact", code="context_length_exceeded", api=APIS[1]),
    status(500, "overflow", "compact", WINDOW),
    status(429, "quota", "fail", code="insufficient_quota", api=APIS[1]),
    status(400, "overflow", "compact", code="context_length_exceeded", api=APIS[2]),
    status(429, "quota", "fail", code="insufficient_quota", api=APIS[2]),
    status(429, "quota", "fail", "You exceeded your current quota, please check your plan"),
    status(500, "server", "fail", headers={"x-should-retry": "false"}),
    # Errors inside a stream that began well.
    event("overloaded", "retry", "overloaded_error"),
    event("server", "retry", "api_error"),
    event("server", "retry", "something_new"),
    event("rate_limit", "retry", "rate_limit_error"),
    event("timeout", "retry", "timeout_error"),
    event("overflow", "compact", "invalid_request_error", WINDOW, after=0),
    event("invalid", "fail", "invalid_request_error"),
    event("auth", "authenticate", "authentication_error", after=0),
    event("quota", "fail", "billing_error", after=0),
    event("permission", "fail", "permission_error", after=0),
    event("not_found", "fail", "not_found_error", after=0),
    # Connections.
    Row("stream", "retry", Fault(cut=True, after=4, answer=LONG)),
    Row("stream", "retry", Fault(cut=True, after=0, answer=LONG)),
    Row("network", "retry", Fault(drop=True)),
    Row("timeout", "retry", Fault(stall=True, after=2, answer=LONG)),
)
CASES = [(row, api) for row in ROWS for api in APIS if row.api in {None, api}]


def name(case: object) -> str:
    if not isinstance(case, Row):
        return str(case)
    fault = case.fault
    how = fault.status or (fault.stream_error or [""])[0] or ("cut", "drop")[fault.drop]
    return f"{how}-{case.kind}-{case.action}"


def ids(it) -> list[str | None]:
    return [request.headers.get("x-client-request-id") for request in it.sim.requests]


def attempts(it) -> list[int]:
    return [e.info.attempt for e in it.events if isinstance(e, ProviderRequestSealedEvent)]


def stored(it) -> list[AssistantMessage]:
    branch = it.agent.session.branch()
    return [e.message for e in branch if isinstance(e.message, AssistantMessage)]


@contextlib.asynccontextmanager
async def quick(tmp_path, script, api):
    async with lab(tmp_path, script, api=api, options=FAST) as it:
        it.agent.transport.idle_timeout = 0.1
        yield it


@pytest.mark.parametrize(("row", "api"), [c for c in CASES if c[0].action == "retry"], ids=name)
async def test_what_passes_is_asked_again_with_the_same_bytes_and_leaves_no_trace(
    tmp_path, row, api
):
    async with quick(tmp_path, [Say("one"), row.fault, Say("two"), Say("three")], api) as it:
        for prompt in ("a", "b", "c"):
            await it.agent.prompt(prompt)
        requests = it.sim.requests
        assert requests[1].body == requests[2].body
        assert ids(it)[1] == ids(it)[2] is not None
        assert len(set(ids(it))) == 3
        # A kept connection that is closed as it is taken up is replaced below the attempts, once.
        assert attempts(it) == ([0, 0, 0] if row.fault.drop else [0, 0, 1, 0])
        assert [m.stop_reason for m in stored(it)] == ["stop"] * 3
        assert prefix_breaks(requests) == [2] or prefix_breaks(requests) == []
        assert requests[3].body.startswith(requests[2].body[:-2] + b",")


@pytest.mark.parametrize(("row", "api"), [c for c in CASES if c[0].action != "retry"], ids=name)
async def test_what_stays_ends_the_run_once_says_what_helps_and_the_session_goes_on(
    tmp_path, row, api
):
    async with quick(tmp_path, [Say("one"), row.fault, Say("two")], api) as it:
        await it.agent.prompt("a")
        with pytest.raises(RunFailedError) as caught:
            await it.agent.prompt("b")
        error = caught.value.__cause__
        assert isinstance(error, ProviderError)
        assert (error.kind, error.action) == (row.kind, row.action)
        assert len(it.sim.requests) == 2
        assert stored(it)[-1].stop_reason == "error"
        assert not any(isinstance(part, ToolCall) for m in stored(it) for part in m.content)
        await it.agent.prompt("c")
        first, _, last = it.sim.requests
        assert last.status == 200
        assert last.body.startswith(first.body[:-2] + b",")


@pytest.mark.parametrize(("row", "api"), [c for c in CASES if c[0].action == "retry"], ids=name)
async def test_what_never_passes_ends_the_run_after_its_attempts_with_what_had_come(
    tmp_path, row, api
):
    async with quick(tmp_path, [row.fault] * 3 + [Say("fine")], api) as it:
        with pytest.raises(RunFailedError) as caught:
            await it.agent.prompt("a")
        error = caught.value.__cause__
        assert isinstance(error, ProviderError)
        assert (error.kind, error.action) == (row.kind, row.action)
        assert len({request.body for request in it.sim.requests}) == 1
        assert (len(it.sim.requests), len(set(ids(it)))) == (3, 1)
        (kept,) = stored(it)
        assert kept.stop_reason == "error"
        assert not any(isinstance(part, ToolCall) for part in kept.content)
        if row.fault.after:
            assert error.partial is not None
            assert error.partial.stop_reason == "error"
        await it.agent.prompt("b")
        assert it.sim.requests[-1].status == 200


def test_the_table_has_a_row_for_every_status_type_and_kind():
    statuses = {row.fault.status for row in ROWS}
    assert statuses >= _BY_STATUS.keys()
    assert {row.kind for row in ROWS} == {*get_args(ErrorKind)} - {"cancelled"}
    assert {row.action for row in ROWS} == set(get_args(Action))
    assert set(_BY_TYPE.values()) <= {row.kind for row in ROWS}


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_each_kind_has_one_action(kind):
    assert (ProviderError(kind, "x").action == "retry") is (kind in RETRYABLE)


def test_waits_grow_are_jittered_and_bounded_and_the_server_s_word_goes_first():
    policy = RetryPolicy(attempts=9, base=0.5, cap=8.0, longest=60.0)
    for attempt in range(8):
        waits = {policy.wait(attempt, None) for _ in range(50)}
        step = min(8.0, 0.5 * 2**attempt)
        assert len(waits) > 1
        assert all(0.75 * step <= wait <= step for wait in waits)
    assert policy.wait(8, None) is None
    assert policy.wait(0, 17.0) == 17.0
    assert policy.wait(0, 61.0) is None


# ---- before anything has come


def whole_body(data: bytes) -> bytes:
    """The body of the request that `data` begins with, once all of it is there."""
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return body if length and len(body) == int(length[1]) else b""


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_accepts_and_says_nothing_is_left_after_its_time(tmp_path, api):
    seen: list[bytes] = []

    async def silent(stream) -> None:
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                data = b""
                while not (body := whole_body(data)):
                    data += await stream.receive()
                seen.append(body)
                await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        error = await _fails(tmp_path, f"http://127.0.0.1:{port}", api)
        tasks.cancel_scope.cancel()
    assert (error.kind, error.action) == ("timeout", "retry")
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_is_not_there_is_asked_again_and_then_named(tmp_path, api):
    error = await _fails(tmp_path, "http://127.0.0.1:9", api)
    assert (error.kind, error.action) == ("network", "retry")
    assert "127.0.0.1:9" in error.message


async def _fails(tmp_path, url: str, api: str) -> ProviderError:
    session = Session.create(None, cwd=tmp_path)
    async with open_agent(host(tmp_path), session, model(url, api), FAST) as agent:
        agent.transport.first_byte_timeout = 0.1
        with pytest.raises(RunFailedError) as caught:
            await agent.prompt("a")
    assert isinstance(caught.value.__cause__, ProviderError)
    return caught.value.__cause__


# ---- a key that has run out


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("renewed", [True, False])
async def test_a_key_that_ran_out_is_fetched_anew_once_and_the_same_bytes_sent(
    tmp_path, api, renewed
):
    file = tmp_path / "key"
    file.write_text("first-key")

    def script(request, index):
        if renewed:
            file.write_text("second-key")
        return Fault(status=401, message="expired") if index == 0 else Say("fine")

    sim = Simulator(script, profile="anthropic" if api == APIS[0] else "openai_legacy")
    async with sim.serve() as url:
        asked = attrs.evolve(model(url, api), headers={}, api_key_env=f"!cat '{file}'")
        session = Session.create(None, cwd=tmp_path)
        async with open_agent(host(tmp_path), session, asked, FAST) as agent:
            if renewed:
                await agent.prompt("a")
            else:
                with pytest.raises(RunFailedError) as caught:
                    await agent.prompt("a")
                assert caught.value.__cause__.action == "authenticate"
    keys = [r.headers.get("x-api-key") or r.headers["authorization"][7:] for r in sim.requests]
    assert keys == ["first-key", "second-key"] if renewed else ["first-key"]
    assert len({request.body for request in sim.requests}) == 1
