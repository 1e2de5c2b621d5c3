"""Field reports F39 to F43 and F55: interruption, parallel calls, poisoned arguments, retries."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import anyio
import orjson
import pytest

from unipi.agent import AgentOptions, RetryPolicy
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import (
    AssistantMessage,
    Tool,
    ToolCall,
    ToolResultMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
FAST = AgentOptions(retry=RetryPolicy(base=0.01, cap=0.02))


class Tools:
    """Brings whatever tools it is given."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @hookimpl
    def register_tools(self):
        return self.tools


def results(agent) -> list[ToolResultMessage]:
    return [m for m in agent.session.messages() if isinstance(m, ToolResultMessage)]


def text(message: ToolResultMessage) -> str:
    return "".join(part.text for part in message.content)


async def sleepy(call, ctx) -> str:
    await anyio.sleep(call.input.get("seconds", 30))
    return "slept"


SLEEP = Tool(
    "sleep",
    "Sleep.",
    parameters={"type": "object", "properties": {"seconds": {"type": "number"}}},
    run=sleepy,
)


@pytest.mark.parametrize("api", APIS)
async def test_an_interrupted_tool_leaves_one_result_for_every_call_and_the_session_goes_on(
    tmp_path: Path, api: str
) -> None:
    script = [[Call("sleep", {"seconds": 0}), Call("sleep", {"seconds": 30})], [Say("fine")]]
    async with lab(tmp_path, script, plugins=[("extra", Tools(SLEEP))], api=api) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, "go")
            while not any(type(e).__name__ == "ToolExecutionEndEvent" for e in it.events):
                await anyio.sleep(0.01)
            it.agent.abort()
            it.agent.abort()
        assert it.agent.cancelled
        first, second = results(it.agent)
        assert text(first) == "slept"
        assert second.is_error
        assert "Cancelled" in text(second)
        assert second.details == {"cancelled": True}
        await it.agent.prompt("go on")
        assert [r.status for r in it.sim.requests] == [200, 200]
        assert prefix_breaks(it.requests) == []


@pytest.mark.parametrize("api", APIS)
async def test_an_interrupt_while_arguments_stream_stores_no_half_call(
    tmp_path: Path, api: str
) -> None:
    slow = Answer([Say("I will"), Call("sleep", {"seconds": 1})], chunk=3, delay=0.02)
    options = AgentOptions(wants_deltas=True)
    async with lab(
        tmp_path, [slow, [Say("fine")]], plugins=[("t", Tools(SLEEP))], api=api, options=options
    ) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, "go")
            while not any(getattr(e, "kind", "") == "toolcall" for e in it.events):
                await anyio.sleep(0.005)
            it.agent.abort()
        stored = [
            e.message for e in it.agent.session.branch() if isinstance(e.message, AssistantMessage)
        ]
        assert [m.stop_reason for m in stored] == ["aborted"]
        assert not any(isinstance(part, ToolCall) for m in stored for part in m.content)
        await it.agent.prompt("go on")
        assert it.requests[-1].status == 200
        assert prefix_breaks(it.requests) == []


async def test_tools_that_ignore_cancellation_cannot_hold_the_turn(tmp_path: Path) -> None:
    release = anyio.Event()

    def blocking(call, ctx) -> str:
        time.sleep(5)
        return "too late"

    async def shielded(call, ctx) -> str:
        with anyio.CancelScope(shield=True):
            await release.wait()
        return "too late"

    async def deaf(call, ctx) -> str:
        done = await ctx.run_process(
            [
                sys.executable,
                "-c",
                "import signal,time;signal.signal(15,signal.SIG_IGN);"
                "print(1, flush=True);time.sleep(60)",
            ]
        )
        return done.stdout

    tools = Tools(
        Tool("blocking", "A.", run=blocking),
        Tool("shielded", "B.", run=shielded),
        Tool("deaf", "C.", run=deaf),
    )
    script = [[Call("blocking", {}), Call("shielded", {}), Call("deaf", {})], [Say("fine")]]
    async with lab(tmp_path, script, plugins=[("t", tools)]) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, "go")
            while sum(type(e).__name__ == "ToolExecutionStartEvent" for e in it.events) < 3:
                await anyio.sleep(0.01)
            await anyio.sleep(0.2)
            began = time.monotonic()
            it.agent.abort()
        assert time.monotonic() - began < 4.5
        assert [text(r)[:9] for r in results(it.agent)] == ["Cancelled"] * 3
        release.set()
        await anyio.sleep(0.05)
        assert it.agent.late_results == 1
        assert len(results(it.agent)) == 3
        await it.agent.prompt("go on")
        assert it.requests[-1].status == 200


