"""Where session files are, which one `--continue` takes, and what a list says of each."""

import os
import re
from pathlib import Path

import pytest

from unipi.session import (
    Session,
    SessionError,
    find_latest,
    find_session,
    list_sessions,
    new_session_path,
    session_dir,
)
from unipi_hookspecs import CustomMessage, Text, UserMessage

HERE = Path("/some folder/a")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path))
    return tmp_path


def make(cwd=HERE, minute=0, parent=None, text="hello  there"):
    path, new = new_session_path(cwd)
    with Session.create(path, cwd=cwd, id=new, parent=parent) as session:
        session.append_message(CustomMessage("note", "not what the user said"))
        session.append_message(UserMessage((Text(text),)))
    touch(path, minute)
    return path


def touch(path, minute):
    os.utime(path, (1_700_000_000 + 60 * minute,) * 2)


def test_folder_and_file_are_named_as_pi_names_them(home):
    assert session_dir(HERE) == home / "sessions" / "--some folder-a--"
    path, new = new_session_path(HERE)
    assert path.parent == session_dir(HERE)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.jsonl",
        path.name,
    )
    assert new in path.name


def test_ids_sort_by_the_time_they_were_made():
    made = [new_session_path(HERE)[1] for _ in range(20)]
    assert len(set(made)) == 20
    assert [new[:13] for new in made] == sorted(new[:13] for new in made)


def test_without_a_home_of_ours_the_users_state_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("UNIPI_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert session_dir(HERE).name == "--some folder-a--"
    assert "unipi" in str(session_dir(HERE))


def test_a_working_folder_of_a_very_long_name_still_has_a_folder():
    folder = session_dir(Path("/") / ("ä" * 100) / ("b" * 200))
    assert len(os.fsencode(folder.name)) < 255
    assert folder != session_dir(Path("/") / ("ä" * 100) / ("b" * 201))


def test_the_session_written_last_is_found():
    make(minute=1)
    newest = make(minute=9)
    make(minute=5)
    assert find_latest(HERE) == newest


def test_helpers_and_side_threads_do_not_take_the_place_of_the_users_session():
    main = make(minute=0)
    make(minute=5, parent=main)
    make(minute=6, parent=main)
    assert find_latest(HERE) == main
    side = [info for info in list_sessions(HERE) if info.side]
    assert len(side) == 2
    assert all(info.parent == str(main) for info in side)


def test_a_fork_is_the_users_own_session():
    main = make(minute=0)
    path, _ = new_session_path(HERE)
    with Session.open(main) as session:
        session.fork(path, session.leaf_id).close()
    touch(path, 5)
    assert find_latest(HERE) == path


def test_a_fork_made_by_pi_is_told_from_a_helper_by_its_older_entries():
    main = make(minute=0)
    path, _ = new_session_path(HERE)
    lines = main.read_text().splitlines()
    header = (
        '{"type":"session","version":3,"id":"f","timestamp":"2199-01-01T00:00:00.000Z",'
        f'"cwd":"{HERE}","parentSession":"{main}"}}'
    )
    path.write_text("\n".join([header, *lines[1:]]) + "\n")
    touch(path, 5)
    assert find_latest(HERE) == path


def test_folders_that_share_a_name_do_not_share_sessions():
    other = Path("/some folder-a")
    assert session_dir(other) == session_dir(HERE)
    make(cwd=other)
    assert find_latest(HERE) is None
    assert len(list_sessions(other)) == 1


def test_nothing_is_found_where_nothing_is():
    assert find_latest(HERE) is None
    assert list_sessions() == []


def test_files_that_are_no_sessions_are_passed_over():
    make()
    (session_dir(HERE) / "notes.jsonl").write_text("hello\n")
    (session_dir(HERE) / "empty.jsonl").write_text("")
    assert len(list_sessions(HERE)) == 1


def test_a_list_says_what_a_session_is_about():
    path = make(text="fix \n the bug")
    (info,) = list_sessions(HERE)
    assert (info.path, info.cwd, info.first, info.name) == (path, str(HERE), "fix the bug", None)
    assert info.size == path.stat().st_size
    with Session.open(path) as session:
        session.append("session_info", {"name": "one"})
        session.append("session_info", {"name": "two"})
        session.append_message(UserMessage('{"type":"session_info","name":"three"}'))
        session.append_custom("x", {"type": "session_info", "name": "four"})
    assert list_sessions(HERE)[0].name == "two"


def test_a_session_is_found_by_path_id_and_start_of_id():
    path = make()
    other = make(cwd=Path("/elsewhere"))
    told = list_sessions(HERE)[0].id
    assert find_session(str(path), HERE) == path
    assert find_session(told, HERE) == path
    assert find_session(told[:30], HERE) == path
    assert find_session(list_sessions(Path("/elsewhere"))[0].id, HERE) == other
    with pytest.raises(SessionError, match="no session id"):
        find_session("zzz", HERE)
    with pytest.raises(SessionError, match=r"gone\.jsonl"):
        find_session("gone.jsonl", HERE)


def test_a_start_that_fits_two_ids_is_refused_with_both_named():
    make()
    make()
    one, two = (info.id for info in list_sessions(HERE))
    start = one[: next(at for at in range(len(one)) if one[at] != two[at])]
    with pytest.raises(SessionError, match="more than one session"):
        find_session(start, HERE)
