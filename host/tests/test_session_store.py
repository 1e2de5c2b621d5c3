"""The file: what is on it, when, and what a crash or a full disk does to it."""

import errno
import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from unipi.session import Session, SessionError, SessionWriteError, store
from unipi_hookspecs import CustomMessage, SessionView, Text, UserMessage

HEADER = (
    b'{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
)


def line(number: int, parent: int | None = None, text: str = "hi") -> bytes:
    entry = {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": None if parent is None else f"{parent:08x}",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": text, "timestamp": 5},
    }
    return json.dumps(entry, ensure_ascii=False).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "deep" / "s.jsonl"


def test_a_new_session_is_one_header_line_on_disk_for_the_owner_alone(path):
    session = Session.create(path, cwd=Path("/w"), id="my-id")
    header = json.loads(path.read_bytes())
    assert header["type"] == "session"
    assert header["version"] == 3
    assert header["id"] == session.id == "my-id"
    assert header["cwd"] == "/w"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    session.close()


def test_a_file_that_exists_is_not_created_over(path):
    Session.create(path, cwd=Path("/w")).close()
    before = path.read_bytes()
    with pytest.raises(SessionError, match="exists already"):
        Session.create(path, cwd=Path("/w"))
    assert path.read_bytes() == before


def test_an_entry_is_in_the_file_before_any_sync(path):
    with Session.create(path, cwd=Path("/w")) as session:
        entry = session.append_message(UserMessage("one"))
        last = json.loads(path.read_bytes().splitlines()[-1])
        assert last == entry.fields
        assert list(last)[:4] == ["type", "id", "parentId", "timestamp"]
        assert session.unsaved == 1
        session.sync()
        assert session.unsaved == 0


def test_entries_chain_to_their_parents_with_unique_ids_of_eight_hex_digits():
    session = Session.create(None, cwd=Path("/w"))
    entries = [session.append_message(UserMessage(str(n))) for n in range(50)]
    assert len({e.id for e in entries}) == 50
    assert all(len(e.id) == 8 and int(e.id, 16) >= 0 for e in entries)
    assert [e.parent_id for e in entries] == [None, *(e.id for e in entries[:-1])]
    assert session.branch() == entries


def test_the_session_is_the_view_that_plugins_get():
    view: SessionView = Session.create(None, cwd=Path("/w"))
    assert view.path is None
    assert view.messages() == []


def test_custom_entries_are_found_on_the_branch_and_hold_what_a_reader_would_find():
    session = Session.create(None, cwd=Path("/w"))
    first = session.append_custom("state", {"n": (1, 2)})
    data = {"n": [3]}
    session.append_custom("state", data)
    data["n"].append(4)
    assert session.custom("state") == {"n": [3]}
    session.move_leaf(first.id)
    assert session.custom("state") == {"n": [1, 2]}
    assert session.custom("other") is None


def test_the_name_is_the_last_one_given_and_an_empty_one_clears_it():
    session = Session.create(None, cwd=Path("/w"))
    assert session.name is None
    session.append("session_info", {"name": " fix the bug "})
    assert session.name == "fix the bug"
    session.append("session_info", {"name": ""})
    assert session.name is None


def test_data_that_json_cannot_carry_is_refused_and_nothing_is_written(path):
    with Session.create(path, cwd=Path("/w")) as session:
        before = path.read_bytes()
        with pytest.raises(SessionError, match="is not JSON"):
            session.append_custom("x", {"a": object()})
        assert path.read_bytes() == before
        assert session.entries() == []


@pytest.mark.parametrize(
    "torn",
    [
        pytest.param(line(2, 1)[:40], id="half an object"),
        pytest.param(line(2, 1, "ab€")[:-6], id="cut inside a character"),
        pytest.param(b"\0" * 64, id="zeros after a power cut"),
    ],
)
def test_a_torn_last_line_is_set_aside_and_the_next_entry_has_a_line_of_its_own(path, torn):
    good = HEADER + line(1)
    path.parent.mkdir(parents=True)
    path.write_bytes(good + torn)
    with Session.open(path) as session:
        (damage,) = session.damages
        assert damage.offset == len(good)
        assert damage.moved_to == path.with_name(f"s.jsonl.torn-{len(good)}")
        assert damage.moved_to.read_bytes() == torn
        assert stat.S_IMODE(damage.moved_to.stat().st_mode) == 0o600
        assert str(damage.moved_to.name) in session.notice
        new = session.append_message(UserMessage("next"))
        assert new.parent_id == "00000001"
    assert path.read_bytes().startswith(good + b'{"type":"message"')
    with Session.open(path) as again:
        assert [e.id for e in again.entries()] == ["00000001", new.id]
        assert again.damages == ()


