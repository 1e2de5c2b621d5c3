"""Field reports F62 to F65 in a running host: hooks that fail, policies that fail, slow hooks."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import anyio
import orjson
import pytest
from attrs import evolve

from unipi.hooks import Failure, compile_hooks
from unipi.session import Session
from unipi.sim import Call, Say, Simulator, run_simulator
from unipi.testing import lab
from unipi.testing.lab import host
from unipi_hookspecs import (
    Block,
    ResultPatch,
    Text,
    Tool,
    ToolResultMessage,
    Transform,
    UserMessage,
    hookimpl,
)

DONE = [Say("done")]


def prepared(cwd: Path, failures: list[Failure], plugins, **budgets: float):
    """A host that tells `failures`, with time budgets of this test in place of the documented."""
    made = host(cwd, plugins)
    hooks = compile_hooks(made.loaded.manager, report=failures.append, budgets=budgets)
    return evolve(made, hooks=hooks)


def results(agent) -> list[ToolResultMessage]:
    return [m for m in agent.session.messages() if isinstance(m, ToolResultMessage)]


def text(message: ToolResultMessage) -> str:
    return "".join(part.text for part in message.content)


def prompts(agent) -> list[str]:
    return [m.content for m in agent.session.messages() if isinstance(m, UserMessage)]


class Echo:
    """Offers a tool that counts its runs."""

    def __init__(self) -> None:
        self.ran = 0

    @hookimpl
    def register_tools(self):
        async def run(call, ctx) -> str:
            self.ran += 1
            return "ran"

        return [Tool("echo", "Echo.", run=run), Tool("guarded", "Guarded.", run=run)]


# F62


class Marks:
    """Leaves its letter wherever it comes by."""

    def __init__(self, letter: str, heard: list[str]) -> None:
        self.letter = letter
        self.heard = heard

    @hookimpl
    def input(self, event):
        return Transform(event.text + self.letter)

    @hookimpl
    def tool_call(self, event):
        self.heard.append(f"{self.letter} tool_call {event.tool_name}")

    @hookimpl
    def tool_result(self, event):
        return ResultPatch([Text(event.content[0].text + self.letter)])

    @hookimpl
    def session_shutdown(self):
        self.heard.append(f"{self.letter} session_shutdown")


class Raises:
    """Fails in the four hooks, in one of three ways; of calls only in that of `guarded`."""

    def __init__(self, way: str) -> None:
        self.way = way

    async def fail(self) -> None:
        if self.way == "later":
            await anyio.sleep(0.001)
        if self.way == "group":
            raise ExceptionGroup("many", [ValueError("one"), KeyError("two")])
        raise ValueError("no")

    @hookimpl
    async def input(self):
        await self.fail()

    @hookimpl
    async def tool_call(self, event):
        if event.tool_name == "guarded":
            await self.fail()

    @hookimpl
    async def tool_result(self):
        await self.fail()

    @hookimpl
    async def session_shutdown(self):
        await self.fail()


@pytest.mark.parametrize("way", ["at once", "later", "group"])
async def test_a_plugin_that_raises_costs_only_itself_and_blocks_what_it_should_have_judged(
    tmp_path: Path, way: str
) -> None:
    heard: list[str] = []
    failures: list[Failure] = []
    echo = Echo()
    plugins = [("a", Marks("a", heard)), ("b", Raises(way)), ("c", Marks("c", heard)), ("e", echo)]
    script = [[Call("echo")], DONE, [Call("echo"), Call("guarded")], DONE]
    ready = prepared(tmp_path, failures, plugins)
    async with lab(tmp_path, script, prepared=ready) as it:
        await it.agent.prompt("one ")
        await it.agent.prompt("two ")
        assert prompts(it.agent) == ["one ac", "two ac"]
        first, second, blocked = results(it.agent)
    assert [text(first), text(second)] == ["ranac", "ranac"]
    assert echo.ran == 2
    assert blocked.is_error
    assert "plugin 'b'" in text(blocked)
    assert "Error" in text(blocked) or "ExceptionGroup" in text(blocked)
    assert "c tool_call guarded" not in heard
    assert heard[-2:] == ["c session_shutdown", "a session_shutdown"]
    hooks = ["input", "tool_call", "tool_result", "session_shutdown"]
    assert sorted((f.plugin, f.hook, f.kind) for f in failures if f.kind != "slow") == sorted(
        ("b", hook, "raised") for hook in hooks
    )
    errors = {row.hook: row.errors for row in ready.hooks.stats() if row.plugin == "b"}
    assert errors == {"input": 2, "tool_call": 1, "tool_result": 2, "session_shutdown": 1}


# F63


def endless() -> None:
    endless()


class Exits:
    """Leaves its hooks by every door that is not an Exception."""

    @hookimpl
    def session_start(self):
        raise SystemExit(2)

    @hookimpl
    async def agent_start(self):
        await anyio.sleep(0)
        raise SystemExit(2)

    @hookimpl
    def turn_start(self):
        endless()

    @hookimpl
    async def message_end(self):
        raise anyio.get_cancelled_exc_class()

    @hookimpl
    async def tool_execution_start(self):
        await anyio.sleep(0)
        raise anyio.get_cancelled_exc_class()

    @hookimpl
    def tool_execution_end(self):
        raise GeneratorExit

    @hookimpl
    async def turn_end(self):
        await anyio.sleep(0)
        endless()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio's cancellation has no constructor
async def test_a_hook_that_exits_recurses_or_forges_a_cancellation_ends_nothing(
    tmp_path: Path,
) -> None:
    failures: list[Failure] = []
    echo = Echo()
    path = tmp_path / "s.jsonl"
    ready = prepared(tmp_path, failures, [("exits", Exits()), ("e", echo)])
    session = Session.create(path, cwd=tmp_path)
    async with lab(tmp_path, [[Call("echo")], DONE], prepared=ready, session=session) as it:
        await it.agent.prompt("go")
        assert not it.agent.cancelled
    assert echo.ran == 1
    assert {(f.hook, f.kind) for f in failures if f.kind != "slow"} == {
        ("session_start", "raised"),
        ("agent_start", "raised"),
        ("turn_start", "raised"),
        ("message_end", "cancelled"),
        ("tool_execution_start", "cancelled"),
        ("tool_execution_end", "raised"),
        ("turn_end", "raised"),
    }
    assert {f.plugin for f in failures} == {"exits"}
    with Session.open(path) as again:
        assert again.damages == ()
        assert again.open_calls() == []
        assert [type(m).__name__ for m in again.messages()] == [
            "UserMessage",
            "AssistantMessage",
            "ToolResultMessage",
            "AssistantMessage",
        ]


WAITS = """
@hookimpl
def session_start():
    raise SystemExit(2)

