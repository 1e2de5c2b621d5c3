"""One writer a session: the others are told who, and what they can do."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from unipi.session import Session, SessionLocked
from unipi_hookspecs import UserMessage

HOLDER = """
    import sys
    from pathlib import Path
    from unipi.session import Session, SessionLocked
    from unipi_hookspecs import UserMessage

    try:
        session = Session.open(Path(sys.argv[1]))
    except SessionLocked as error:
        print("locked", error.pid, flush=True)
        raise SystemExit
    session.append_message(UserMessage("from the holder"))
    print("holding", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd=Path("/w")).close()
    return path


def start(path):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process):
    process.kill()
    process.communicate(timeout=10)


def test_a_second_writer_is_told_who_holds_the_session_and_the_two_ways_out(path):
    with Session.open(path):
        with pytest.raises(SessionLocked) as caught:
            Session.open(path)
        assert caught.value.pid == os.getpid()
        assert caught.value.started.endswith("Z")
        for words in (
            str(path),
            str(os.getpid()),
            caught.value.started,
            "unipi run --fork",
            "unipi sessions show",
        ):
            assert words in str(caught.value)


def test_a_reader_needs_no_lock_and_can_fork(path):
    with Session.open(path) as writer:
        writer.append_message(UserMessage("a"))
        with Session.open(path, read_only=True) as reader:
            assert len(reader.entries()) == 1
            fork = reader.fork(path.with_name("fork.jsonl"), reader.leaf_id)
            fork.append_message(UserMessage("b"))
            fork.close()
        assert len(writer.entries()) == 1


def test_closing_lets_the_next_one_in(path):
    Session.open(path).close()
    Session.open(path).close()


def test_a_refused_file_leaves_no_lock_behind(path):
    with Session.open(path):
        with pytest.raises(SessionLocked):
            Session.open(path)
    Session.open(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_the_kill_of_the_holder_lets_the_next_one_in_and_what_it_wrote_is_there(path):
    holder = start(path)
    try:
        assert holder.stdout.readline() == "holding\n"
        with pytest.raises(SessionLocked) as caught:
            Session.open(path)
        assert caught.value.pid == holder.pid
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)
        with Session.open(path) as fourth:
            assert fourth.messages()[0].content == "from the holder"
            fourth.append_message(UserMessage("and on"))
    finally:
        finish(holder)


def test_of_two_that_start_at_once_one_writes_and_the_other_is_told(path):
    both = [start(path), start(path)]
    try:
        said = sorted(process.stdout.readline().split()[0] for process in both)
        assert said == ["holding", "locked"]
    finally:
        for process in both:
            finish(process)
    with Session.open(path, read_only=True) as session:
        assert len(session.entries()) == 1