test_tools_that_ignore_cancellation_cannot_hold_the_turn = pytest.mark.slow(
    test_tools_that_ignore_cancellation_cannot_hold_the_turn
)


@pytest.mark.parametrize("api", APIS)
async def test_five_calls_of_which_three_fail_give_five_results_in_order(
    tmp_path: Path, api: str
) -> None:
    async def silent(call, ctx) -> str:
        raise LookupError

    strict = Tool(
        "strict",
        "Needs a path.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
        run=sleepy,
    )
    tools = Tools(SLEEP, Tool("silent", "Fails.", run=silent), strict)
    calls = [
        Call("sleep", {"seconds": 0.1}, id="call_A"),
        Call("silent", {}, id="call_B"),
        Call("sleep", {"seconds": 0}, id="call_C"),
        Call("unknown", {}, id="call_D"),
        Call("strict", {"path": 7}, id="call_E"),
    ]
    async with lab(tmp_path, [calls, [Say("ok")]], plugins=[("t", tools)], api=api) as it:
        await it.agent.prompt("go")
        a, b, c, d, e = results(it.agent)
    assert [r.tool_call_id for r in (a, b, c, d, e)] == [f"call_{x}" for x in "ABCDE"]
    assert [r.is_error for r in (a, b, c, d, e)] == [False, True, False, True, True]
    assert text(a) == text(c) == "slept"
    assert "LookupError" in text(b)
    assert "silent, sleep, strict" in text(d)
    assert "path" in text(e)
    assert it.requests[-1].status == 200


MALFORMED = [
    '{"path": "cut in the mid',
    '{"path": "raw\nnewline and \ttab"}',
    '{"path": "\\U0001F600"}',
    '{"path": "trailing",}',
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("arguments", MALFORMED)
async def test_malformed_arguments_are_quoted_back_and_replayed_as_valid_json(
    tmp_path: Path, api: str, arguments: str
) -> None:
    ran: list[object] = []

    async def note(call, ctx) -> str:
        ran.append(call.input)
        return "ran"

    script = [[Call("note", arguments)], [Say("sorry")], [Say("fine")]]
    async with lab(
        tmp_path, script, plugins=[("t", Tools(Tool("note", "N.", run=note)))], api=api
    ) as it:
        await it.agent.prompt("go")
        await it.agent.prompt("go on")
        (result,) = results(it.agent)
        stored = next(
            part
            for m in it.agent.session.messages()
            if isinstance(m, AssistantMessage)
            for part in m.content
            if isinstance(part, ToolCall)
        )
    assert ran == []
    assert result.is_error
    assert "note" in text(result) or "arguments" in text(result)
    assert stored.arguments_text == arguments
    assert [r.status for r in it.sim.requests] == [200, 200, 200]
    assert prefix_breaks(it.requests) == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("arguments", "word"),
    [("null", "null"), ("[]", "list"), ('"x"', "string"), ("3", "number"), ("true", "boolean")],
)
async def test_arguments_that_are_no_object_are_named_by_their_type(
    tmp_path: Path, api: str, arguments: str, word: str
) -> None:
    tool = Tool("note", "N.", run=sleepy)
    async with lab(
        tmp_path, [[Call("note", arguments)], [Say("ok")]], plugins=[("t", Tools(tool))], api=api
    ) as it:
        await it.agent.prompt("go")
        (result,) = results(it.agent)
    assert result.is_error
    assert word in text(result)
    assert it.requests[-1].status == 200


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("arguments", ["", "  \n"])
async def test_empty_arguments_are_an_empty_object_and_validated_as_one(
    tmp_path: Path, api: str, arguments: str
) -> None:
    async def ok(call, ctx) -> str:
        return "ran"

    strict = Tool(
        "strict",
        "S.",
        parameters={"type": "object", "properties": {"p": {}}, "required": ["p"]},
        run=ok,
    )
    script = [[Call("plain", arguments), Call("strict", arguments)], [Say("ok")]]
    async with lab(
        tmp_path, script, plugins=[("t", Tools(Tool("plain", "P.", run=ok), strict))], api=api
    ) as it:
        await it.agent.prompt("go")
        plain, needy = results(it.agent)
    assert text(plain) == "ran"
    assert "'p' is a required property" in text(needy)
    assert it.requests[-1].status == 200


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_that_dies_half_way_is_asked_again_with_the_same_bytes_and_leaves_no_trace(
    tmp_path: Path, api: str
) -> None:
    half = Answer([Say("one two three"), Call("sleep", {"seconds": 1})], chunk=4)
    script = [
        Fault(cut=True, after=5, answer=half),
        Fault(status=429, type="rate_limit_error", message="slow", headers={"retry-after": "0"}),
        Fault(status=529, type="overloaded_error", message="Overloaded"),
        [Say("whole answer")],
    ]
    async with lab(tmp_path, script, api=api, options=FAST) as it:
        await it.agent.prompt("go")
        answers = [m for m in it.agent.session.messages() if isinstance(m, AssistantMessage)]
        ends = [e for e in it.events if type(e).__name__ == "ProviderResponseEndEvent"]
    assert [[p.text for p in m.content] for m in answers] == [["whole answer"]]
    bodies = {r.body for r in it.sim.requests}
    assert len(it.sim.requests) == 4
    assert len(bodies) == 1
    assert len({r.request_id for r in it.sim.requests}) == 1
    assert [e.info.attempt for e in ends] == [0, 1, 2, 3]
    assert [bool(e.error) for e in ends] == [True, True, True, False]


