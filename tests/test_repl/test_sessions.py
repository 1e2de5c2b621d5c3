"""Going from one session to another at the prompt, in plain mode: lines in, text out."""

from __future__ import annotations

import stat

import pytest

from unipi.session import Session, list_sessions
from unipi.sim import Call, Say, Simulator, run_simulator
from unipi.sim.script import Fault
from unipi.testing import prefix_breaks
from unipi_hookspecs import AssistantMessage, UserMessage

pytestmark = pytest.mark.slow


@pytest.fixture
def say(cli, monkeypatch: pytest.MonkeyPatch):
    """Say lines to `unipi`; returns what came out, what was told beside, and the simulator."""
    monkeypatch.setenv("UNIPI_HOME", str(cli.home))

    def lines(*said: str, script=(), args=(), **settings):
        sim = Simulator(list(script), profile="anthropic")
        with run_simulator(sim) as url:
            cli.serve_model(url)
            cli.settings(**{"default_model": "sim/one", **settings})
            process = cli.start(*args, stdin=-1)
            out, err = process.communicate("".join(f"{line}\n" for line in said), timeout=30)
        assert process.returncode == 0, err
        assert "\x1b" not in out + err
        return out, err, sim

    return lines


def spoken(path) -> list[str]:
    with Session.open(path, read_only=True) as session:
        return [str(m.content) for m in session.messages() if isinstance(m, UserMessage)]


def test_lines_in_are_worked_on_one_after_the_other_and_the_answers_come_out(say) -> None:
    out, err, sim = say(
        "one", "two", script=[Say("First."), Call("ls", {"path": "."}), Say("Second.")]
    )
    assert out == "First.\nSecond.\n"
    assert "· ls ." in err
    assert "cache " in err
    assert prefix_breaks(sim.requests) == []


def test_a_question_takes_no_line_of_a_pipe_for_its_answer(say, cli) -> None:
    plugin = cli.plugin(
        "asks",
        "manifest = Manifest(name='asks', api=1)\n"
        "@hookimpl\nasync def input(event, ctx):\n"
        "    sure = await ctx.ui.confirm('sure?')\n"
        "    ctx.ui.notify(f'{ctx.ui.interactive} {sure}')\n",
    )
    out, err, _ = say("one", "y", script=[Say("First."), Say("Second.")], args=("-e", plugin))
    assert out == "First.\nSecond.\n"
    assert err.count("False False") == 2


def test_new_begins_another_session_with_the_same_model(say, cli) -> None:
    say("one", "/new", "two", script=[Say("First."), Say("Second.")])
    found = list_sessions(cli.folder)
    assert sorted(spoken(info.path) for info in found) == [["one"], ["two"]]
    assert all(stat.S_IMODE(info.path.stat().st_mode) == 0o600 for info in found)


def test_resume_goes_on_with_the_stored_prefix(say, cli) -> None:
    say("one", script=[Say("First.")])
    (before,) = list_sessions(cli.folder)
    say("two", f"/resume {before.id}", "three", script=[Say("Second."), Say("Third.")])
    assert spoken(before.path) == ["one", "three"]
    with Session.open(before.path, read_only=True) as session:
        epochs = [e for e in session.branch() if e.fields.get("customType") == "unipi.epoch"]
    assert len(epochs) == 1


def test_continue_takes_the_model_that_answered_last(say, cli) -> None:
    say("one", script=[Say("First.")])
    _, err, _ = say("two", script=[Say("Second.")], args=("--continue",), default_model="no/model")
    (info,) = list_sessions(cli.folder)
    assert spoken(info.path) == ["one", "two"]
    assert "epoch 1" in err


def test_clone_goes_on_in_a_copy_and_the_prefix_holds(say, cli) -> None:
    _, _, sim = say("one", "/clone", "two", script=[Say("First."), Say("Second.")])
    assert sorted(spoken(info.path) for info in list_sessions(cli.folder)) == [
        ["one"],
        ["one", "two"],
    ]
    assert prefix_breaks(sim.requests) == []


def test_fork_ends_before_a_prompt_and_gives_it_back_to_be_changed(say, cli) -> None:
    say("one", "two", script=[Say("First."), Say("Second.")])
    (info,) = list_sessions(cli.folder)
    with Session.open(info.path, read_only=True) as session:
        entry = [e for e in session.branch() if isinstance(e.message, UserMessage)][1]
    _, err, _ = say(f"/fork {entry.id}", "three", script=[Say("Third.")], args=("--continue",))
    assert "it said: two" in err
    forked = next(each for each in list_sessions(cli.folder) if each.path != info.path)
    assert spoken(forked.path) == ["one", "three"]
    assert spoken(info.path) == ["one", "two"]


