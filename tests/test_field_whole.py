"""Field reports F21, F36, F37, F39, F46 and F49 through the whole host."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import threading
import time
from pathlib import Path

import orjson
import pytest

from unipi.session import Session
from unipi.sim import Call, Say, Simulator, run_simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import PROFILES
from unipi_hookspecs import Text, Tool, ToolOutput, ToolResultMessage, UserMessage, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
LIMIT = 65_536
MB = 1_000_000


class Bundle:
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


# F21

ARGUMENTS = (
    '{"path":  "caf\\u00e9.txt", "lines":  1.0, "big": 1e3, "word": "café", '
    '"none": {}, "nest": {"k": 1,  "k": 2}}'
)
SQUEEZED = (
    '{"path":"caf\\u00e9.txt","lines":1.0,"big":1e3,"word":"café","none":{},"nest":{"k":1,"k":2}}'
)


@pytest.mark.parametrize("api", APIS)
async def test_argument_text_goes_back_as_it_came_and_the_tool_sees_its_value(
    tmp_path: Path, api: str
) -> None:
    seen: dict[str, object] = {}

    async def note(call, ctx) -> str:
        seen[call.id] = call.input
        return "noted"

    tools = Bundle(Tool("note", "Note.", run=note))
    script = [
        [Call("note", ARGUMENTS, id="one"), Call("note", "{}", id="two")],
        [Say("ok")],
        [Say("and on")],
    ]
    async with lab(tmp_path, script, plugins=[("notes", tools)], api=api) as it:
        await it.agent.prompt("go")
        await it.agent.prompt("go on")
    carried = json.dumps(ARGUMENTS, ensure_ascii=False) if "openai" in api else SQUEEZED
    for request in it.requests[1:]:
        assert carried.encode() in request.body
    assert prefix_breaks(it.requests) == []
    assert seen["one"] == {
        "path": "café.txt",
        "lines": 1.0,
        "big": 1000.0,
        "word": "café",
        "none": {},
        "nest": {"k": 2},
    }
    assert seen["two"] == {}


# F36


class Filling:
    """Answers one request with a command, and lets the session's disk fill up before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = 0
        self.started = threading.Event()

    def __call__(self, request: dict[str, object], index: int):
        if index:
            return [Say("done")]
        self.started.wait(10)
        self.limit(self.path.stat().st_size)
        return [Call("bash", {"command": "echo ran >> ran.txt"})]

    def limit(self, size: int) -> None:
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture
def filling(cli):
    script = Filling(cli.folder / "s.jsonl")
    sim = Simulator(script, profile="anthropic")

    def start(*args: str):
        process = cli.start("run", "--model", "sim/one", "--session", "s.jsonl", "-p", "go", *args)
        script.pid = process.pid
        script.started.set()
        return process

    with run_simulator(sim) as url:
        cli.serve_model(url)
        yield script, sim, start


@pytest.mark.slow
def test_a_full_disk_is_told_at_once_pauses_the_turn_and_is_made_good(cli, filling) -> None:
    script, sim, start = filling
    process = start("--json")
    for line in process.stdout:
        if "not saved" in json.loads(line).get("text", ""):
            break
    time.sleep(0.4)  # longer than it takes to try again
    assert len(sim.requests) == 1
    assert not (cli.folder / "ran.txt").exists()
    script.limit(resource.RLIM_INFINITY)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert [e["text"] for e in events if e["type"] == "notice"] == ["saved; going on"]
    assert events[-1]["unsaved"] == 0
    assert (cli.folder / "ran.txt").read_text() == "ran\n"
    assert prefix_breaks(sim.requests) == []
    with Session.open(cli.folder / "s.jsonl") as session:
        assert session.damages == ()
        assert [type(m).__name__ for m in session.messages()] == [
            "UserMessage",
            "AssistantMessage",
            "ToolResultMessage",
            "AssistantMessage",
        ]


@pytest.mark.slow
def test_a_disk_that_stays_full_ends_the_run_in_words_and_offers_no_resume(cli, filling) -> None:
    _, sim, start = filling
    process = start("--save-wait", "0.3")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert err.count("waiting to try again") == 1
    assert "Free some space and run again; what was not saved is lost" in err
    assert "to go on: unipi run" not in err
    assert len(sim.requests) == 1
    assert not (cli.folder / "ran.txt").exists()
    with Session.open(cli.folder / "s.jsonl") as session:
        assert [type(m).__name__ for m in session.messages()] == ["UserMessage"]


