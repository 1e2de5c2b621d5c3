"""Old sessions are shown, removed on request, and nothing else is ever touched."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli.main import cli
from unipi.session import Session, session_dir
from unipi_hookspecs import UserMessage

DAY = 86_400


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


def saved(home: Path, name: str, days: float) -> Path:
    """A session last written so many days ago, with a key and an artifact."""
    path = session_dir(home / "work") / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with Session.create(path, cwd=home / "work") as session:
        session.append_message(UserMessage("hello", 1))
        session.secret()
    artifacts = path.with_suffix(".artifacts")
    artifacts.mkdir()
    (artifacts / "one.txt").write_text("x" * 100)
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


def run(*arguments):
    done = CliRunner().invoke(cli, ["sessions", "clean", *map(str, arguments)])
    assert "Traceback" not in done.output
    return done


def everything(home: Path) -> set[Path]:
    return set((home / "home").rglob("*"))


def test_old_sessions_are_shown_and_stay(home):
    old, new = saved(home, "old", 40), saved(home, "new", 3)
    before = everything(home)
    done = run()
    assert done.exit_code == 0
    assert str(old) in done.output
    assert str(new) not in done.output
    assert "--yes removes them" in done.output
    assert everything(home) == before


def test_with_yes_a_session_goes_with_its_key_and_artifacts_and_nothing_else(home):
    old, new = saved(home, "old", 40), saved(home, "new", 3)
    foreign = old.with_name("notes.jsonl")
    foreign.write_text('{"type": "note"}\n')
    data = old.with_name("memory.db")
    data.write_text("x")
    for path in (foreign, data):
        os.utime(path, (1, 1))
    done = run("--yes")
    assert done.exit_code == 0, done.output
    assert "1 sessions removed" in done.output
    left = {path.name for path in old.parent.iterdir()}
    assert left == {
        *("new.jsonl", "new.key", "new.artifacts", "new.jsonl.lock"),
        *("notes.jsonl", "memory.db"),
    }
    assert new.exists()


def test_a_session_in_use_is_left_alone(home):
    old = saved(home, "old", 40)
    with Session.open(old):
        os.utime(old, (1, 1))
        done = run("--yes")
    assert f"in use, left alone: {old}" in done.output
    assert old.exists()


def test_a_file_from_elsewhere_is_refused_and_nothing_is_removed(home):
    old = saved(home, "old", 40)
    elsewhere = home / "work" / "copy.jsonl"
    elsewhere.write_bytes(old.read_bytes())
    os.utime(elsewhere, (1, 1))
    done = run("--yes", elsewhere, old)
    assert done.exit_code == 2
    assert "is no session file in" in done.output
    assert elsewhere.exists()
    assert old.exists()


def test_a_link_is_no_session(home):
    old = saved(home, "old", 40)
    outside = home / "work" / "mine.jsonl"
    outside.write_bytes(old.read_bytes())
    link = old.with_name("link.jsonl")
    link.symlink_to(outside)
    assert run("--yes", link).exit_code == 2
    assert outside.exists()
    run("--yes", "--older-than", "0")
    assert outside.exists()
    assert link.is_symlink()


def test_named_files_alone_are_looked_at(home):
    one, other = saved(home, "one", 40), saved(home, "other", 40)
    run("--yes", one)
    assert not one.exists()
    assert other.exists()


def test_the_json_document_lists_what_is_old_and_what_was_removed(home):
    old = saved(home, "old", 40)
    document = json.loads(run("--json").output)
    assert [row["path"] for row in document["old"]] == [str(old)]
    assert document["old"][0]["bytes"] > 100
    assert document["removed"] == []
    assert json.loads(run("--json", "--yes").output)["removed"] == [str(old)]
    assert run().output == "no session is older than 30 days\n"
