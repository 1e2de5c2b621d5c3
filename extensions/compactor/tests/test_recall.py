"""Recall: real session files, a real index."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import unipi_compactor
from unipi.session import Session
from unipi_compactor.index import FILE_NAME, session_files, sync
from unipi_compactor.recall import Query, Recall, live_ids
from unipi_compactor.render import ANSWER, EXPANDED
from unipi_compactor.store import Store
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

NOTHING = frozenset()
WHEN = 1_700_000_000_000


class Place:
    """A folder of sessions of one project."""

    def __init__(self, folder):
        self.folder = folder

    def session(self, *said, name="s", **more):
        """Write a session in which the user said these things; returns its path."""
        path = self.folder / f"{name}.jsonl"
        with Session.create(path, cwd=self.folder, **more) as session:
            for text in said:
                session.append_message(UserMessage(text, WHEN))
        return path

    def recall(self, path):
        with Session.open(path, read_only=True) as session:
            return Recall(session.id, str(self.folder), path)

    def ask(self, path, query="", **more):
        recall = self.recall(path)
        try:
            return recall.ask(Query.read({"query": query, **more}), (), NOTHING)
        finally:
            recall.close()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def entries(answer):
    """The entries of a page, in order."""
    return re.findall(r"^\d+\. \w+ \[(\w+)\]", answer, re.MULTILINE)


def numbers(answer):
    return [int(n) for n in re.findall(r"^(\d+)\. \w+ \[", answer, re.MULTILINE)]


# ---- what is found


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("The deployment uses port 8443.", "deployment port"),
        ("We renamed getUserMessageText today.", "getUserMessageText"),
        ("We renamed getUserMessageText today.", "user message text"),
        ("The flag is max_retry_count.", "max_retry_count"),
        ("The flag is max_retry_count.", "retry count"),
        ("See src/core/agent-session.ts, line 12.", "src/core/agent-session.ts"),
        ("配置文件的端口是八千", "端口"),
        ("配置文件的端口是八千", "配置文件的端口"),
        ("設定ファイルはここにあります", "ファイル"),
        ("비밀번호를 바꿨습니다", "비밀번호"),
        ("El café está cerrado.", "cafe"),
        ("E   ImportError: cannot import name 'Lexer'", "ImportError Lexer"),
        ("We were running the tests.", "run test"),
    ],
)
def test_words_names_paths_and_scripts_without_blanks_are_found(place, said, query):
    path = place.session("something else entirely", said)
    assert said in place.ask(path, query)


@pytest.mark.parametrize(
    "query", ['"', "NEAR(", "a AND", "*", "title:x", "^", "((((", "a" * 5_000, "\0", "'; --"]
)
def test_no_query_is_syntax(place, query):
    answer = place.ask(place.session("plain words"), query)
    assert "Traceback" not in answer
    assert answer


def test_calls_results_commands_and_summaries_are_found_and_a_result_by_its_command(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("go", WHEN))
        call = ToolCall("c1", "bash", {"command": "make zebra"})
        session.append_message(AssistantMessage((Text("Running."), call), timestamp=WHEN))
        done = ToolResultMessage("c1", "bash", (Text("stripes: 44"),), timestamp=WHEN)
        session.append_message(done)
        session.append_message(BashMessage("ls giraffe", "neck.txt", 0, timestamp=WHEN))
        session.append("compaction", {"summary": "The okapi was named.", "firstKeptEntryId": ""})
    assert "stripes: 44" in place.ask(path, "make zebra")
    assert "stripes: 44" in place.ask(path, "stripes")
    assert "neck.txt" in place.ask(path, "giraffe")
    assert "okapi" in place.ask(path, "okapi named")


def test_notes_reminders_thinking_hidden_commands_and_recalls_are_not_found(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("go", WHEN))
        session.append_message(CustomMessage("btw-note", "quagga one", timestamp=WHEN))
        session.append_message(CustomMessage("state", "quagga two", display=False, timestamp=WHEN))
        session.append_custom("note", "quagga three")
        session.append_message(
            AssistantMessage((Thinking("quagga four"), Text("ok")), timestamp=WHEN)
        )
        hidden = BashMessage("echo quagga five", "", 0, exclude_from_context=True, timestamp=WHEN)
        session.append_message(hidden)
        call = ToolCall("r", "session_recall", {"query": "quagga six"})
        session.append_message(AssistantMessage((call,), timestamp=WHEN))
        result = ToolResultMessage("r", "session_recall", (Text("quagga seven"),), timestamp=WHEN)
        session.append_message(result)
    assert "Nothing was found" in place.ask(path, "quagga")


def test_what_was_taken_out_of_the_context_is_no_longer_found(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        first = session.append_message(UserMessage("the password is hunter2", WHEN)).id
        recall = Recall(session.id, str(place.folder), path)
        session.sync()
        assert "hunter2" in recall.ask(Query("password"), (), NOTHING)
        session.append("context_edit", {"targetId": first, "replacement": None})
        session.sync()
        assert "Nothing was found" in recall.ask(Query("password"), (), NOTHING)
        recall.close()


def test_what_the_model_has_before_it_is_not_shown_again(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        old = session.append_message(UserMessage("the falcon of old", WHEN)).id
        kept = session.append_message(UserMessage("the falcon that stays", WHEN)).id
        session.append("compaction", {"summary": "s", "firstKeptEntryId": kept})
        new = session.append_message(UserMessage("the falcon of now", WHEN)).id
        live = live_ids(session.branch())
        session.sync()
        recall = Recall(session.id, str(place.folder), path)
        assert entries(recall.ask(Query("falcon"), (), live)) == [old]
        assert {kept, new} <= live
        recall.close()


def test_other_sessions_of_the_project_are_found_and_those_of_another_are_not(place, tmp_path):
    path = place.session("nothing here")
    place.session("the heron flew", name="other")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with Session.create(tmp_path / "f.jsonl", cwd=foreign) as session:
        session.append_message(UserMessage("the heron of another project", WHEN))
    answer = place.ask(path, "heron")
    assert "the heron flew" in answer
    assert "another session" in answer
    assert "of another project" not in answer
    assert "Nothing was found" in place.ask(path, "heron", scope="session")


def test_side_threads_stay_to_themselves_and_forks_are_not_found_twice(place):
    path = place.session("the ibis waded")
    place.session("the ibis whispered", name="side", parent=path)
    with Session.open(path) as session:
        session.fork(place.folder / "fork.jsonl", session.leaf_id).close()
    answer = place.ask(path, "ibis")
    assert len(entries(answer)) == 1
    assert "whispered" not in answer


# ---- numbers


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (None, 10),
        (3, 3),
        (50, 50),
        (51, 50),
        (10_000, 50),
        (0, 1),
        (-7, 1),
        (float("nan"), 10),
        (float("inf"), 50),
        (float("-inf"), 1),
        ("20", 20),
        ("1e9", 50),
        ("many", 10),
        (2.9, 2),
        (True, 10),
        ([5], 10),
        ({}, 10),
        (10**400, 50),
    ],
)
def test_a_page_has_ten_hits_and_never_more_than_fifty(place, limit, shown):
    path = place.session(*(f"pelican number {n}" for n in range(80)))
    answer = place.ask(path, "pelican", limit=limit)
    assert len(entries(answer)) == shown
    assert answer.startswith(f"80 hits, 1 to {shown} shown.")


@given(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
    )
)
@settings(max_examples=300)
def test_whatever_is_given_for_a_number_is_in_its_range(value):
    query = Query.read({"query": "x", "limit": value, "offset": value})
    assert 1 <= query.limit <= 50
    assert 0 <= query.offset <= 100_000


@pytest.mark.parametrize("given_", [None, [], "text", 5])
def test_arguments_that_are_no_object_are_an_empty_query(place, given_):
    assert Query.read(given_) == Query("")


def test_pages_go_on_without_a_repeat_and_hold_still_while_the_session_grows(place):
    path = place.session(*(f"stork number {n} " + "again " * (n % 7) for n in range(35)))
    with Session.open(path) as session:
        recall = Recall(session.id, str(place.folder), path)
        seen, places = [], []
        for offset in (0, 10, 20, 30):
            answer = recall.ask(Query("stork number", offset=offset), (), NOTHING)
            seen += entries(answer)
            places += numbers(answer)
            for n in range(5):
                session.append_message(UserMessage(f"stork number and more {n} stork number", WHEN))
            session.sync()
        recall.close()
    assert len(seen) == len(set(seen)) == 35
    assert places == list(range(1, 36))


def test_a_page_behind_the_last_says_so(place):
    path = place.session("one toucan")
    assert "1 hits; there is none at offset 40" in place.ask(path, "toucan", offset=40)


# ---- order


def test_a_word_that_is_said_often_weighs_more_than_once(place):
    path = place.session(
        "a condor among many other words here",
        "condor condor condor among words here",
        "nothing of the kind",
    )
    shown = place.ask(path, "condor")
    assert shown.index("condor condor condor") < shown.index("a condor among")


def test_all_words_come_before_some_of_them(place):
    path = place.session(
        "red red red red", "blue wing", "a red bird with a blue wing, told at length here"
    )
    assert "told at length" in place.ask(path, "red blue wing").split("\n2. ")[0]


def test_the_users_words_come_before_a_tools_output_that_says_the_same(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("use the emerald theme", WHEN))
        session.append_message(AssistantMessage((ToolCall("c", "x", {}),), timestamp=WHEN))
        done = ToolResultMessage("c", "x", (Text("use the emerald theme now"),), timestamp=WHEN)
        session.append_message(done)
    assert place.ask(path, "emerald theme").split("\n")[2].startswith("1. user")


def test_the_same_question_has_the_same_answer(place):
    path = place.session(*(f"kiwi {n % 5} {n % 3}" for n in range(60)))
    assert len({place.ask(path, "kiwi 3", limit=50) for _ in range(3)}) == 1


# ---- bounds


def test_an_expanded_hit_has_at_most_sixteen_kib_and_says_how_to_narrow(place):
    path = place.session(
        "start " + "long matter 鳥 " * 4_000 + " the dodo ends it " + "more matter " * 4_000
    )
    answer = place.ask(path, "dodo ends", expand=True)
    assert "the dodo ends it" in answer
    assert len(answer.encode()) <= EXPANDED + 600
    assert re.search(r"\[[\d,]+ bytes of this entry are not shown; narrow the query", answer)


def test_an_entry_that_fits_is_shown_whole(place):
    text = "line\n" * 2_000 + "the moa"
    assert text.strip() in place.ask(place.session(text), "moa", expand=True)


def test_fifty_expanded_hits_stay_within_the_bound_of_an_answer(place):
    path = place.session(*(f"{n} kakapo " + f"filler{n} 鳥 " * 3_000 for n in range(55)))
    answer = place.ask(path, "kakapo", limit=50, expand=True)
    assert len(answer.encode()) <= ANSWER
    assert "narrow the query" in answer
    assert numbers(answer)[:3] == [1, 2, 3]


def test_the_best_hits_are_shown_with_what_stands_around_them_and_others_as_excerpts(place):
    texts = [f"{'x ' * 4_000}the albatross is here {n}{' y' * 4_000}" for n in range(5)]
    answer = place.ask(place.session(*texts), "albatross")
    assert all(f"the albatross is here {n}" in answer for n in range(5))
    assert 3 * 4_000 < len(answer) < 3 * 4_000 + 2 * 600 + 1_500


def test_a_name_with_signs_in_it_is_looked_for_as_it_stands(place):
    other = "code of pi, in mono, and a workspace"
    path = place.session(other, "left pi-mono.code-workspace right", other)
    answer = place.ask(path, "pi-mono.code-workspace")
    assert answer.startswith("1 hits")
    assert place.ask(path, "mono-pi.workspace").startswith("2 hits")  # equal texts count once


def test_an_entry_is_read_on_by_its_id(place):
    text = "".join(f"{n} " for n in range(6_000))
    path = place.session(text)
    with Session.open(path, read_only=True) as session:
        (entry,) = [e.id for e in session.entries()]
    first = place.ask(path, entry=f"[{entry}]")
    offset = int(re.search(r"offset (\d+)", first)[1])
    second = place.ask(path, entry=entry, offset=offset)
    body = first.split("\n")[1] + second.split("\n")[1]
    assert body.strip() == text.strip()
    assert "is known in the sessions" in place.ask(path, entry="ffffffff")


# ---- the index


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_the_index_is_readable_by_its_owner_alone(place):
    path = place.session("a wren")
    before = os.umask(0)
    try:
        place.ask(path, "wren")
    finally:
        os.umask(before)
    for found in place.folder.glob(f"{FILE_NAME}*"):
        assert stat.S_IMODE(found.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_an_index_that_is_a_link_is_not_followed(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "target"
    path = place.session("a wren")
    (place.folder / FILE_NAME).symlink_to(elsewhere)
    with pytest.raises(OSError, match="ymbolic"):
        place.ask(path, "wren")
    assert not elsewhere.exists()


@pytest.mark.parametrize("damage", ["text", "zeros", "middle", "version", "tables"])
def test_a_broken_or_foreign_index_is_built_again(place, damage):
    path = place.session(*(f"the robin {n} sings" for n in range(200)))
    place.ask(path, "robin")
    index = place.folder / FILE_NAME
    if damage == "text":
        index.write_text("this is no database at all\n" * 400)
    elif damage == "zeros":
        index.write_bytes(b"\0" * 40_000)
    elif damage == "middle":
        data = bytearray(index.read_bytes())
        data[4_096:] = b"\xa5" * (len(data) - 4_096)
        index.write_bytes(data)
    else:
        with sqlite3.connect(index) as db:
            db.execute("PRAGMA user_version = 99" if damage == "version" else "DROP TABLE chunk")
        db.close()
    assert "the robin 7 sings" in place.ask(path, "robin 7")


def test_a_file_that_was_rewritten_or_is_gone_is_no_longer_quoted(place):
    path = place.session("nothing")
    other = place.session("the osprey circles", name="other")
    assert "circles" in place.ask(path, "osprey")
    other.write_text(other.read_text().replace("circles", "lands!!"))
    later = time.time_ns() + 10**9
    os.utime(other, ns=(later, later))
    answer = place.ask(path, "osprey")
    assert "lands!!" in answer
    assert "circles" not in answer
    other.unlink()
    assert "Nothing was found" in place.ask(path, "osprey")


def test_a_line_that_is_still_being_written_waits_and_a_broken_one_is_passed_over(place):
    path = place.session("the kite rises")
    entry = {
        "type": "message",
        "id": "aa",
        "message": {"role": "user", "content": "the kite falls"},
    }
    line = json.dumps(entry)
    with path.open("a") as file:
        file.write("{broken\n" + line[:30])
    assert "falls" not in place.ask(path, "kite")
    with path.open("a") as file:
        file.write(line[30:] + "\n")
    answer = place.ask(path, "kite")
    assert "rises" in answer
    assert "falls" in answer


def test_a_session_in_memory_is_searched_too(place):
    with Session.create(None, cwd=place.folder) as session:
        session.append_message(UserMessage("the plover nests", WHEN))
        recall = Recall(session.id, str(place.folder), None, from_file=False)
        assert "nests" in recall.ask(Query("plover"), session.entries(), NOTHING)
        session.append_message(UserMessage("the plover leaves", WHEN))
        assert "leaves" in recall.ask(Query("plover leaves"), session.entries(), NOTHING)
        recall.close()


def test_lone_surrogates_in_a_file_do_no_harm(place):
    path = place.session("plain")
    with path.open("a") as file:
        entry = {
            "type": "message",
            "id": "bb",
            "message": {"role": "user", "content": "\ud800 the rail"},
        }
        file.write(json.dumps(entry) + "\n")
    place.ask(path, "rail").encode()


BUILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from unipi_compactor.index import FILE_NAME, session_files, sync
from unipi_compactor.store import Store
folder = Path(sys.argv[1])
store = Store(folder / FILE_NAME)
print("ready", flush=True)
sync(store, session_files(folder), progress=lambda count: print(count, flush=True))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_an_index_build_that_is_killed_is_gone_on_with_and_nothing_is_lost_or_double(place):
    said = [f"nightjar {n} " + f"matter{n} " * 120 for n in range(6_000)]
    path = place.session(*said)
    before = path.read_bytes()
    source = str(Path(unipi_compactor.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(place.folder), source], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()  # the first batch is stored, and the next begun
    process.kill()
    assert process.wait(timeout=30) == -signal.SIGKILL
    process.stdout.close()
    assert path.read_bytes() == before
    assert "nightjar 5999 " in place.ask(path, "nightjar 5999")
    with sqlite3.connect(place.folder / FILE_NAME) as db:
        counts = db.execute(
            "SELECT count(DISTINCT entry), max(n) FROM (SELECT entry, count(*) n "
            "FROM chunk WHERE part = 0 GROUP BY entry)"
        ).fetchone()
    db.close()
    assert counts == (6_000, 1)


@pytest.mark.slow
def test_ten_thousand_entries_are_searched_in_fifty_milliseconds(place):
    path = place.session(
        *(
            f"entry {n} about topic{n % 97} and word{n % 1013} in the usual words"
            for n in range(10_000)
        )
    )
    recall = place.recall(path)
    recall.ask(Query("entry"), (), NOTHING)
    times = []
    for n in range(40):
        begin = time.perf_counter()
        recall.ask(Query(f"which entry was about topic{n} and word{n}"), (), NOTHING)
        times.append(time.perf_counter() - begin)
    recall.close()
    assert sorted(times)[int(len(times) * 0.95)] < 0.05, sorted(times)[-5:]


# ---- more of the order, and of sharing one index


def test_this_session_comes_before_another_that_says_the_same(place):
    path = place.session("the dunlin feeds by night")
    place.session("the dunlin feeds at night", name="a")
    place.session("the dunlin feeds in night", name="z")
    assert place.ask(path, "dunlin feeds night").split("\n1. ")[1].startswith("user [")
    assert "this session" in place.ask(path, "dunlin feeds night").split("\n2. ")[0]


def test_what_the_user_said_is_before_the_newer_answer_that_repeats_it(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("paint the gate in teal, please", WHEN))
        answer = AssistantMessage((Text("paint the gate in teal: done"),), timestamp=WHEN + 9_000)
        session.append_message(answer)
    assert place.ask(path, "gate teal paint").split("\n")[2].startswith("1. user")


def test_ten_readings_of_one_file_do_not_fill_the_page(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("go", WHEN))
        for n in range(14):
            call = ToolCall(f"c{n}", "read", {"path": "src/finch.py"})
            session.append_message(AssistantMessage((call,), timestamp=WHEN))
            text = f"finch song beak finch song beak, reading {n}"
            session.append_message(
                ToolResultMessage(call.id, "read", (Text(text),), timestamp=WHEN)
            )
        call = ToolCall("other", "bash", {"command": "make birds"})
        session.append_message(AssistantMessage((call,), timestamp=WHEN))
        text = "a log in which a finch has a song and a beak, and much else besides stands in it"
        session.append_message(ToolResultMessage("other", "bash", (Text(text),), timestamp=WHEN))
    assert "much else besides" in place.ask(path, "finch song beak")


def test_the_same_words_under_another_id_are_shown_once(place):
    path = place.session("the very same words about a smew", "the very same words about a smew")
    place.session("the very same words about a smew", name="copy")
    assert len(entries(place.ask(path, "smew"))) == 1


def test_answers_that_failed_are_not_found(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("go", WHEN))
        failed = AssistantMessage((Text("half a bittern"),), stop_reason="error", timestamp=WHEN)
        session.append_message(failed)
    assert "Nothing was found" in place.ask(path, "bittern")


def test_the_bounds_are_those_that_are_promised():
    assert (EXPANDED, ANSWER) == (16_384, 61_440)


def test_two_processes_that_index_at_once_take_nothing_twice(place):
    path = place.session(*(f"avocet {n} " + "matter " * 200 for n in range(2_200)))
    one, two = Store(place.folder / FILE_NAME), Store(place.folder / FILE_NAME)
    meanwhile = []

    def interrupt(_):
        if not meanwhile:
            meanwhile.append(sync(two, session_files(place.folder)))

    sync(one, session_files(place.folder), progress=interrupt)
    (count,) = one.db.execute("SELECT count(*) FROM chunk WHERE part = 0").fetchone()
    one.close()
    two.close()
    assert meanwhile == [0]
    assert count == 2_200
    assert "avocet 2199 " in place.ask(path, "avocet 2199")


def test_an_excerpt_is_followed_by_what_came_next(place):
    path = place.folder / "s.jsonl"
    with Session.create(path, cwd=place.folder) as session:
        session.append_message(UserMessage("which gull is it?", WHEN))
        session.append_message(AssistantMessage((Text("A Sabine's, no doubt."),), timestamp=WHEN))
    assert "then assistant" in place.ask(path, "which gull")
    assert "A Sabine's, no doubt." in place.ask(path, "which gull")


def test_a_backlog_is_worked_off_call_by_call_and_told(place):
    for n in range(3):
        place.session(f"the knot {n}", name=f"k{n}")
    store = Store(place.folder / FILE_NAME)
    turns = iter([True, False, False, False])
    waiting = sync(store, session_files(place.folder), may_go_on=lambda: next(turns))
    assert waiting == 3
    assert sync(store, session_files(place.folder)) == 0
    store.close()


def test_a_file_that_gets_its_header_later_is_indexed_then_and_what_is_no_session_never(place):
    path = place.session("plain")
    late = place.folder / "late.jsonl"
    late.write_bytes(b"")
    (place.folder / "data.jsonl").write_text('{"type": "row", "text": "a shrike"}\n' * 50)
    assert "Nothing was found" in place.ask(path, "shrike")
    other = place.session("the shrike impales", name="made")
    late.write_bytes(other.read_bytes())
    other.unlink()
    answer = place.ask(path, "shrike")
    assert "impales" in answer
    assert len(entries(answer)) == 1


@pytest.mark.slow
def test_words_that_are_everywhere_are_found_too_and_the_newest_of_many(place):
    path = place.session(*(f"common words of day {n}" for n in range(1_700)))
    assert len(entries(place.ask(path, "common words"))) == 10
    assert "common words of day" in place.ask(path, "common zzzabsent")
    assert "common words of day 42\n" in place.ask(path, "common words 42")
    assert "Nothing was found" in place.ask(path, "zzzabsent yyyabsent")
    assert "or more hits" in place.ask(path, "common")


def test_a_name_that_nobody_wrote_so_is_found_by_its_parts(place):
    path = place.session("the user message has a text")
    assert "has a text" in place.ask(path, "userMessageText")
