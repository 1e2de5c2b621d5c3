"""`unipi demo`: what it shows, what it promises, and what it says when a promise is not kept."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from attrs import evolve
from click.testing import CliRunner

import unipi.demo
from unipi.cli.demo import demo
from unipi.demo import Answered, DemoReport, Told, run_demo
from unipi.demo.project import environment
from unipi.demo.script import PROMPTS, actions, answer
from unipi.session import Session
from unipi.sim.engine import engine_available
from unipi_hookspecs import Boundary

_MISSING = engine_available()


@pytest.fixture(scope="module")
def told() -> list[object]:
    return []


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(str(request.param))


@pytest.fixture(scope="module")
def report(folder: Path, told: list[object]) -> DemoReport:
    backend = folder.name.rstrip("0123456789")
    run = partial(run_demo, folder, simulator=True, tell=told.append)
    return anyio.run(run, backend=backend)


def command(
    *arguments: str, home: Path, path: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`unipi demo` with nothing of this machine's but its PATH and an own home."""
    env = {"PATH": os.environ["PATH"] if path is None else path, "HOME": str(home), **variables}
    return subprocess.run(
        [sys.executable, "-m", "unipi", "demo", *arguments],
        cwd=home,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


# What the three sessions come to.


def test_with_plugins_that_behave_every_request_extends_the_last_one(report: DemoReport) -> None:
    steady = report.steady
    assert [boundary.cause for boundary in steady.boundaries] == ["first"]
    assert (steady.rewritten, steady.violations) == (0, 0)
    assert steady.share > 0.9


def test_the_model_is_told_of_changing_state_at_the_tail(
    report: DemoReport, told: list[object]
) -> None:
    assert report.steady.state_messages == 5
    states = [event.text for event in told if isinstance(event, Told)]
    assert "Not committed:\n M greet.py" in states
    assert "Everything is committed." in states


def test_under_record_the_careless_plugin_owns_both_kinds_of_boundary(report: DemoReport) -> None:
    broken = report.record.broken
    assert {(b.cause, b.owner) for b in broken} == {
        ("tools", "careless"),
        ("system_prompt", "careless"),
    }
    assert len(broken) == report.record.requests - 1
    assert report.record.share < 0.5
    assert report.record.tokens_lost > 10_000


def test_under_enforce_the_careless_plugin_is_refused_and_named(report: DemoReport) -> None:
    enforce = report.enforce
    assert [boundary.cause for boundary in enforce.boundaries] == ["first"]
    assert enforce.rewritten == 0
    assert enforce.named == ["careless"]
    assert enforce.share > 0.9


def test_the_three_sessions_do_the_same_work(report: DemoReport) -> None:
    assert {(run.prompts, run.requests, run.strayed) for run in report.runs} == {
        (len(PROMPTS), 15, "")
    }


def test_a_broken_prefix_costs_several_times_as_much(report: DemoReport) -> None:
    assert report.record.cost > 3 * report.steady.cost
    assert report.enforce.cost < 1.1 * report.steady.cost


def test_the_agent_has_changed_tested_and_committed_the_project(
    report: DemoReport, folder: Path
) -> None:
    assert not report.problems()
    for run in report.runs:
        project = folder / run.plan.name / "project"
        assert "Hello, {name or 'world'}!" in (project / "greet.py").read_text()
        assert "An empty name greets the world." in (project / "CHANGELOG.md").read_text()


def test_each_request_is_told_as_it_is_answered(report: DemoReport, told: list[object]) -> None:
    rows = [event for event in told if isinstance(event, Answered)]
    assert len(rows) >= sum(run.requests for run in report.runs)
    assert rows[0].answer == "read greet.py"


def test_the_sessions_can_be_opened_afterwards(report: DemoReport, folder: Path) -> None:
    for run in report.runs:
        with Session.open(folder / run.plan.name / "session.jsonl", read_only=True) as session:
            assert len(session.messages()) > run.requests


# When a promise is not kept.

_BOUNDARY = Boundary(2, "tools", "host", avoidable=True, tokens_lost=1)


_FAULTS: dict[str, Callable[[DemoReport], DemoReport]] = {
    "steady: 2 epochs where 1 was due": lambda r: evolve(
        r, steady=evolve(r.steady, boundaries=[*r.steady.boundaries, _BOUNDARY])
    ),
    "steady: 3 requests do not extend the last": lambda r: evolve(
        r, steady=evolve(r.steady, rewritten=3)
    ),
    "steady: 1 requests do not extend the last one of their epoch, byte for byte": (
        lambda r: evolve(r, steady=evolve(r.steady, violations=1))
    ),
    "steady: the model was not told of the changing state": lambda r: evolve(
        r, steady=evolve(r.steady, state_messages=1)
    ),
    "steady: a tool failed: bash: no": lambda r: evolve(
        r, steady=evolve(r.steady, strayed="a tool failed: bash: no")
    ),
    "steady: the host complained: hm": lambda r: evolve(
        r, steady=evolve(r.steady, warnings=[("git-state", "hm")])
    ),
    "record: the broken prefix is owned by nobody, not by 'careless'": lambda r: evolve(
        r, record=evolve(r.record, boundaries=r.steady.boundaries)
    ),
    "record: the broken prefix is owned by host, not by 'careless'": lambda r: evolve(
        r, record=evolve(r.record, boundaries=[_BOUNDARY])
    ),
    "enforce: 'careless' was not named": lambda r: evolve(
        r, enforce=evolve(r.enforce, warnings=[])
    ),
}


@pytest.mark.parametrize("message", _FAULTS)
def test_a_promise_that_is_not_kept_is_a_problem(report: DemoReport, message: str) -> None:
    assert _FAULTS[message](report).problems() == [message]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_problem_is_told_and_makes_exit_code_1(
    report: DemoReport, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(_folder: Path, **_options: object) -> DemoReport:
        return evolve(report, steady=evolve(report.steady, rewritten=3))

    monkeypatch.setattr(unipi.demo, "run_demo", failing)
    done = CliRunner().invoke(demo, flags)
    assert done.exit_code == 1
    assert "- steady: 3 requests do not extend the last" in done.stderr
    if flags:
        assert json.loads(done.stdout)["ok"] is False


# The command.


@pytest.fixture(scope="module")
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose git and UniPi settings would each stop whoever read them."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        '[core]\n\thooksPath = "/nowhere"\n[commit]\n\tgpgsign = true\n'
    )
    (home / "unipi").mkdir()
    (home / "unipi" / "settings.json").write_text("{ not json")
    return home


@pytest.mark.slow
def test_json_is_one_document_and_nothing_of_the_users_is_read(hostile_home: Path) -> None:
    done = command(
        "--simulator",
        "--json",
        home=hostile_home,
        UNIPI_HOME=str(hostile_home / "unipi"),
        LC_ALL="de_DE.UTF-8",
        GIT_DIR="/nowhere",
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert document["problems"] == []
    assert document["provider"]["kind"] == "simulator"
    assert [run["name"] for run in document["runs"]] == ["steady", "record", "enforce"]
    assert [len(run["epochs"]) for run in document["runs"]] == [1, 15, 1]
    assert document["runs"][1]["named"] == ["careless"]
    assert "'careless'" in document["conclusion"]


@pytest.mark.slow
def test_what_is_shown_is_plain_text_where_there_is_no_terminal(tmp_path: Path) -> None:
    done = command("--simulator", "--keep", str(tmp_path / "kept"), home=tmp_path, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Provider: the simulator, because it was asked for with --simulator" in done.stdout
    assert "Plugin 'careless' broke the prefix 14 times" in done.stdout
    assert "Example prices, anthropic/claude-sonnet-5 of 2026-12-01" in done.stdout
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["enforce", "record", "steady"]


def test_a_folder_to_keep_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = CliRunner().invoke(demo, ["--simulator", "--keep", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty; give --keep a new folder" in done.stderr


def test_without_git_the_way_out_is_told(tmp_path: Path) -> None:
    done = command("--simulator", home=tmp_path, path=str(tmp_path))
    assert done.returncode == 1
    assert "install git" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_AUTHOR_NAME", raising=False)
    before = dict(os.environ)
    with environment():
        assert os.environ["GIT_AUTHOR_NAME"] == "Demo"
    assert dict(os.environ) == before


# The script.


def test_no_two_answers_are_alike_as_the_engines_vocabulary_needs() -> None:
    said = [action.say for action in actions()]
    assert len(said) == len(set(said))


def test_what_the_script_does_not_know_ends_it() -> None:
    request: dict[str, object] = {"messages": [{"role": "user", "content": "What is new?"}]}
    (part,) = answer(request, 0).parts
    assert "I do not know what to do" in str(part)


# The engine.


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(300)  # two busy cores read 100,000 tokens again; 15 to 50 s were seen
@pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed")
def test_the_real_engine_bears_it_out(tmp_path: Path) -> None:
    report = anyio.run(run_demo, tmp_path)
    assert report.problems() == []
    assert report.provider.kind == "engine"
    assert report.steady.share > 0.9
    assert report.enforce.share > 0.9
    assert report.record.share < 0.5
    assert report.steady.prompt_tokens > 50_000