@hookimpl
async def tool_call(event):
    import anyio
    await anyio.sleep(60)
"""


@pytest.mark.slow
def test_a_true_interrupt_passes_through_a_hook_that_waits(cli) -> None:
    sim = Simulator([[Call("bash", {"command": "echo hi"})], DONE], profile="anthropic")
    run = ("run", "--model", "sim/one", "--session", "s.jsonl", "--json", "-p", "go")
    with run_simulator(sim) as url:
        cli.serve_model(url)
        process = cli.start(*run, "-e", cli.plugin("waits", WAITS))
        for line in process.stdout:
            if json.loads(line)["type"] == "tool_execution_start":
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130, err
        assert cli.run(*run).returncode == 0
    assert "Cancelled" in out
    assert [r.status for r in sim.requests] == [200, 200]
    for line in (cli.folder / "s.jsonl").read_bytes().splitlines():
        orjson.loads(line)


# F64


class Denies:
    """A policy that breaks in one of several ways."""

    def __init__(self, way: str) -> None:
        self.way = way

    @hookimpl
    async def tool_call(self, event):
        if self.way == "raises":
            raise RuntimeError("the list of rules is gone")
        if self.way == "sleeps":
            await anyio.sleep(30)
        return {"returns": "deny", "blocks": Block("not allowed")}.get(self.way)


@pytest.mark.parametrize(
    ("way", "word"),
    [
        ("raises", "raised RuntimeError: the list of rules is gone"),
        ("sleeps", "timed out after 0.03 s"),
        ("returns", "returned"),
    ],
)
async def test_a_policy_that_breaks_blocks_the_call_and_the_result_says_how(
    tmp_path: Path, way: str, word: str
) -> None:
    echo = Echo()
    ready = prepared(tmp_path, [], [("deny", Denies(way)), ("e", echo)], tool_call=0.03)
    async with lab(tmp_path, [[Call("echo")], DONE], prepared=ready) as it:
        await it.agent.prompt("go")
        (result,) = results(it.agent)
    assert echo.ran == 0
    assert result.is_error
    assert "plugin 'deny'" in text(result)
    assert word in text(result)
    assert text(result).encode() in it.requests[-1].body.replace(b'\\"', b'"')


async def test_a_policy_without_an_opinion_lets_the_call_run(tmp_path: Path) -> None:
    echo = Echo()
    ready = prepared(tmp_path, [], [("deny", Denies("none")), ("e", echo)])
    async with lab(tmp_path, [[Call("echo")], DONE], prepared=ready) as it:
        await it.agent.prompt("go")
        (result,) = results(it.agent)
    assert (echo.ran, text(result)) == (1, "ran")


@pytest.mark.slow
@pytest.mark.parametrize("installed", [True, False])
def test_a_required_policy_that_is_not_loaded_blocks_every_call_with_the_way_out(
    cli, installed: bool
) -> None:
    cli.settings(required_plugins=["deny"])
    if installed:
        (cli.home / "plugins").mkdir()
        (cli.home / "plugins" / "deny.py").write_text("import missing_library_xyz\n")
    calls = [Call("bash", {"command": "touch ran"}), Call("ls", {"path": "."})]
    sim = Simulator([calls, DONE], profile="anthropic")
    with run_simulator(sim) as url:
        cli.serve_model(url)
        done = cli.run("run", "--model", "sim/one", "--no-session", "--json", "-p", "go")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    messages = [e["entry"]["message"] for e in events if e["type"] == "message_end"]
    refused = [m["content"][0]["text"] for m in messages if m["role"] == "toolResult"]
    assert len(refused) == 2
    for reason in refused:
        assert "a required plugin is not active: deny" in reason
        assert "missing_library_xyz" in reason or not installed
        assert "required_plugins" in reason
        assert "unipi plugins list" in reason
    assert not (cli.folder / "ran").exists()
    assert any("deny" in e["text"] for e in events if e["type"] == "notice")


# F65


class Slow:
    """Sleeps long in tool_result, never returns from turn_end, and spins in turn_start."""

    @hookimpl
    async def tool_result(self):
        await anyio.sleep(5)

    @hookimpl
    async def turn_end(self):
        await anyio.Event().wait()

    @hookimpl
    def turn_start(self):
        end = time.perf_counter() + 0.06
        while time.perf_counter() < end:
            pass


async def test_slow_hung_and_busy_hooks_are_named_with_their_time_and_hold_no_turn(
    tmp_path: Path,
) -> None:
    failures: list[Failure] = []
    plugins = [("slow", Slow()), ("e", Echo())]
    ready = prepared(tmp_path, failures, plugins, tool_result=0.05, turn_end=0.05)
    began = time.monotonic()
    async with lab(tmp_path, [[Call("echo")] * 30, DONE], prepared=ready) as it:
        await it.agent.prompt("go")
        assert [text(r) for r in results(it.agent)] == ["ran"] * 30
    assert time.monotonic() - began < 5
    named = {(f.hook, f.kind): f for f in failures if f.plugin == "slow"}
    assert (
        Counter((f.hook, f.kind) for f in failures if f.plugin == "slow").most_common(1)[0][1] == 1
    )
    for hook in ("tool_result", "turn_end"):
        assert named[hook, "timed_out"].elapsed_ms >= 50
        assert "timed out after 0.05 s" in str(named[hook, "timed_out"])
    assert "held the event loop for" in str(named["turn_start", "slow"])
    rows = {row.hook: row for row in ready.hooks.stats() if row.plugin == "slow"}
    assert (rows["tool_result"].count, rows["tool_result"].errors) == (30, 30)
    assert (rows["turn_end"].count, rows["turn_end"].errors) == (2, 2)
    assert rows["turn_start"].slow == rows["turn_start"].count == 2


BUSY = """
import time

@hookimpl
def turn_start():
    time.sleep(0.06)

@hookimpl
def turn_end():
    raise ValueError("no")
"""


@pytest.mark.slow
def test_a_run_ends_with_what_each_plugin_has_cost(cli) -> None:
    sim = Simulator([DONE, DONE], profile="anthropic")
    run = ("run", "--model", "sim/one", "--no-session", "-e", cli.plugin("busy", BUSY), "-p", "go")
    with run_simulator(sim) as url:
        cli.serve_model(url)
        as_json = cli.run(*run, "--json")
        as_text = cli.run(*run)
    events = [json.loads(line) for line in as_json.stdout.splitlines()]
    cost = events[-1]["plugins"]["busy"]
    assert (cost["calls"], cost["errors"], cost["slow"]) == (2, 1, 1)
    assert cost["ms"] >= 60
    told = [e["text"] for e in events if e["type"] == "notice" and e["plugin"] == "busy"]
    assert any("turn_start" in line and "held the event loop for" in line for line in told)
    assert "slow: plugin 'busy' held everything up in 1 of 2 calls" in as_text.stderr
