"""What a session keeps in memory, and what it reads again from its file."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

from unipi.session import Session
from unipi_hookspecs import AssistantMessage, SummaryMessage, Text, UserMessage

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = "x" * 20_000


def talk(session: Session, rounds: int) -> list[str]:
    ids = []
    for number in range(rounds):
        ids.append(session.append_message(UserMessage(f"{number} {BLOCK}", 1)).id)
        session.append_message(AssistantMessage((Text(f"{number} said"),), timestamp=1))
    return ids


def compacted(path: Path) -> Session:
    """Fifty rounds of 20 KB of which the last two are kept; its file closed and opened again."""
    with Session.create(path, cwd=path.parent) as session:
        ids = talk(session, 50)
        session.append("compaction", {"summary": "S", "firstKeptEntryId": ids[-2]})
    return Session.open(path)


def test_what_a_compaction_cut_off_takes_no_memory(tmp_path: Path) -> None:
    compacted(tmp_path / "s.jsonl").close()
    tracemalloc.start()
    try:
        with Session.open(tmp_path / "s.jsonl") as session:
            assert len(session.context()) == 5
            now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 40_000 < now < 300_000  # of a million


def test_what_was_cut_off_is_read_again_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with compacted(path) as session:
        entries = session.entries()
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [dict(entry.fields) for entry in entries] == lines
    first, *_ = entries
    assert first.message == UserMessage(f"0 {BLOCK}", 1)


def test_a_step_back_before_the_compaction_finds_everything(tmp_path: Path) -> None:
    with compacted(tmp_path / "s.jsonl") as session:
        session.move_leaf(session.entries()[9].id)
        said = session.messages()
        assert [m.content for m in said[::2]] == [f"{n} {BLOCK}" for n in range(5)]
        assert not any(isinstance(message, SummaryMessage) for message in said)


def test_a_fork_has_every_line_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    compacted(path).close()
    lines = path.read_text().splitlines()
    strange = json.loads(lines[1]) | {"unknown": {"b": 1, "a": [2.50]}}
    path.write_text("\n".join([lines[0], json.dumps(strange), *lines[2:], ""]))
    with Session.open(path) as session, session.fork(tmp_path / "f.jsonl", session.leaf_id):
        pass
    forked = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert forked[1] == strange
    assert len(forked) == len(lines)


def test_a_file_that_somebody_wrote_over_still_gives_its_live_messages(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with compacted(path) as session:
        size = path.stat().st_size
        path.write_bytes(b"?" * size)
        last = session.branch()[-2]
        assert last.fields["message"]["content"][0]["text"] == "49 said"
        assert session.branch()[0].fields["id"] == session.branch()[0].id


def test_the_entries_of_a_closed_session_can_still_be_read(tmp_path: Path) -> None:
    with compacted(tmp_path / "s.jsonl") as session:
        entries = session.entries()
    assert entries[0].fields["message"]["content"] == f"0 {BLOCK}"
    assert entries[0] == Session.open(tmp_path / "s.jsonl", read_only=True).entries()[0]
