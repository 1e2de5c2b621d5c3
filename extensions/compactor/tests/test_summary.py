"""The deterministic summary, from entries as a session holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import unipi_compactor
from unipi.session import Session
from unipi_compactor.history import last_cut
from unipi_compactor.settings import PRESETS, Options, read_options
from unipi_compactor.summary import summarise
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

SHARED = Path(__file__).resolve().parents[4] / "shared"
FILLER = "The parser reads one token at a time and keeps nothing. " * 40


class Story:
    """A session in memory, told in short words."""

    def __init__(self):
        self.session = Session.create(None, cwd=Path.cwd())
        self.calls = 0

    def user(self, text):
        return self.session.append_message(UserMessage(text, 1)).id

    def says(self, text, *more):
        blocks = (*more, Text(text)) if text else more
        return self.session.append_message(AssistantMessage(blocks, timestamp=1)).id

    def does(self, name, result="ok", *, error=False, **arguments):
        self.calls += 1
        call = ToolCall(f"c{self.calls}", name, arguments)
        self.says("", call)
        message = ToolResultMessage(call.id, name, (Text(result),), error, timestamp=1)
        return self.session.append_message(message).id

    def compacts(self, first_kept="", options=None):
        made = self.summary(first_kept, options)
        fields = {"summary": made.text, "firstKeptEntryId": first_kept, "tokensBefore": 9}
        fields["details"] = made.details(options or Options())
        return self.session.append("compaction", fields).id

    def summary(self, first_kept="", options=None, **more):
        return summarise(self.session.branch(), first_kept, options or Options(), **more)

    def text(self, first_kept="", options=None, **more):
        return self.summary(first_kept, options, **more).text


@pytest.fixture
def story():
    made = Story()
    made.user("Port the parser to Rust. Never change the public names.")
    made.says(FILLER)
    return made


def section(text, heading):
    """What stands under a heading."""
    _, _, rest = text.partition(f"## {heading}")
    return rest.partition("\n## ")[0]


# ---- what survives


def test_requests_stand_there_word_for_word_with_their_white_space(story):
    words = "  fix   this:\n\n\tif a:\n\t    b()  # never  reformat\n"
    story.user(words)
    assert words in story.text()


def test_what_was_asked_last_is_there_however_much_was_asked_before(story):
    for number in range(300):
        story.user(f"request {number}: " + "x" * 200)
    last = story.user("and now, at last, ship it")
    text = story.text()
    assert "Port the parser to Rust." in text
    assert f"[{last}]\nand now, at last, ship it" in text
    assert "requests had no room" in text


def test_a_request_that_is_too_long_says_how_much_is_missing_and_where_it_is(story):
    entry = story.user("head " + "y" * 20_000 + " tail")
    text = story.text()
    assert "head yyy" in text
    assert "yyy tail" in text
    assert f"bytes more: session_recall with entry {entry}" in text


def test_words_that_were_said_again_stand_there_once_with_their_number(story):
    for _ in range(5):
        story.user("go on")
    text = section(story.text(), "What the user asked")
    assert text.count("\ngo on\n") == 1
    assert "said 5 times" in text


def test_only_the_user_speaks_in_the_requests(story):
    story.says("I want to add a feature and fix the goal.")
    assert "I want to add" not in section(story.text(), "What the user asked")


def test_constraints_and_decisions_are_lines_and_not_whole_messages(story):
    story.user("Some background first.\nYou must keep Python 3.11.\nThanks.")
    story.says("I looked around.\nWe will use a Pratt parser instead of a table.\nThat is all.")
    text = story.text()
    assert "- You must keep Python 3.11. [" in section(text, "Constraints")
    assert "Some background" not in section(text, "Constraints")
    decisions = section(text, "Decisions")
    assert "- assistant: We will use a Pratt parser instead of a table. [" in decisions
    assert "I looked around" not in decisions


def test_files_are_those_of_calls_and_not_of_prose(story):
    story.says("Maybe look at src/guess.py and edit it.")
    story.does("read", path="src/a.py")
    story.does("edit", path="src/a.py")
    story.does("write", path="src/b.py")
    story.does("read", path="src/c.py")
    story.does("edit", "no such text", error=True, path="src/d.py")
    files = section(story.text(), "Files")
    changed, _, read = files.partition("Read:")
    assert "src/a.py" in changed
    assert "src/b.py" in changed
    assert "src/c.py" in read
    assert "src/a.py" not in read
    assert "guess" not in files
    assert "src/d.py" not in files


def test_a_skill_that_was_loaded_is_named_with_its_file(story):
    story.does("read", "How to test.", path="skills/testing/SKILL.md")
    assert "skills/testing/SKILL.md" in section(story.text(), "Files")


def test_only_what_git_says_it_committed_is_a_commit(story):
    story.does("bash", "1234567 and deadbeef", command="echo hashes")
    story.does("bash", "[main 1a2b3c4] Port the lexer\n 1 file changed", command="git commit -m x")
    commits = section(story.text(), "Commits")
    assert "- 1a2b3c4: Port the lexer" in commits
    assert "1234567" not in commits
    assert "deadbeef" not in commits


def test_an_error_that_still_stands_is_open_and_one_that_was_put_right_says_by_what(story):
    story.does("bash", "E   ImportError: no lexer", error=True, command="cd /p && pytest lexer")
    story.does("edit", path="lexer.py")
    story.does("bash", "3 passed", command="pytest lexer | tail -3")
    story.does("bash", "make: fatal error 2", error=True, command="make docs")
    errors = section(story.text(), "Errors")
    still, _, right = errors.partition("Put right:")
    assert "bash make docs: make: fatal error 2" in still
    assert "pytest lexer: E ImportError: no lexer" in right
    assert "works since lexer.py changed" in right


def test_a_search_that_found_nothing_is_no_error(story):
    story.does("bash", "(no output)\n\nCommand exited with code 1", error=True, command="grep x y")
    assert "## Errors" not in story.text()


def test_open_work_is_what_the_newest_answer_says(story):
    story.says("- [ ] write the lexer\n- [x] read the grammar")
    story.says("- [x] write the lexer\n- [ ] write the parser")
    text = section(story.text(), "Open work")
    assert text.startswith("\n\n- write the parser [")


def test_what_the_user_ran_himself_is_a_step_and_a_request_is_named_that_the_kept_part_answers(
    story,
):
    request = story.user("run the tests")
    story.session.append_message(BashMessage("make test", "ok", 0, timestamp=1))
    kept = story.says("they pass, and this answer stays")
    text = story.text(kept)
    assert "user ran: make test" in text
    assert f"goes on with the work on request [{request}]" in text


def test_what_the_user_asks_the_summary_to_mind_is_in_it(story):
    assert "keep the table of tokens" in story.text(instructions="keep the table of tokens")


# ---- what does not enter


def test_notes_reminders_thinking_and_hidden_commands_stay_out(story):
    story.session.append_message(CustomMessage("btw-note", "SECRET-A", timestamp=1))
    story.session.append_message(CustomMessage("reminder", "SECRET-B", display=False, timestamp=1))
    story.says("fine", Thinking("SECRET-C"))
    story.session.append_message(
        BashMessage("echo SECRET-D", "", 0, exclude_from_context=True, timestamp=1)
    )
    failed = AssistantMessage((Text("SECRET-E"),), stop_reason="error", timestamp=1)
    story.session.append_message(failed)
    assert "SECRET" not in story.text()


def test_what_was_taken_out_of_the_context_stays_out(story):
    edited = story.user("my password is HUNTER2")
    story.session.append("context_edit", {"targetId": edited, "replacement": None})
    changed = story.user("the old words")
    new = {"content": "the new words"}
    story.session.append("context_edit", {"targetId": changed, "replacement": new})
    dropped = story.user("DROPPED by a plugin")
    story.session.append_custom("unipi.projection", {"entryId": dropped, "dropped": True})
    text = story.text()
    assert "HUNTER2" not in text
    assert "DROPPED" not in text
    assert "the old words" not in text
    assert "the new words" in text


def test_recalls_are_not_summed_up(story):
    story.does("session_recall", "WHAT WAS FOUND", query="something")
    story.does("session_recall", "WHAT WENT WRONG", error=True, query="something")
    assert "tool: session_recall" not in story.text()
    assert "WHAT WENT WRONG" not in story.text()


def test_a_summary_is_at_most_three_quarters_of_what_it_replaces():
    story = Story()
    for number in range(40):
        story.user(f"{number} you must never do that, and we decided to keep it so instead")
        story.says(f"Next: {number} we decided to use this instead of that")
    replaced = story.summary().facts.fresh
    assert replaced < Options().summary_bytes
    assert len(story.text().encode()) <= 0.75 * replaced


# ---- one after another


def test_three_compactions_in_a_row_lose_no_request_no_open_error_and_no_count(story):
    story.user("And keep the old API alive.")
    story.does("bash", "fatal: disk quota", error=True, command="make image")
    for number in range(60):
        story.does("write", path=f"src/f{number}.py")
    for number in range(3):
        kept = story.user(f"next part {number}")
        story.compacts(kept)
        story.says(FILLER)
    text = story.text(story.user("go on"))
    assert "Port the parser to Rust." in text
    assert "And keep the old API alive." in text
    assert "fatal: disk quota" in text
    assert "(and 20 more; session_recall finds them)" in section(text, "Files")


def test_a_summary_that_a_model_wrote_is_carried_on_and_one_of_ours_is_made_anew(story):
    fields = {"firstKeptEntryId": "", "tokensBefore": 9}
    story.session.append("compaction", {"summary": "A model said: port 8080.", **fields})
    story.compacts(story.user("more"))
    story.says(FILLER)
    text = story.text()
    assert text.count("A model said: port 8080.") == 1
    assert text.count("What follows stands for") == 1


# ---- bounds and settings


def test_every_setting_changes_the_summary(story):
    for number in range(60):
        story.user(f"You must never break rule {number}. " + "words " * 60)
        story.says(f"We decided to use plan {number} instead of the other.")
        story.does("write", path=f"src/f{number}.py")
        story.does("read", path=f"lib/f{number}.py")
        story.does("bash", f"error {number}", error=True, command=f"run {number}")
        story.does("bash", f"[main {number:07x}] c{number}", command="git commit")
    plain = story.text()
    changes = {
        "summary_bytes": 9_000,
        "requests_bytes": 2_000,
        "message_bytes": 256,
        "constraints": 3,
        "decisions": 3,
        "files": 3,
        "commits": 3,
        "errors": 3,
        "transcript": 3,
    }
    for key, value in changes.items():
        assert story.text(options=read_options({"summary_bytes": 60_000, key: value})) != plain, key
    for name in (
        "requests",
        "constraints",
        "decisions",
        "files",
        "commits",
        "errors",
        "open",
        "transcript",
    ):
        wide = {"summary_bytes": 60_000}
        without = story.text(options=read_options({**wide, "sections_off": [name]}))
        assert without != story.text(options=read_options(wide)), name


def test_presets_differ_and_a_setting_wins_over_one(story):
    for number in range(80):
        story.user(f"You must keep {number}. " + "words " * 60)
        story.does("write", path=f"src/f{number}.py")
    texts = {name: story.text(options=preset) for name, preset in PRESETS.items()}
    assert len(set(texts.values())) == len(PRESETS)
    assert len(texts["lean"]) < len(texts["balanced"]) < len(texts["thorough"])
    assert read_options({"preset": "lean", "files": 77}).files == 77
    assert read_options({"preset": "lean"}, "thorough").preset == "thorough"


@pytest.mark.parametrize("window", [2_000, 8_000, 32_000])
def test_a_summary_takes_at_most_an_eighth_of_the_window(story, window):
    for number in range(200):
        story.user(f"{number} " + "long words " * 40)
    assert len(story.text(window=window).encode()) <= max(1_024, window // 8 * 4)


@pytest.mark.parametrize(
    "value", ["many", None, -5, float("nan"), float("inf"), 10**12, True, [], {}]
)
def test_a_setting_that_makes_no_sense_still_gives_a_bounded_summary(story, value):
    options = read_options(
        {"summary_bytes": value, "files": value, "trigger": value, "sections_off": value}
    )
    assert 1_024 <= options.summary_bytes <= 262_144
    assert story.text(options=options)


# ---- any history


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=200
).filter(str.strip)
moves = st.one_of(
    st.tuples(st.just("user"), words),
    st.tuples(st.just("says"), words),
    st.tuples(st.just("tool"), words),
    st.tuples(st.just("failed"), words),
    st.tuples(st.just("compact"), st.integers(0, 40)),
)


def told(steps):
    story = Story()
    for kind, what in steps:
        if kind == "user":
            story.user(what)
        elif kind == "says":
            story.says(what)
        elif kind == "compact":
            branch = story.session.branch()
            if branch:
                story.compacts(branch[what % len(branch)].id)
        else:
            story.does("bash", what, error=kind == "failed", command=what[:20])
    return story


@settings(max_examples=60, deadline=None)
@given(st.lists(moves, max_size=25), st.integers(0, 40))
def test_within_the_caps_nothing_of_what_the_user_said_is_lost(steps, cut):
    story = told(steps)
    branch = story.session.branch()
    place = cut % len(branch) if branch else 0
    kept = branch[place].id if branch else ""
    made = summarise(branch, kept, Options())
    said = [e.message.content for e in branch[:place] if isinstance(e.message, UserMessage)]
    assert len(made.text.encode()) <= max(1_024, Options().summary_bytes)
    distinct = dict.fromkeys(said)
    # An id and the blank line behind it take some forty bytes of the same room.
    replaced = made.facts.fresh + last_cut(branch[:place])[1]
    room = 0.6 * max(1_024, min(Options().summary_bytes, 0.75 * replaced))
    if sum(len(text.encode()) + 60 for text in distinct) < room:
        for text in distinct:
            assert text in made.text


@settings(max_examples=40, deadline=None)
@given(st.lists(moves, max_size=25))
def test_the_same_entries_give_the_same_bytes(steps):
    branch = told(steps).session.branch()
    assert summarise(branch, "", Options()).text == summarise(list(branch), "", Options()).text


def test_lone_surrogates_and_control_characters_do_no_harm(story):
    story.says("we decided \ud800 to keep it\x00 \x1b[31m")
    story.text().encode()


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from unipi.session import Session
from unipi_compactor.settings import Options
from unipi_compactor.summary import summarise
with Session.open(Path(sys.argv[1]), read_only=True) as session:
    sys.stdout.buffer.write(summarise(session.branch(), "", Options()).text.encode())
"""


