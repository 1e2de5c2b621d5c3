"""`unipi.replay`: a recorded session, sent again through the host to the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.agent import open_agent, prepare_host
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.cli.main import cli
from unipi.loader import LoadOptions
from unipi.replay import ReplayReport, replay
from unipi.replay.answers import recorded_answer
from unipi.replay.models import recorded_prices
from unipi.replay.watch import PrefixWatch
from unipi.session import Session
from unipi.sim import Answer, Call, Say, Simulator, Think
from unipi_hookspecs import AssistantMessage, Model, Text, Thinking, ToolCall

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SHARED = Path(__file__).parents[3] / "shared"
START = 1_765_230_000_000
LONG = "All work and no play makes Jack a dull boy. " * 800  # 8,800 tokens


class Recording:
    """Writes a session file of version 3, entry after entry, each a few seconds later."""

    def __init__(self, path: Path, **header: object) -> None:
        self.path = path
        self.lines: list[dict[str, object]] = [
            {"type": "session", "version": 3, "id": "s", "cwd": "/home/dev/project", **header}
        ]
        self.leaf: str | None = None
        self.ms = START

    def add(self, kind: str, seconds: float = 2, **fields: object) -> str:
        self.ms += round(seconds * 1000)
        entry_id = f"e{len(self.lines):03d}"
        place = {"type": kind, "id": entry_id, "parentId": self.leaf, "timestamp": iso(self.ms)}
        self.lines.append(place | fields)
        self.leaf = entry_id
        return entry_id

    def user(self, text: str, seconds: float = 2) -> str:
        return self.add("message", seconds, message={"role": "user", "content": text})

    def answer(self, *content: dict[str, object], stop: str = "stop", **more: object) -> str:
        message = {
            "role": "assistant",
            "content": list(content),
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": "claude-opus-4-5",
            "usage": {"input": 10, "output": 5, "cacheRead": 90, "cacheWrite": 0},
            "stopReason": stop,
            "timestamp": self.ms + 1,
            **more,
        }
        return self.add("message", message=message)

    def result(self, call_id: str, text: str = "done") -> str:
        content = [{"type": "text", "text": text}]
        message = {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": "read",
            "content": content,
            "isError": False,
        }
        return self.add("message", message=message)

    def open(self) -> Session:
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return Session.open(self.path, read_only=True)


def iso(ms: int) -> str:
    from unipi.session.times import to_iso

    return to_iso(ms)


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def call(call_id: str) -> dict[str, object]:
    return {"type": "toolCall", "id": call_id, "name": "read", "arguments": {"path": "a.txt"}}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "session.jsonl")


async def run(recording: Recording, api: str = APIS[0]) -> ReplayReport:
    with recording.open() as session:
        report = await replay(session, api)
    assert report.violations == 0
    return report


def causes(report: ReplayReport) -> list[str]:
    return [epoch.cause for epoch in report.epochs]


@pytest.mark.parametrize("api", APIS)
async def test_every_recorded_answer_is_asked_for_again_in_one_epoch(
    recording: Recording, api: str
) -> None:
    recording.user(LONG)
    recording.answer(text("Let me look."), call("toolu_1"), call("toolu_2"), stop="toolUse")
    recording.result("toolu_1")
    recording.result("toolu_2")
    recording.answer(text("Done."))
    report = await run(recording, api)
    assert (report.requests, report.answered, report.unsent) == (2, 2, 0)
    assert causes(report) == ["first"]
    assert report.misses == ()
    assert report.attained_share > 0.45  # all of the first prompt, read by the second request


async def test_an_aborted_and_a_failed_answer_are_asked_for_and_not_sent_back(
    recording: Recording,
) -> None:
    recording.user(LONG)
    recording.answer(text("I beg"), call("toolu_1"), stop="aborted")
    recording.user("Go on.")
    recording.answer(stop="error", errorMessage="overloaded")
    recording.user("Once more.")
    recording.answer(text("Here."))
    report = await run(recording)
    assert (report.requests, report.answered) == (3, 1)
    assert causes(report) == ["first"]


async def test_a_model_chosen_and_taken_back_before_the_next_request_is_no_boundary(
    recording: Recording,
) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.add("model_change", provider="anthropic", modelId="claude-sonnet-5")
    recording.add("thinking_level_change", thinkingLevel="high")
    recording.add("thinking_level_change", thinkingLevel="off")
    recording.add("model_change", provider="anthropic", modelId="claude-opus-4-5")
    recording.user("Never mind.")
    recording.answer(text("Fine."))
    assert causes(await run(recording)) == ["first"]


@pytest.mark.parametrize(
    ("kind", "fields", "answer", "cause"),
    [
        ("thinking_level_change", {"thinkingLevel": "high"}, {}, "thinking"),
        (
            "model_change",
            {"provider": "anthropic", "modelId": "claude-sonnet-5"},
            {"model": "claude-sonnet-5"},
            "model",
        ),
    ],
)
async def test_another_model_or_thinking_level_is_a_boundary_of_the_users(
    recording: Recording, kind: str, fields: dict[str, object], answer: dict[str, str], cause: str
) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.add(kind, **fields)
    recording.user("Think again.")
    recording.answer(text("Again."), **answer)
    report = await run(recording)
    assert [(e.cause, e.owner, e.avoidable) for e in report.epochs] == [
        ("first", "host", False),
        (cause, "user", False),
    ]
    assert [(miss.index, miss.cause) for miss in report.misses] == [(1, cause)]


async def test_a_compaction_is_a_boundary_of_the_hosts(recording: Recording) -> None:
    recording.user(LONG)
    recording.answer(text("Read."))
    kept = recording.user("And now?")
    recording.answer(text("This."))
    recording.add("compaction", summary="We read.", firstKeptEntryId=kept, tokensBefore=9000)
    recording.user("Go on.")
    recording.answer(text("On."))
    report = await run(recording)
    assert [(e.cause, e.owner) for e in report.epochs] == [
        ("first", "host"),
        ("compaction", "host"),
    ]
    assert [miss.cause for miss in report.misses] == ["compaction"]


async def test_going_on_from_an_earlier_entry_is_a_boundary_called_tree(
    recording: Recording,
) -> None:
    recording.user(LONG)
    fork = recording.answer(text("Yes?"))
    recording.user("The left path. " + LONG)
    recording.answer(text("Left."))
    recording.leaf = fork
    recording.add("branch_summary", fromId=fork, summary="Left was tried.")
    recording.user("The right path.")
    recording.answer(text("Right."))
    report = await run(recording)
    assert [(e.cause, e.owner) for e in report.epochs] == [("first", "host"), ("tree", "user")]
    assert [miss.cause for miss in report.misses] == ["tree"]


async def test_a_pause_beyond_the_providers_ttl_is_a_miss_called_idle(
    recording: Recording,
) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.user("Still there?", seconds=301)
    recording.answer(text("Yes."))
    report = await run(recording)
    assert [(miss.index, miss.cause) for miss in report.misses] == [(1, "idle")]
    assert report.misses[0].tokens > 8_800
    assert causes(report) == ["first"]


async def test_a_prompt_too_short_to_be_cached_is_a_miss_called_minimum(
    recording: Recording,
) -> None:
    recording.user("Hello.")
    recording.answer(text("Hello."))
    recording.user("And?")
    recording.answer(text("Nothing."))
    report = await run(recording)
    assert [miss.cause for miss in report.misses] == ["minimum"]


async def test_turns_of_more_blocks_than_anthropic_looks_back_over_are_no_miss_and_no_violation(
    recording: Recording,
) -> None:
    recording.user(LONG)
    for turn in range(3):
        ids = [f"toolu_{turn}_{n}" for n in range(11)]
        recording.answer(*map(call, ids), stop="toolUse")
        for call_id in ids:
            recording.result(call_id)
    recording.answer(text("Done."))
    report = await run(recording)
    assert [miss.cause for miss in report.misses] == []
    assert report.violations == 0


async def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_not_sent(
    recording: Recording,
) -> None:
    recording.user(LONG)
    recording.answer(call("toolu_1"), call("toolu_2"), stop="toolUse")
    recording.result("toolu_1")
    recording.user("Stop that.")
    recording.result("toolu_2")
    recording.result("toolu_9")
    recording.answer(text("Stopped."))
    report = await run(recording)
    assert report.requests == 2


async def test_an_answer_to_nothing_is_left_out_and_counted(recording: Recording) -> None:
    recording.answer(text("Welcome."))
    recording.user("Hello.")
    recording.answer(text("Hello."))
    recording.answer(text("Anything else?"))
    report = await run(recording)
    assert (report.requests, report.unsent) == (1, 2)


async def test_a_file_of_version_1_is_replayed_and_left_alone(recording: Recording) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.user("Go on.")
    recording.answer(text("On."))
    header = recording.lines[0]
    del header["version"]
    header |= {"provider": "anthropic", "modelId": "claude-opus-4-5", "thinkingLevel": "low"}
    for line in recording.lines[1:]:
        del line["id"], line["parentId"]
    recording.leaf = None
    recording.open().close()
    before = recording.path.read_bytes()
    report = await run(recording)
    assert (report.requests, causes(report)) == (2, ["first"])
    assert recording.path.read_bytes() == before
    assert [path.name for path in recording.path.parent.iterdir()] == ["session.jsonl"]


async def test_what_a_plugin_once_took_out_of_the_models_sight_stays_out(
    recording: Recording,
) -> None:
    recording.user("Hello.")
    note = recording.add("custom_message", customType="note", content=LONG, display=True)
    dropped = {"entryId": note, "dropped": True}
    recording.add("custom", customType="unipi.projection", data=dropped)
    recording.answer(text("Hello."))
    recording.user("And?")
    recording.answer(text("Nothing."))
    report = await run(recording)
    assert causes(report) == ["first"]
    assert [miss.cause for miss in report.misses] == ["minimum"]  # the long note was never sent


async def test_a_session_of_the_hosts_own_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    host = prepare_host(
        tmp_path,
        LoadOptions(builtins=builtin_plugins(), essential=ESSENTIAL, entry_points=False),
    )
    script = [[Call("ls", {"path": "."})], [Say("One file.")], [Say("Still one.")]]
    headers = {"x-api-key": "k"}
    async with Simulator(script).serve() as url:
        model = Model("sim", "claude-sim", APIS[0], url, headers=headers)
        session = Session.create(path, cwd=tmp_path)
        async with open_agent(host, session, model) as agent:
            await agent.prompt(LONG)
            await agent.prompt("And now?")
    with Session.open(path, read_only=True) as recorded:
        report = await replay(recorded)
        assert report.recorded_share == pytest.approx(report.attained_share, abs=0.01)
    assert (report.requests, report.violations, causes(report)) == (3, 0, ["first"])


def test_the_script_holds_the_recorded_answer_word_for_word() -> None:
    message = AssistantMessage(
        (
            Thinking("Hm.", "sig=="),
            Thinking("", "data", redacted=True),
            Text("I \ud800 see"),
            ToolCall("toolu_1", "read", {"a": 1}, '{ "a": 1e0 }'),
            ToolCall("toolu_2", "ls", {"b": 2, "a": 1}),
        ),
        stop_reason="length",
    )
    assert recorded_answer(message) == Answer(
        (
            Think("Hm.", "sig=="),
            Think("", "data", redacted=True),
            Say("I � see"),
            Call("read", '{ "a": 1e0 }', "toolu_1"),
            Call("ls", '{"b":2,"a":1}', "toolu_2"),
        ),
        stop="length",
        chunk=1 << 20,
    )


def test_prices_are_worked_out_from_what_the_answers_cost(recording: Recording) -> None:
    usage = {
        "input": 1_000,
        "output": 100,
        "cacheRead": 10_000,
        "cacheWrite": 2_000,
        "cost": {"input": 0.005, "output": 0.0025, "cacheRead": 0.005, "cacheWrite": 0.0125},
    }
    recording.user("Hello.")
    recording.answer(text("Hello."), usage=usage)
    with recording.open() as session:
        prices = recorded_prices(session.entries(), "anthropic", "claude-opus-4-5")
        assert recorded_prices(session.entries(), "anthropic", "other") is None
    assert prices is not None
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (
        5,
        25,
        0.5,
        6.25,
    )


def test_a_body_that_is_not_the_last_one_plus_a_tail_is_a_violation_inside_an_epoch() -> None:
    watch = PrefixWatch(Simulator([]).exchange)

    def send(*texts: str) -> None:
        messages = [{"role": "user", "content": item} for item in texts]
        body = json.dumps({"model": "m", "messages": messages}, separators=(",", ":"))
        watch("POST", "/v1/messages", {}, body.encode())

    send("one")
    send("one", "two")
    assert (watch.violations, watch.user_text) == (0, True)
    send("one", "two")  # a retry
    assert (watch.violations, watch.user_text) == (0, False)
    send("one", "other")
    assert watch.violations == 1
    watch.epoch = lambda: 1
    send("three")
    assert watch.violations == 1


def test_the_command_prints_the_documented_keys(recording: Recording) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.open().close()
    done = CliRunner().invoke(cli, ["replay", str(recording.path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["requests"] == 1
    assert found["recorded_share"] == 0.9
    assert found["violations"] == 0
    assert found["misses"] == []
    assert found["epochs"] == [{"number": 1, "cause": "first", "owner": "host", "avoidable": False}]


def test_the_command_prints_tables_for_people(recording: Recording) -> None:
    recording.user(LONG)
    recording.answer(text("Yes?"))
    recording.open().close()
    done = CliRunner().invoke(cli, ["replay", str(recording.path)])
    assert done.exit_code == 0, done.output
    assert "Recorded against attained" in done.stdout
    assert "0 byte-prefix violations" in done.stdout


def test_a_file_that_is_no_session_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("hello\n")
    done = CliRunner().invoke(cli, ["replay", str(bad)])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert str(bad) in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("api", APIS)
async def test_the_real_session_attains_more_than_it_recorded_and_explains_the_rest(
    api: str,
) -> None:
    path = SHARED / "data" / "pi-session-a.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with Session.open(path, read_only=True) as session:
        report = await replay(session, api)
    assert (report.requests, report.answered, report.unsent) == (484, 465, 0)
    assert report.violations == 0
    assert report.attained_share > report.recorded_share > 0.97
    assert [(e.cause, e.owner) for e in report.epochs] == [
        ("first", "host"),
        ("thinking", "user"),
        ("compaction", "host"),
        ("compaction", "host"),
    ]
    assert {miss.cause for miss in report.misses} <= {"minimum", "thinking", "compaction", "idle"}
