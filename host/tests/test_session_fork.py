"""Forks, moves in the tree, and the secret beside the file."""

import stat
from pathlib import Path

import pytest

from unipi.session import Session, SessionError
from unipi_hookspecs import AssistantMessage, Text, UserMessage


@pytest.fixture
def session(tmp_path):
    with Session.create(tmp_path / "main.jsonl", cwd=Path("/w")) as session:
        yield session


def test_a_fork_holds_the_path_up_to_its_entry_with_the_same_messages(session, tmp_path):
    blocks = (Text("a"), Text("skills\n"))
    session.append_message(UserMessage(blocks, 1))
    at = session.append_message(AssistantMessage((Text("b"),), timestamp=2))
    session.append_message(UserMessage("c"))
    with session.fork(tmp_path / "fork.jsonl", at.id) as fork:
        assert [e.id for e in fork.entries()] == [e.id for e in session.entries()[:2]]
        assert fork.messages() == session.messages()[:2]
        assert fork.header["parentSession"] == str(session.path)
        assert fork.id != session.id
        assert fork.cwd == session.cwd
    with Session.open(tmp_path / "fork.jsonl") as again:
        assert again.messages() == session.messages()[:2]


def test_labels_leave_the_chain_and_are_set_again_at_the_end(session):
    first = session.append_message(UserMessage("a"))
    session.append("label", {"targetId": first.id, "label": "old"})
    second = session.append_message(UserMessage("b"))
    session.append("label", {"targetId": second.id, "label": "gone"})
    session.append("label", {"targetId": second.id})
    session.append("label", {"targetId": first.id, "label": "start"})
    third = session.append_message(UserMessage("c"))
    fork = session.fork(None, third.id)
    *messages, label = fork.entries()
    assert [e.id for e in messages] == [first.id, second.id, third.id]
    assert [e.parent_id for e in messages] == [None, first.id, second.id]
    assert label.type == "label"
    assert label.parent_id == third.id
    assert (label.fields["targetId"], label.fields["label"]) == (first.id, "start")


def test_a_fork_before_the_first_entry_is_empty(session):
    session.append_message(UserMessage("a"))
    assert session.fork(None, None).entries() == []


def test_a_fork_is_not_made_over_a_file(session):
    with pytest.raises(SessionError, match="exists already"):
        session.fork(session.path, None)


def test_an_entry_that_is_not_there_is_named(session):
    for act in (session.move_leaf, lambda entry: session.fork(None, entry)):
        with pytest.raises(SessionError, match="has no entry deadbeef"):
            act("deadbeef")


def test_a_move_that_nothing_follows_is_not_remembered(session):
    first = session.append_message(UserMessage("a"))
    second = session.append_message(UserMessage("b"))
    session.move_leaf(first.id)
    assert session.leaf_id == first.id
    path = session.path
    session.close()
    with Session.open(path) as again:
        assert again.leaf_id == second.id


def test_the_secret_is_random_stays_the_same_and_is_for_the_owner_alone(session):
    secret = session.secret()
    key = session.path.with_suffix(".key")
    assert len(secret) == 32
    assert key.read_bytes() == secret
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    path = session.path
    session.close()
    with Session.open(path) as again:
        assert again.secret() == secret


def test_a_missing_or_damaged_secret_is_made_anew(session):
    old = session.secret()
    path = session.path
    session.close()
    path.with_suffix(".key").write_bytes(b"short")
    with Session.open(path) as again:
        new = again.secret()
    assert len(new) == 32
    assert new != old
    assert path.with_suffix(".key").read_bytes() == new


def test_a_secret_that_others_could_read_is_closed_to_them(session):
    secret = session.secret()
    key = session.path.with_suffix(".key")
    key.chmod(0o644)
    path = session.path
    session.close()
    with Session.open(path) as again:
        assert again.secret() == secret
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_secret_is_not_read_through_a_link(session, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 32)
    session.path.with_suffix(".key").symlink_to(elsewhere)
    assert session.secret() != b"x" * 32


def test_sessions_in_memory_and_readers_without_one_have_a_secret_of_their_own(session):
    memory = Session.create(None, cwd=Path("/w"))
    assert len(memory.secret()) == 32
    assert memory.secret() == memory.secret()
    assert memory.secret() != Session.create(None, cwd=Path("/w")).secret()
    with Session.open(session.path, read_only=True) as reader:
        assert len(reader.secret()) == 32
    assert not session.path.with_suffix(".key").exists()
