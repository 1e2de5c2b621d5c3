"""Files of versions 1 and 2: read as version 3, never rewritten, gone on from in a copy."""

import json
from pathlib import Path

import pytest

from unipi.session import Session
from unipi_hookspecs import CustomMessage, SummaryMessage, UserMessage

PI_SESSION = Path(__file__).parents[3] / "shared" / "data" / "pi-session-a.jsonl"
needs_data = pytest.mark.skipif(
    not PI_SESSION.exists(), reason="the recorded session (shared/data) is not here"
)


def user(text):
    return {
        "type": "message",
        "timestamp": "2025-12-08T22:41:05.306Z",
        "message": {"role": "user", "content": text, "timestamp": 5},
    }


def write(path, *objects):
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


@pytest.fixture
def old(tmp_path):
    hook = {"role": "hookMessage", "customType": "note", "content": "n", "display": True}
    return write(
        tmp_path / "old.jsonl",
        {"type": "session", "id": "s1", "timestamp": "t", "cwd": "/w", "provider": "p"},
        user("a"),
        user("b"),
        {"type": "compaction", "timestamp": "t", "summary": "s", "firstKeptEntryIndex": 2},
        {"type": "message", "timestamp": "t", "message": {**hook, "timestamp": 6}},
    )


def test_version_1_gets_ids_a_chain_and_the_first_kept_entry_by_id(old):
    before = old.read_bytes()
    with Session.open(old) as session:
        entries = session.entries()
        assert [e.parent_id for e in entries] == [None, *(e.id for e in entries[:-1])]
        assert len({e.id for e in entries}) == 4
        # Index 2 counts the header as 0: the second entry.
        assert entries[2].fields["firstKeptEntryId"] == entries[1].id
        assert "firstKeptEntryIndex" not in entries[2].fields
        assert session.messages() == [
            SummaryMessage("compaction", "s", 0),
            UserMessage("b", 5),
            CustomMessage("note", "n", timestamp=6),
        ]
        assert session.header["version"] == 3
        assert session.header["provider"] == "p"
    assert old.read_bytes() == before


def test_two_openings_of_version_1_agree_on_ids(old):
    with Session.open(old) as one, Session.open(old, read_only=True) as two:
        assert one.entries() == two.entries()


def test_equal_lines_of_version_1_get_different_ids(tmp_path):
    path = write(tmp_path / "s.jsonl", {"type": "session", "id": "s"}, *[user("a")] * 20)
    with Session.open(path) as session:
        assert len({e.id for e in session.entries()}) == 20


def test_an_index_that_points_nowhere_keeps_nothing(tmp_path):
    header = {"type": "session", "id": "s"}
    compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 99}
    path = write(tmp_path / "s.jsonl", header, user("a"), compaction, user("b"))
    with Session.open(path) as session:
        assert [m.role for m in session.messages()] == ["summary", "user"]


def test_version_2_calls_a_hook_message_a_custom_message(tmp_path):
    hook = {"role": "hookMessage", "customType": "note", "content": "n", "display": False}
    path = write(
        tmp_path / "s.jsonl",
        {"type": "session", "version": 2, "id": "s1", "timestamp": "t", "cwd": "/w"},
        {"type": "message", "id": "aaaaaaaa", "parentId": None, "timestamp": "t", "message": hook},
    )
    with Session.open(path) as session:
        (entry,) = session.entries()
        assert entry.id == "aaaaaaaa"
        assert entry.fields["message"]["role"] == "custom"
        assert entry.message.custom_type == "note"


def test_a_version_from_the_future_is_read_as_it_is(tmp_path):
    entry = {"type": "message", "id": "a", "parentId": None, **user("x")}
    path = write(tmp_path / "s.jsonl", {"type": "session", "version": 9, "id": "s"}, entry)
    with Session.open(path) as session:
        assert session.header["version"] == 9
        assert session.messages() == [UserMessage("x", 5)]
        session.append_message(UserMessage("y"))
        assert session.path == path


def test_the_first_append_to_an_old_version_goes_to_a_migrated_copy(old):
    before = old.read_bytes()
    with Session.open(old) as session:
        assert "older version" in session.notice
        told = session.entries()
        secret = session.secret()
        new = session.append_message(UserMessage("next", 9))
        copy = old.with_name("old.v3.jsonl")
        assert session.path == copy
        assert str(copy) in session.notice
        session.sync()
        assert session.secret() == secret
    assert old.read_bytes() == before
    with Session.open(copy) as again:
        assert again.id == "s1"
        assert again.entries() == [*told, new]
        assert again.secret() == secret
        assert again.notice is None
    with Session.open(old) as once_more:
        assert str(copy) in once_more.notice
        once_more.append_message(UserMessage("other way", 9))
        assert once_more.path == old.with_name("old.v3-2.jsonl")


def test_a_torn_tail_of_an_old_version_is_reported_and_left_in_the_file(old):
    old.write_bytes(old.read_bytes() + b'{"type":"mess')
    before = old.read_bytes()
    with Session.open(old) as session:
        assert session.damages[0].moved_to is None
        session.append_message(UserMessage("next"))
    assert old.read_bytes() == before


@needs_data
def test_a_recorded_session_of_pi_opens_to_the_context_that_pi_makes_of_it():
    before = PI_SESSION.read_bytes()
    with Session.open(PI_SESSION, read_only=True) as session:
        assert len(session.entries()) == 1002
        context = session.context()
        assert context[0].message.role == "summary"
        # Pi hands 446 messages on and lets its adapters skip what failed; we skip it here.
        failed = [line for line in session.left_out() if "the answer" in line]
        stand_ins = [item for item in context if item.synthesised]
        assert len(context) - len(stand_ins) + len(failed) == 446
        assert session.damages == ()
    assert PI_SESSION.read_bytes() == before


@needs_data
def test_the_recorded_session_goes_on_in_a_copy_with_the_same_context(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PI_SESSION.read_bytes())
    with Session.open(path) as session:
        context = session.context()
        new = session.append_message(UserMessage("go on"))
        migrated = session.path
    with Session.open(migrated) as again:
        assert [i.message for i in again.context()] == [*(i.message for i in context), new.message]
        assert [i.entry_id for i in again.context()][:-1] == [i.entry_id for i in context]
