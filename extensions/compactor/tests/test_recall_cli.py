"""`unipi recall`, with what the host hands to a command."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from unipi.cli.extend import Host
from unipi.session import Session
from unipi.session.listing import new_session_path
from unipi_compactor.cli import recall
from unipi_compactor.index import FILE_NAME
from unipi_hookspecs import UserMessage


@pytest.fixture
def unipi(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)

    def run(*arguments):
        return CliRunner().invoke(recall, arguments, obj=Host())

    return run


def say(cwd, *texts):
    path, number = new_session_path(cwd)
    with Session.create(path, cwd=cwd, id=number) as session:
        for text in texts:
            session.append_message(UserMessage(text, 1_700_000_000_000))
    return path


def test_people_find_what_was_said_in_any_session_of_the_folder(unipi, tmp_path):
    say(tmp_path / "project", "The gannet dives at noon.")
    say(tmp_path / "project", "Nothing of the kind.")
    say(tmp_path / "other", "The gannet of another folder.")
    done = unipi("gannet", "noon")
    assert done.exit_code == 0, done.output
    assert "The gannet dives at noon." in done.output
    assert "another folder" not in done.output


def test_the_document_has_the_total_and_the_hits(unipi, tmp_path):
    say(tmp_path / "project", *(f"gannet {n}" for n in range(15)))
    done = unipi("gannet", "--json", "--limit", "4", "--offset", "12")
    told = json.loads(done.stdout)
    assert (told["total"], told["more"], told["offset"]) == (15, False, 12)
    assert len(told["hits"]) == 3
    assert set(told["hits"][0]) == {"entry", "kind", "time", "title", "text"}


def test_rebuild_makes_the_index_again_from_the_files(unipi, tmp_path):
    path = say(tmp_path / "project", "one gannet", "two gannets")
    (path.parent / FILE_NAME).write_bytes(b"no database" * 999)
    done = unipi("--rebuild")
    assert done.output.strip() == "2 entries are indexed"


def test_one_entry_is_shown_by_its_id(unipi, tmp_path):
    path = say(tmp_path / "project", "the whole gannet")
    with Session.open(path, read_only=True) as session:
        (entry,) = session.entries()
    assert "the whole gannet" in unipi("--entry", entry.id).output


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("gannet",), 1)])
def test_what_cannot_be_done_is_told_without_a_traceback(unipi, arguments, code):
    done = unipi(*arguments)
    assert done.exit_code == code
    assert isinstance(done.exception, SystemExit)


def test_what_a_session_holds_cannot_steer_the_terminal(unipi, tmp_path):
    say(tmp_path / "project", "a gannet \x1b]0;owned\x07 and \x9b31m red")
    shown = unipi("gannet").output
    assert "a gannet \ufffd]0;owned\ufffd and \ufffd31m red" in shown