def test_tree_goes_on_from_an_earlier_entry_of_the_same_session(say, cli) -> None:
    say("one", "two", script=[Say("First."), Say("Second.")])
    (info,) = list_sessions(cli.folder)
    with Session.open(info.path, read_only=True) as session:
        entry = next(e for e in session.branch() if isinstance(e.message, AssistantMessage))
    say(f"/tree {entry.id}", "three", script=[Say("Third.")], args=("--continue",))
    assert spoken(info.path) == ["one", "three"]


def test_tree_before_a_prompt_gives_its_text_back(say, cli) -> None:
    say("one", "two", script=[Say("First."), Say("Second.")])
    (info,) = list_sessions(cli.folder)
    with Session.open(info.path, read_only=True) as session:
        entry = [e for e in session.branch() if isinstance(e.message, UserMessage)][1]
    out, err, sim = say(f"/tree {entry.id}", "three", script=[Say("3.")], args=("--continue",))
    assert "the work goes on behind" in out
    assert "it said: two" in err
    assert spoken(info.path) == ["one", "three"]
    assert b'"content":"two"' not in sim.requests[0].body


def test_a_plugin_may_keep_the_user_where_they_are(say, cli) -> None:
    plugin = cli.plugin(
        "stays",
        "manifest = Manifest(name='stays', api=1)\n"
        "@hookimpl\ndef session_before_switch(event, ctx):\n"
        "    return Cancel('not before the tests are green')\n",
    )
    out, _, _ = say("/new", "one", script=[Say("First.")], args=("-e", plugin))
    assert "not before the tests are green" in out
    assert len(list_sessions(cli.folder)) == 1


def test_model_thinking_and_name_are_kept_in_the_session(say, cli) -> None:
    out, _, _ = say(
        "/name  the  plan", "/name", "/thinking", "/model nobody/nothing", "one", script=[Say("1.")]
    )
    assert "the session's name is 'the plan' from now on" in out
    assert "nobody/nothing" in out
    (info,) = list_sessions(cli.folder)
    assert info.name == "the plan"


def test_resume_says_when_there_is_no_such_session_or_no_other(say) -> None:
    _, err, _ = say("/resume 0000", "/resume")
    assert "0000: no session file and no session id" in err


def test_a_provider_that_fails_is_told_and_the_next_line_is_taken(say) -> None:
    broken = Fault(status=400, type="invalid_request_error", message="no such thing")
    out, err, _ = say("one", "two", script=[broken, Say("Second.")])
    assert "no such thing" in err
    assert out == "Second.\n"


def test_compact_and_reload_come_from_the_agent_and_are_boundaries(say) -> None:
    out, _, _ = say("one", "/reload", "/compact", "two", script=[Say("First."), Say("Second.")])
    assert "files are read again" in out
    assert "not compacted" in out


def test_the_thinking_level_of_a_session_comes_back_with_it(say, cli) -> None:
    say("one", script=[Say("First.")], args=("--thinking", "low"))
    (info,) = list_sessions(cli.folder)
    _, err, _ = say("two", script=[Say("Second.")], args=("--session", str(info.path)))
    assert "sim/one (low)" in err
    assert "epoch 1" in err


def test_options_of_a_command_are_refused_in_front_of_it(cli) -> None:
    done = cli.run("--model", "sim/one", "run", "-p", "x")
    assert done.returncode == 2
    assert "options of a command stand behind it" in done.stderr


def test_a_session_that_nobody_said_anything_in_leaves_no_file(say, cli) -> None:
    say("/status")
    say("/new", "/new", "one", script=[Say("First.")])
    (info,) = list_sessions(cli.folder)
    assert spoken(info.path) == ["one"]
    assert {path.name.split(".")[0] for path in info.path.parent.iterdir()} == {info.path.stem}


def test_a_named_session_and_a_file_of_the_users_own_stay(say, cli) -> None:
    say("/name kept")
    say("/status", args=("--session", "own.jsonl"))
    assert [info.name for info in list_sessions(cli.folder)] == ["kept"]
    assert (cli.folder / "own.jsonl").exists()


def test_no_control_character_of_a_model_is_written(say) -> None:
    out, _, _ = say("one", script=[Say("\x1b]52;c;b3duZWQ=\x07 a\r\nb \x9b2J")])
    assert out.endswith(" a\nb \ufffd2J\n")
    assert all(char.isprintable() or char == "\n" for char in out)


def test_a_keep_warm_that_is_no_number_is_told_before_anything_begins(cli) -> None:
    cli.settings(default_model="sim/one", keep_warm="often")
    done = cli.run("--plain", "--no-session")
    assert done.returncode == 2
    assert "`keep_warm` must be a number of pings" in done.stderr


def test_without_a_model_nothing_begins_and_no_file_is_left(cli, monkeypatch) -> None:
    monkeypatch.setenv("UNIPI_HOME", str(cli.home))
    done = cli.run("--plain")
    assert done.returncode == 2
    assert "no model: say --model" in done.stderr
    assert list_sessions(cli.folder) == []