# F37


@pytest.mark.slow
def test_of_two_that_go_on_at_once_one_writes_and_after_its_kill_the_next_does(cli) -> None:
    gate = cli.folder / "gate"
    os.mkfifo(gate)
    waits = [Call("bash", {"command": "cat gate"})]
    sim = Simulator([[Say("first")], waits, [Say("last")]], profile="anthropic")
    run = ("run", "--model", "sim/one", "-p")
    with run_simulator(sim) as url:
        cli.serve_model(url)
        assert cli.run(*run, "begin").returncode == 0
        both = [cli.start(*run, "go on", "--continue") for _ in range(2)]
        deadline = time.monotonic() + 20
        while all(process.poll() is None for process in both) and time.monotonic() < deadline:
            time.sleep(0.01)
        loser = next(process for process in both if process.poll() is not None)
        winner = next(process for process in both if process is not loser)
        _, err = loser.communicate(timeout=20)
        assert loser.returncode == 2
        assert re.search(rf"being written by process {winner.pid} since 20\d\d-\d\d-\d\dT", err)
        assert "unipi run --fork" in err
        while len(sim.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        (listed,) = json.loads(cli.run("sessions", "list", "--json").stdout)
        assert cli.run("sessions", "show", listed["id"]).returncode == 0
        winner.send_signal(signal.SIGKILL)
        winner.communicate(timeout=20)
        os.close(os.open(gate, os.O_RDWR))  # lets the orphaned command go
        fourth = cli.run(*run, "and on", "--continue")
    assert fourth.returncode == 0, fourth.stderr
    lines = Path(listed["path"]).read_bytes().splitlines()
    entries = [orjson.loads(line) for line in lines[1:]]
    assert [e["parentId"] for e in entries] == [None, *(e["id"] for e in entries[:-1])]
    assert [r.status for r in sim.requests] == [200] * 3
    assert prefix_breaks(sim.requests) == []


# F39


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("at", [0, 1], ids=["before the first", "between the two"])
async def test_an_interrupt_while_results_are_written_leaves_one_for_every_call(
    tmp_path: Path, api: str, at: int
) -> None:
    class Interrupts:
        seen = -1

        @hookimpl
        async def message_start(self, event):
            if isinstance(event.message, ToolResultMessage):
                self.seen += 1
                if self.seen == at:
                    it.agent.abort()
                    it.agent.abort()

    path = tmp_path / "s.jsonl"
    calls = [Call("ls", {"path": "."}, id="one"), Call("ls", {"path": "."}, id="two")]
    async with lab(
        tmp_path,
        [calls, [Say("fine")]],
        plugins=[("interrupts", Interrupts())],
        api=api,
        session=Session.create(path, cwd=tmp_path),
    ) as it:
        await it.agent.prompt("go")
        assert it.agent.cancelled
        assert [r.tool_call_id for r in results(it.agent)] == ["one", "two"]
        assert len(it.requests) == 1
        await it.agent.prompt("go on")
    assert [r.status for r in it.sim.requests] == [200, 200]
    assert prefix_breaks(it.requests) == []
    with Session.open(path) as again:
        assert again.damages == ()
        ids = [m.tool_call_id for m in again.messages() if isinstance(m, ToolResultMessage)]
    assert ids == ["one", "two"]


# F46

BROKEN = r"printf '\xed\xa0\x80|\xff|\x00|end'"


@pytest.mark.parametrize("api", APIS)
async def test_broken_text_from_anywhere_is_repaired_once_and_reads_the_same_after_reopening(
    tmp_path: Path, api: str
) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/name\xff")).write_text("")
    path = tmp_path / "sessions" / "s.jsonl"

    async def remote(call, ctx) -> ToolOutput:
        return ToolOutput([Text(json.loads(r'"far \ud800 away"'))], {"raw": "\udfff"})

    def folder(call, ctx) -> str:
        return "\n".join(sorted(each.name for each in tmp_path.iterdir()))

    tools = Bundle(Tool("remote", "R.", run=remote), Tool("folder", "F.", run=folder))
    calls = [
        Call("bash", {"command": BROKEN}),
        Call("ls", {"path": "."}),
        Call("remote"),
        Call("folder"),
    ]
    sim = Simulator([calls, [Say("ok")], [Say("on")]], profile=PROFILES[api])
    shared = {"plugins": [("far", tools)], "api": api, "sim": sim}
    async with lab(tmp_path, [], session=Session.create(path, cwd=tmp_path), **shared) as it:
        await it.agent.prompt("pasted \udfff text")
        shown = [text(r) for r in results(it.agent)]
    assert shown[0] == "\ufffd|\ufffd|\x00|end"
    assert "name\ufffd" in shown[1]
    assert shown[2] == "far \ufffd away"
    assert "name\ufffd" in shown[3]
    async with lab(tmp_path, [], session=Session.open(path), **shared) as it:
        await it.agent.prompt("go on")
        assert it.agent.session.messages()[0] == UserMessage(
            "pasted \ufffd text", it.agent.session.messages()[0].timestamp
        )
    assert len(sim.requests) == 3
    assert prefix_breaks(sim.requests) == []
    for request in sim.requests:
        orjson.loads(request.body.decode())  # refuses lone surrogates, escaped or not
    for line in path.read_bytes().splitlines():
        assert b"\\ud" not in line.replace(rb'{"raw":"\udfff"}', b"")
        line.decode()


# F49


def sized(size: int) -> str:
    return "".join(f"line {n:>10}\n" for n in range(size // 16 + 1))[:size]


async def big(call, ctx) -> ToolOutput:
    whole = sized(call.input["size"])
    parts = call.input.get("parts", 1)
    return ToolOutput([Text(whole)] * parts, {"structured": {"text": whole}, "lines": 3})


BIG = Tool(
    "big",
    "Big.",
    parameters={
        "type": "object",
        "properties": {"size": {"type": "integer"}, "parts": {"type": "integer"}},
    },
    run=big,
)


async def run_big(tmp_path: Path, api: str, *calls: Call) -> tuple[list[str], Path, bytes]:
    path = tmp_path / "s.jsonl"
    async with lab(
        tmp_path,
        [list(calls), [Say("ok")]],
        plugins=[("far", Bundle(BIG))],
        api=api,
        session=Session.create(path, cwd=tmp_path),
    ) as it:
        await it.agent.prompt("go")
        shown = [text(r) for r in results(it.agent)]
    assert it.requests[-1].status == 200
    return shown, path, it.requests[-1].body


@pytest.mark.parametrize("api", APIS)
async def test_five_megabytes_are_cut_kept_once_and_can_be_read_on(
    tmp_path: Path, api: str
) -> None:
    (shown,), path, body = await run_big(tmp_path, api, Call("big", {"size": 5 * MB}))
    assert len(shown.encode()) <= LIMIT
    assert len(body) < 2 * LIMIT
    assert path.stat().st_size < 4 * LIMIT
    found = re.search(r"Full output: (\S+) - read on with the read tool at offset=(\d+)", shown)
    assert found
    assert Path(found[1]).read_text() == sized(5 * MB)
    offset = int(found[2])
    script = [[Call("read", {"path": found[1], "offset": offset, "limit": 1})], [Say("ok")]]
    async with lab(tmp_path, script, api=api) as it:
        await it.agent.prompt("read on")
        (read,) = results(it.agent)
    assert text(read).startswith(f"line {offset - 1:>10}\n")


async def test_seventeen_megabytes_are_cut_and_said_not_to_be_kept(tmp_path: Path) -> None:
    (shown,), path, _ = await run_big(tmp_path, APIS[0], Call("big", {"size": 17 * 1024 * 1024}))
    assert len(shown.encode()) <= LIMIT
    assert "The full output was not kept: it is over 16 MiB" in shown
    assert path.stat().st_size < 4 * LIMIT


@pytest.mark.parametrize("api", APIS)
async def test_eight_results_of_60_kb_in_one_turn_are_whole(tmp_path: Path, api: str) -> None:
    calls = [Call("big", {"size": 60_000})] * 8
    shown, _, _ = await run_big(tmp_path, api, *calls)
    assert shown == [sized(60_000)] * 8


@pytest.mark.parametrize("api", APIS)
async def test_three_parts_of_40_kb_are_bounded_together(tmp_path: Path, api: str) -> None:
    (shown,), path, body = await run_big(tmp_path, api, Call("big", {"size": 40_000, "parts": 3}))
    assert len(shown.encode()) <= LIMIT
    assert "Full output: " in shown
    assert len(body) < 2 * LIMIT
    assert path.stat().st_size < 4 * LIMIT