async def test_a_retry_waits_as_long_as_the_server_says(tmp_path: Path) -> None:
    script = [
        Fault(status=429, type="rate_limit_error", message="slow", headers={"retry-after": "1"}),
        [Say("ok")],
    ]
    async with lab(tmp_path, script, options=FAST) as it:
        began = time.monotonic()
        await it.agent.prompt("go")
        assert time.monotonic() - began >= 1.0


async def test_a_wait_longer_than_the_limit_ends_the_run_with_the_providers_words(
    tmp_path: Path,
) -> None:
    from unipi.agent import RunFailedError

    script = [
        Fault(
            status=429,
            type="rate_limit_error",
            message="come back tomorrow",
            headers={"retry-after": "86400"},
        ),
        [Say("ok")],
    ]
    async with lab(tmp_path, script, options=FAST) as it:
        with pytest.raises(RunFailedError, match="come back tomorrow"):
            await it.agent.prompt("go")
        await it.agent.prompt("again")
        assert prefix_breaks([r for r in it.sim.requests if r.status == 200]) == []


def run_cli(tmp_path: Path, *args: str, **kwargs) -> subprocess.Popen[str]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "unipi", "run", *args],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "UNIPI_HOME": str(home), "SIM_KEY": "x"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def models_file(tmp_path: Path, url: str, api: str = "anthropic-messages") -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    document = {
        "providers": {"sim": {"api": api, "base_url": url, "api_key_env": "SIM_KEY"}},
        "models": {"sim/one": {}},
    }
    (home / "models.json").write_bytes(orjson.dumps(document))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_run_with_a_valid_session_that_goes_on(tmp_path: Path, name: str) -> None:
    import signal

    from unipi.sim import Simulator, run_simulator

    script = [
        [Call("bash", {"command": "sleep 30"}), Call("bash", {"command": "echo hi"})],
        [Say("fine")],
    ]
    sim = Simulator(script, profile="anthropic")
    with run_simulator(sim) as url:
        models_file(tmp_path, url)
        base = ("--model", "sim/one", "--session", "s.jsonl", "--json")
        process = run_cli(tmp_path, *base, "-p", "go")
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("type") == "tool_execution_end":
                break
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130, err
        again = run_cli(tmp_path, *base, "-p", "go on")
        _, err = again.communicate(timeout=20)
        assert again.returncode == 0, err
    with Session.open(tmp_path / "s.jsonl", read_only=True) as session:
        ids = [m.tool_call_id for m in session.messages() if isinstance(m, ToolResultMessage)]
    assert len(ids) == len(set(ids)) == 2
    assert [r.status for r in sim.requests] == [200, 200]
    assert prefix_breaks(sim.requests) == []