def test_setting_aside_twice_at_one_offset_keeps_both_pieces(path):
    path.parent.mkdir(parents=True)
    for piece in (b"{one", b"{two"):
        path.write_bytes(HEADER + piece)
        Session.open(path).close()
    pieces = {p.read_bytes() for p in path.parent.glob("*.torn-*")}
    assert pieces == {b"{one", b"{two"}


def test_read_only_a_torn_line_is_reported_and_left_where_it_is(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(HEADER + line(1) + b"{half")
    with Session.open(path, read_only=True) as session:
        assert session.damages[0].moved_to is None
        assert len(session.entries()) == 1
        with pytest.raises(SessionError, match="read-only"):
            session.append_message(UserMessage("x"))
    assert path.read_bytes() == HEADER + line(1) + b"{half"
    assert [p.name for p in path.parent.iterdir()] == ["s.jsonl"]


def test_a_whole_last_object_without_newline_is_kept_as_an_entry(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(HEADER + line(1).rstrip(b"\n"))
    with Session.open(path) as session:
        assert path.read_bytes() == HEADER + line(1).rstrip(b"\n")
        assert session.damages == ()
        new = session.append_message(UserMessage("next"))
    assert path.read_bytes().startswith(HEADER + line(1) + b"{")
    with Session.open(path) as again:
        assert [e.id for e in again.entries()] == ["00000001", new.id]


@pytest.mark.parametrize("content", [b"", b"\n", b"  "])
def test_an_empty_file_becomes_a_usable_session(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with Session.open(path) as session:
        session.append_message(UserMessage("x"))
        told = session.id
    with Session.open(path) as again:
        assert again.id == told
        assert len(again.entries()) == 1


@pytest.mark.parametrize("header", [HEADER, HEADER.rstrip(b"\n")])
def test_a_file_with_a_header_alone_is_a_usable_session(path, header):
    path.parent.mkdir(parents=True)
    path.write_bytes(header)
    with Session.open(path) as session:
        session.append_message(UserMessage("x"))
    assert path.read_bytes().startswith(HEADER)
    with Session.open(path) as again:
        assert again.id == "s1"
        assert len(again.entries()) == 1


def test_bad_lines_in_the_middle_are_reported_and_never_touched(path):
    path.parent.mkdir(parents=True)
    bad = [b"not json\n", b"[1]\n", b'{"type":"message"}\n', b'{"a":' * 5000 + b"\n", b"\n"]
    data = HEADER + b"".join(bad) + line(1) + line(2, 1)
    path.write_bytes(data)
    with Session.open(path) as session:
        assert [d.offset for d in session.damages] == sorted(d.offset for d in session.damages)
        assert len(session.damages) == 4
        assert [e.id for e in session.branch()] == ["00000001", "00000002"]
        session.append_message(UserMessage("x"))
    assert path.read_bytes().startswith(data)


def test_broken_bytes_in_a_whole_line_cost_their_characters_and_not_the_history(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(HEADER + line(1, None, "aXb").replace(b"X", b"\xff") + line(2, 1))
    with Session.open(path) as session:
        assert session.messages()[0].content == "a\ufffdb"
        assert "UTF-8" in session.damages[0].reason


def test_a_circle_of_parents_ends_the_branch(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(HEADER + line(1, 2) + line(2, 1))
    with Session.open(path, read_only=True) as session:
        assert [e.id for e in session.branch()] == ["00000001", "00000002"]


@pytest.mark.parametrize("content", [b"hello\n", b'{"type":"message","id":"1"}\n', b'{"type":"ses'])
def test_what_is_no_session_is_refused_by_name_and_not_touched(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(SessionError, match=r"s\.jsonl is not a session"):
        Session.open(path)
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["s.jsonl"]


def test_a_missing_file_is_named(path):
    with pytest.raises(SessionError, match=r"s\.jsonl: no such file"):
        Session.open(path)


def test_a_custom_message_keeps_its_time_over_a_reopening(path):
    with Session.create(path, cwd=Path("/w")) as session:
        session.append_message(CustomMessage("note", (Text("a"),), display=False, timestamp=1234))
    with Session.open(path) as again:
        assert again.messages() == [
            CustomMessage("note", (Text("a"),), display=False, timestamp=1234)
        ]


def test_a_closed_session_takes_no_entries(path):
    session = Session.create(path, cwd=Path("/w"))
    session.close()
    session.close()
    with pytest.raises(SessionError, match="is closed"):
        session.append_message(UserMessage("x"))


FULL = """
    import resource, signal, sys
    from pathlib import Path
    from unipi.session import Session, SessionWriteError
    from unipi_hookspecs import UserMessage

    path = Path(sys.argv[1])
    session = Session.create(path, cwd=Path("/w"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.RLIM_INFINITY))
    sent = []
    for n in range(3):
        sent.append(session.append_message(UserMessage(f"{n}" * 700)).id)
        try:
            session.sync()
        except SessionWriteError as error:
            assert n == 2, n
            assert "File too large" in str(error) and str(path) in str(error), error
            assert error.unsaved == session.unsaved == 1
    sent.append(session.append_message(UserMessage("small")).id)
    try:
        session.sync()
    except SessionWriteError as error:
        assert error.unsaved == 2
    else:
        raise AssertionError("a retry that cannot work must say so")
    data = path.read_bytes()
    assert data.endswith(b"}\\n") and data.count(b"\\n") == 3, data[-80:]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    session.sync()
    assert session.unsaved == 0
    session.close()
    with Session.open(path) as again:
        assert [e.id for e in again.entries()] == sent
        assert again.damages == ()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits are Unix")
def test_on_a_full_disk_entries_stay_pending_and_are_written_when_there_is_room(path):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), str(path)], capture_output=True, timeout=30
    )
    assert run.returncode == 0, run.stderr.decode()


def test_after_a_failed_sync_the_lines_are_written_again(path, monkeypatch):
    session = Session.create(path, cwd=Path("/w"))
    session.append_message(UserMessage("one"))
    session.sync()
    safe = path.stat().st_size
    real = store._fdatasync

    def fail(fd):
        raise OSError(errno.EIO, "Input/output error")

    session.append_message(UserMessage("two"))
    session.append_message(UserMessage("three"))
    monkeypatch.setattr(store, "_fdatasync", fail)
    with pytest.raises(SessionWriteError, match=r"Input/output error; 2 entries are not saved"):
        session.sync()
    # What the system may have lost is not trusted: it is cut off and written anew.
    assert path.stat().st_size == safe
    monkeypatch.setattr(store, "_fdatasync", real)
    session.sync()
    session.close()
    with Session.open(path) as again:
        assert [m.content for m in again.messages()] == ["one", "two", "three"]


def test_an_interrupted_write_leaves_neither_half_a_line_nor_a_ghost(path, monkeypatch):
    session = Session.create(path, cwd=Path("/w"))
    before = path.read_bytes()
    real = os.write

    def interrupted(fd, data):
        real(fd, bytes(data)[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.append_message(UserMessage("one"))
    monkeypatch.setattr(os, "write", real)
    assert path.read_bytes() == before
    session.append_message(UserMessage("two"))
    session.close()
    with Session.open(path) as again:
        assert [m.content for m in again.messages()] == ["two"]


def test_a_file_that_was_deleted_is_reported_and_not_written_into_the_void(path):
    session = Session.create(path, cwd=Path("/w"))
    session.append_message(UserMessage("one"))
    path.unlink()
    session.append_message(UserMessage("two"))
    with pytest.raises(SessionWriteError, match="deleted"):
        session.sync()
    with pytest.raises(SessionWriteError):
        session.close()


def test_a_program_that_takes_no_lock_is_noticed_and_its_lines_are_left_alone(path):
    session = Session.create(path, cwd=Path("/w"))
    session.append_message(UserMessage("one"))
    with path.open("ab") as other:
        other.write(line(7))
    session.append_message(UserMessage("two"))
    session.sync()
    assert "another program writes" in session.notice
    session.close()
    with Session.open(path) as again:
        assert len(again.entries()) == 3
        assert again.damages == ()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from unipi.session import Session
    from unipi_hookspecs import UserMessage

    session = Session.create(Path(sys.argv[1]), cwd=Path("/w"))
    for n in range(5):
        session.append_message(UserMessage(str(n)))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_entries_survive_the_kill_of_the_process_even_without_a_sync(path):
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], timeout=30)
    with Session.open(path) as again:
        assert [m.content for m in again.messages()] == list("01234")
        assert again.damages == ()