@pytest.mark.slow
def test_twenty_processes_in_different_environments_write_the_same_bytes(tmp_path):
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path) as session:
        for number in range(40):
            session.append_message(UserMessage(f"İş {number}: ändere nichts, 保持 nie ß", 1))
            call = ToolCall(f"c{number}", "write", {"path": f"src/{number % 7}ü.py"})
            session.append_message(AssistantMessage((Text("We will use Ä."), call), timestamp=1))
            done = ToolResultMessage(call.id, "write", (Text("ok"),), timestamp=1)
            session.append_message(done)
    source = str(Path(unipi_compactor.__file__).parents[1])
    zones = ["UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Kiritimati"]
    languages = ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE", "POSIX"]
    seen = set()
    for number in range(20):
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONHASHSEED": str(number),
            "TZ": zones[number % 4],
            "LANG": languages[number % 5],
            "LC_ALL": languages[(number + 1) % 5],
            "HOME": str(tmp_path / str(number)),
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path), source],
            env=env,
            cwd="/" if number % 2 else tmp_path,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        seen.add(done.stdout)
    assert len(seen) == 1


@pytest.mark.slow
def test_ten_megabytes_are_summed_up_in_at_most_twice_the_time_of_parsing_them(tmp_path):
    path = tmp_path / "big.jsonl"
    lines = [
        f'{number}: value = compute(left_{number}, right_{number})  # "quoted"\n'
        for number in range(70)
    ]
    with Session.create(path, cwd=tmp_path) as session:
        for number in range(2_200):
            if number % 20 == 0:
                session.append_message(UserMessage(f"Request {number}: never rename it.", 1))
            call = ToolCall(
                f"c{number}", ("read", "bash")[number % 2], {"path": f"src/{number % 90}.py"}
            )
            answer = (Text(f"We decided on step {number}.\nNext: look at it."), call)
            session.append_message(AssistantMessage(answer, timestamp=1))
            result = (Text("".join(lines)),)
            session.append_message(
                ToolResultMessage(call.id, call.name, result, number % 9 == 0, timestamp=1)
            )
    data = path.read_bytes()
    assert len(data) > 9_500_000
    with Session.open(path, read_only=True) as session:
        branch = session.branch()
        raw = data.decode()
        parse, make = [], []
        for _ in range(3):
            begin = time.perf_counter()
            for line in raw.splitlines():
                json.loads(line)
            parse.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            summarise(branch, "", Options())
            make.append(time.perf_counter() - begin)
    assert min(make) <= 2 * min(parse), (make, parse)
