"""The text of the resume context, from entries alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import unipi_compactor
from unipi.session import Session
from unipi_compactor.resume import TYPE, is_due, render
from unipi_hookspecs import (
    AssistantMessage,
    BeforeAgentStartEvent,
    CustomMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


@pytest.fixture
def session():
    return Session.create(None, cwd=Path.cwd())


def does(session, name, result="ok", *, error=False, **arguments):
    call = ToolCall(f"c{len(session.entries())}", name, arguments)
    session.append_message(AssistantMessage((call,), timestamp=1))
    session.append_message(ToolResultMessage(call.id, name, (Text(result),), error, timestamp=1))


def test_it_says_the_last_request_the_files_changed_last_and_what_is_still_broken(session):
    session.append_message(UserMessage("Port the lexer.", 1))
    for n in range(20):
        does(session, "write", path=f"src/f{n}.py")
    does(session, "bash", "error: no rule", error=True, command="make all")
    does(session, "bash", "error: gone", error=True, command="make docs")
    does(session, "bash", "fine", command="make docs")
    last = session.append_message(UserMessage("Now the parser,\n  with care.", 1)).id
    text = render(session.branch(), 2_048)
    assert f"The last request [{last}]:\nNow the parser,\n  with care." in text
    assert "src/f19.py" in text
    assert "src/f11.py" not in text
    assert "make all: error: no rule" in text
    assert "make docs" not in text


def test_the_same_entries_give_the_same_text_with_no_time_and_no_folder_in_it(session):
    session.append_message(UserMessage("Port the lexer.", 1_700_000_000_000))
    text = render(session.branch(), 2_048)
    assert text == render(list(session.branch()), 2_048)
    assert str(Path.cwd()) not in text
    assert "1700" not in text
    assert "2023" not in text


def test_it_is_due_behind_a_compaction_of_ours_until_it_is_stored(session):
    session.append_message(UserMessage("Port the lexer.", 1))
    assert not is_due(session.branch())
    session.append("compaction", {"summary": "by a model", "firstKeptEntryId": ""})
    assert not is_due(session.branch())
    details = {"compactor": "unipi-compactor"}
    session.append("compaction", {"summary": "s", "firstKeptEntryId": "", "details": details})
    session.append_message(UserMessage("said meanwhile", 1))
    assert is_due(session.branch())
    session.append_message(CustomMessage(TYPE, "text", display=False, timestamp=1))
    assert not is_due(session.branch())


def test_later_prompts_look_at_nothing(session):
    looks = []

    def branch():
        looks.append(1)
        return session.branch()

    ctx = SimpleNamespace(session=SimpleNamespace(id="quiet", branch=branch), settings={})
    event = BeforeAgentStartEvent("go", (), "")
    for _ in range(50):
        assert unipi_compactor.before_agent_start(event, ctx) is None
    assert len(looks) == 1
