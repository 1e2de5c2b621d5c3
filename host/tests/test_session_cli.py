"""`unipi sessions`: what people and programs get to see of a session file."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli.sessions import sessions
from unipi.session import Session, new_session_path
from unipi_hookspecs import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def made(here):
    path, new = new_session_path(Path.cwd())
    with Session.create(path, cwd=Path.cwd(), id=new) as session:
        first = session.append_message(UserMessage("first \x1b[31mred [bold]not bold[/bold]"))
        session.append_message(ToolResultMessage("c0", "bash", (Text("orphan"),)))
        session.append_message(AssistantMessage((Text("one"),)))
        session.move_leaf(first.id)
        session.append_message(AssistantMessage((ToolCall("c1", "bash", {"command": "ls"}),)))
    return path


def run(*args, code=0):
    result = CliRunner().invoke(sessions, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result.output


def test_list_names_the_sessions_of_this_folder(made):
    (info,) = json.loads(run("list", "--json"))
    assert info["path"] == str(made)
    assert info["id"] in run("list")


def test_list_puts_helpers_below_their_session(made):
    path, new = new_session_path(Path.cwd())
    Session.create(path, cwd=Path.cwd(), id=new, parent=made).close()
    os.utime(made, (1, 1))
    listed = json.loads(run("list", "--json"))
    assert [info["side"] for info in listed] == [True, False]
    lines = run("list")
    assert lines.index(listed[1]["id"]) < lines.index("  " + listed[0]["id"])


def test_list_says_so_when_there_are_none(here):
    assert "no sessions here" in run("list")
    assert json.loads(run("list", "--json")) == []


def test_show_reports_what_the_model_sees_what_is_left_out_and_what_is_open(made):
    shown = json.loads(run("show", made, "--json"))
    assert [item["role"] for item in shown["context"]] == ["user", "assistant"]
    assert [call["name"] for call in shown["open_calls"]] == ["bash"]
    assert shown["damages"] == []
    text = run("show", made)
    assert "[bold]not bold[/bold]" in text
    assert "\x1b" not in text
    assert "open call: bash c1" in text


def test_show_reports_damage_and_left_out_entries(made):
    with Session.open(made) as session:
        orphan = session.entries()[1]
        session.move_leaf(orphan.id)
        session.append_message(UserMessage("again"))
    with made.open("ab") as file:
        file.write(b'{"half')
    before = made.read_bytes()
    shown = json.loads(run("show", made, "--json"))
    assert len(shown["left_out"]) == 1
    assert shown["left_out"][0].startswith(orphan.id)
    assert shown["damages"][0]["offset"] == len(before) - 6
    assert "left out: " in run("show", made)
    assert "damage at byte" in run("show", made)
    assert made.read_bytes() == before


def test_tree_indents_at_branches_alone_and_marks_the_leaf(made):
    lines = run("tree", made).splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines]
    assert indents == [0, 2, 2, 2]
    assert [line.endswith("<- leaf") for line in lines] == [False, False, False, True]
    drawn = json.loads(run("tree", made, "--json"))["entries"]
    assert [entry["depth"] for entry in drawn] == [0, 1, 1, 1]
    assert [entry["leaf"] for entry in drawn] == [False, False, False, True]


def test_a_session_is_named_by_its_id_as_well(made):
    told = json.loads(run("list", "--json"))[0]["id"]
    assert json.loads(run("show", told, "--json"))["id"] == told


@pytest.mark.parametrize("command", ["show", "tree"])
def test_what_is_not_there_or_no_session_is_named_and_ends_with_2(command, here):
    assert "gone.jsonl" in run(command, "gone.jsonl", code=2)
    Path("notes.jsonl").write_text("hello\n")
    assert "notes.jsonl is not a session" in run(command, "notes.jsonl", code=2)
