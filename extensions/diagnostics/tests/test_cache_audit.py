"""`unipi cache audit` on sessions of UniPi, Pi and Codex, and over folders of them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from unipi.cli.main import cli
from unipi.session import Session
from unipi.session.audit import audit as host_audit
from unipi_diagnostics.audit import Auditor
from unipi_diagnostics.audit_files import session_files, spend
from unipi_diagnostics.audit_money import TOP, Spending
from unipi_diagnostics.audit_rates import PriceBook, Rates, own_rates
from unipi_diagnostics.audit_records import Answer
from unipi_diagnostics.readers import NotASessionError, kind_of, make_reader, read

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "pi-session-a.jsonl"
needs_data = pytest.mark.skipif(
    not RECORDED.exists(), reason="the recorded session (shared/data) is not here"
)
NOON = 1_795_953_600_000
"""2026-11-29, 12:00 UTC, in Unix milliseconds."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The user's own settings are not ours to read."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))


class Tape:
    """A session file in Pi's format; times are in seconds after noon."""

    def __init__(self, version=3, session="5f0c", cwd="/w/app"):
        self.lines = [{"type": "session", "id": session, "cwd": cwd}]
        if version > 1:
            self.lines[0]["version"] = version
        self.version = version

    def add(self, kind, **fields):
        line = {"type": kind, **fields}
        if self.version > 1:
            line |= {"id": f"e{len(self.lines)}", "parentId": None}
        self.lines.append(line)
        return self

    def say(self, said="Go on."):
        return self.add("message", message={"role": "user", "content": said})

    def answer(self, second, fresh=0, read=0, written=0, *, stop="stop", model="m", **usage):
        usage = {"input": fresh, "output": 10, "cacheRead": read, "cacheWrite": written, **usage}
        message = {"role": "assistant", "content": [], "provider": "anthropic", "model": model}
        message |= {"api": "anthropic-messages", "usage": usage, "stopReason": stop}
        return self.add("message", message={**message, "timestamp": NOON + int(second * 1000)})

    def boundary(self, cause, owner="host", *, avoidable=False, **data):
        data = {"number": 2, "cause": cause, "owner": owner, "avoidable": avoidable, **data}
        return self.add("custom", customType="unipi.epoch", data=data)

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def misses(path, ttl=None):
    _, records = read(path)
    return [judged for judged in Auditor(ttl).judge(records) if judged.missed]


def causes(tape, tmp_path, **options):
    return [miss.cause for miss in misses(tape.save(tmp_path / "s.jsonl"), **options)]


@needs_data
def test_ours_and_the_host_s_audit_agree_on_the_recorded_session():
    with Session.open(RECORDED, read_only=True) as session:
        theirs = host_audit(session.entries())
    found = misses(RECORDED)
    assert [(m.index, m.answer.line, m.answer.entry, m.seconds, m.lost) for m in found] == [
        (m.index, m.line, m.entry_id, m.seconds, m.tokens) for m in theirs.rows
    ]
    named = [(m.cause, t.cause) for m, t in zip(found, theirs.rows, strict=True)]
    assert {pair for pair in named if pair[0] != pair[1]} == {("minimum", "unexplained")}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_format_is_read(version, tmp_path):
    tape = Tape(version).say().answer(0, 5_000).add("compaction", summary="s")
    path = tape.answer(1, 5_000).save(tmp_path / "s.jsonl")
    (miss,) = misses(path)
    assert (miss.cause, miss.lost, miss.index, miss.answer.line) == ("compaction", 5_000, 1, 3)


def test_the_host_s_ledger_names_cause_owner_and_avoidable(tmp_path):
    tape = Tape().answer(0, written=5_000).boundary("tools", "careless", avoidable=True)
    (miss,) = misses(tape.answer(1, written=5_000).save(tmp_path / "s.jsonl"))
    assert (miss.cause, miss.owner, miss.avoidable) == ("tools", "careless", True)


def test_the_ledger_goes_before_what_the_entries_say(tmp_path):
    tape = Tape().answer(0, written=5_000).add("compaction", summary="s").boundary("tree", "user")
    assert causes(tape.answer(900, written=5_000), tmp_path) == ["tree"]


def test_a_boundary_after_which_the_provider_still_read_all_is_no_miss(tmp_path):
    tape = Tape().answer(0, written=5_000).boundary("resume").answer(1, read=5_000)
    assert causes(tape, tmp_path) == []


def test_a_prompt_that_was_too_short_to_be_kept_is_no_riddle(tmp_path):
    assert causes(Tape().answer(0, 3_000).answer(1, 9_000), tmp_path) == ["minimum"]
    assert causes(Tape().answer(0, 9_000).answer(1, 9_000), tmp_path) == ["unexplained"]
    assert causes(Tape().answer(0, written=3_000).answer(1, 9_000), tmp_path) == ["unexplained"]


def test_a_prompt_written_for_an_hour_is_kept_for_an_hour_unless_told_otherwise(tmp_path):
    tape = Tape().answer(0, written=5_000, cacheWrite1h=5_000).answer(1_000, 5_000)
    assert causes(tape, tmp_path) == ["unexplained"]
    assert causes(tape, tmp_path, ttl=300) == ["idle"]
    assert causes(Tape().answer(0, written=5_000).answer(1_000, 5_000), tmp_path) == ["idle"]


def test_what_a_compaction_made_shorter_is_not_paid_again(tmp_path):
    tape = Tape().answer(0, written=90_000).add("compaction", summary="s").answer(1, written=9_000)
    (miss,) = misses(tape.save(tmp_path / "s.jsonl"))
    assert (miss.lost, miss.repaid) == (90_000, 9_000)


def test_an_answer_without_cache_figures_is_neither_a_miss_nor_in_the_share(tmp_path):
    tape = Tape().answer(0, 5_000).answer(1, 5_000, unreported=["cacheRead"])
    path = tape.answer(2, 100, 4_900).save(tmp_path / "s.jsonl")
    auditor = Auditor()
    _, records = read(path)
    assert not [judged for judged in auditor.judge(records) if judged.missed]
    assert auditor.unreported == 1
    spending = Spending(PriceBook())
    spend(spending, [path], None)
    assert spending.total.share == 4_900 / 10_000


class Rollout:
    """A file of Codex."""

    def __init__(self):
        meta = {"id": "c1", "cwd": "/w/app", "model_provider": "openai"}
        self.lines = [
            {"type": "session_meta", "timestamp": "2026-11-29T12:00:00Z", "payload": meta}
        ]
        self.total = 0

    def add(self, kind, minute=0, **payload):
        stamp = f"2026-11-29T12:{minute:02}:00.000Z"
        self.lines.append({"type": kind, "timestamp": stamp, "payload": payload})
        return self

    def count(self, minute, prompt, cached, *, again=False):
        self.total += 0 if again else prompt
        last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": 9}
        info = {"last_token_usage": last, "total_token_usage": {"total_tokens": self.total}}
        return self.add("event_msg", minute, type="token_count", info=info, rate_limits={})

    save = Tape.save


def test_a_rollout_of_codex_is_read(tmp_path):
    it = Rollout().add("turn_context", cwd="/w/app", model="gpt-6.1-sol", effort="low")
    it.add("event_msg", type="token_count", info=None).add("event_msg", type="user_message")
    it.count(0, 9_000, 0).count(0, 9_000, 0, again=True).count(1, 9_500, 8_960)
    it.add("turn_context", 2, cwd="/w/app", model="gpt-6.1-sol", effort="high").count(2, 9_900, 0)
    it.add("compacted", 3, message="s").count(3, 3_000, 0).add("event_msg", 3, type="turn_aborted")
    it.count(4, 3_300, 0).count(20, 3_500, 0)
    path = it.save(tmp_path / "rollout-1.jsonl")
    assert [(m.index, m.cause, m.lost) for m in misses(path)] == [
        (2, "thinking_level", 9_500),
        (3, "compaction", 9_900),
        (4, "after_abort", 3_000),
        (5, "idle", 3_300),
    ]
    kind, records = read(path)
    answers = [record for record in records if isinstance(record, Answer)]
    assert (kind, len(answers), answers[1].fresh, answers[1].read) == ("codex", 6, 540, 8_960)


def test_another_model_of_codex_is_the_cause(tmp_path):
    it = Rollout().add("turn_context", model="gpt-6.1-sol").count(0, 9_000, 0)
    path = (
        it.add("turn_context", 1, model="gpt-6-luna").count(1, 9_000, 0).save(tmp_path / "r.jsonl")
    )
    assert [miss.cause for miss in misses(path)] == ["model"]


@pytest.mark.parametrize("content", ["", "hello\n", '{"a": 1}\n' * 60, "\x00\xff"])
def test_a_file_of_another_kind_is_named(content, tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(NotASessionError, match=r"notes\.jsonl is not a session"):
        read(path)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ("usage", "cost", "content", "info", "last_token_usage", "type", "input")
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FIGURES = (
    *("input", "output", "cacheRead", "cacheWrite", "cost", "unreported", "cacheWrite1h"),
    *("input_tokens", "cache_read_input_tokens", "cache_creation", "cached_input_tokens"),
)
USAGE = st.dictionaries(
    st.sampled_from(FIGURES), ODD | st.integers(-5, 9_000) | st.just(10**400), max_size=4
)
SAID = st.fixed_dictionaries(
    {"role": st.just("assistant"), "usage": USAGE},
    optional={"model": ODD, "timestamp": ODD, "stopReason": ODD, "id": ODD, "content": ODD},
)
COUNTED = st.fixed_dictionaries(
    {"type": st.just("token_count"), "info": st.fixed_dictionaries({"last_token_usage": USAGE})}
)
FIRST = (
    {"type": "session", "id": "s"},
    {"type": "session_meta", "payload": {}},
    {"type": "user", "uuid": "u", "sessionId": "s"},
)
NAMES = ("message", "payload", "data", "timestamp", "customType", "isSidechain", "id", "version")
KINDS = ("message", "custom", "assistant", "user", "system", "event_msg", "turn_context")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(FIRST),
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(KINDS)},
            optional=dict.fromkeys(NAMES, ODD | SAID | COUNTED | USAGE),
        ),
        max_size=4,
    ),
)
def test_a_line_with_anything_in_it_stops_no_reader(first, lines):
    reader, auditor, book = make_reader(kind_of(first)), Auditor(), PriceBook()
    for line in (first, *lines):
        for record in reader.take(line):
            judged = auditor.take(record)
            if isinstance(record, Answer):
                book.learn(record)
                assert record.prompt >= 0
            if judged is not None and judged.missed:
                assert judged.lost > 0
                assert (book.loss(judged) or 0) >= 0
    assert list(reader.end()) is not None
    assert 0 <= auditor.share <= 1


# Prices.


def answer_of(model="claude-sonnet-5", **fields):
    return Answer(0, "e", NOON, "anthropic", model, **fields)


def test_prices_are_those_of_the_recording_then_the_user_s_then_examples():
    book = PriceBook({"claude-sonnet-5": Rates(100.0, 100.0, 10.0, 100.0)})
    examples = PriceBook()
    plain = answer_of(fresh=1_000_000, read=0, written=0)
    assert (examples.cost(plain), book.cost(plain)) == (2.0, 100.0)
    told = answer_of(fresh=1_000, read=1_000, written=0, cost={"input": 0.007, "read": 0.001})
    assert book.cost(told) == pytest.approx(0.008)
    book.learn(told)
    assert book.cost(plain) == pytest.approx(7.0)


def test_a_dated_or_prefixed_name_finds_its_model_and_a_longer_one_does_not():
    book = PriceBook()
    assert book.cost(answer_of("anthropic/claude-sonnet-5-20261001", fresh=1_000_000)) == 2.0
    assert book.cost(answer_of("claude-opus-5-5", fresh=1_000_000)) == 4.0
    assert book.cost(answer_of("claude-sonnet-57", fresh=1_000_000)) is None
    assert book.cost(answer_of("", fresh=1)) is None


def test_a_loss_is_what_was_paid_above_a_read(tmp_path):
    tape = Tape().answer(0, written=1_000_000, model="claude-sonnet-5")
    path = tape.answer(1, written=600_000, fresh=500_000, model="claude-sonnet-5").save(
        tmp_path / "s.jsonl"
    )
    (miss,) = misses(path)
    # 0.6 M written at 2.50 and 0.4 M fresh at 2.00, instead of 1 M read at 0.20.
    assert PriceBook().loss(miss) == pytest.approx(0.6 * 2.5 + 0.4 * 2.0 - 0.2)


def test_the_user_s_prices_come_from_the_plugin_s_settings():
    given = {"prices": {"acme/big": {"input": 3, "cache_read": 0.3, "output": "dear"}, "bad": 7}}
    assert own_rates(given) == {"big": Rates(input=3.0, read=0.3)}


# Folders.


def test_money_is_summed_by_day_project_cause_and_owner(tmp_path):
    day = 86_400
    one = Tape(cwd="/w/a").answer(0, written=5_000).boundary("tools", "careless", avoidable=True)
    one.answer(1, written=5_000).answer(day, read=5_000).save(tmp_path / "a" / "1.jsonl")
    Tape(cwd="/w/b").answer(5, 9_000).answer(9, 9_000).save(tmp_path / "b" / "2.jsonl")
    (tmp_path / "b" / "notes.jsonl").write_text("hello\n")
    done = CliRunner().invoke(cli, ["cache", "audit", str(tmp_path), "--json"])
    report = json.loads(done.output)
    assert (report["files"], report["skipped"]) == (2, 1)
    assert "notes.jsonl is not a session" in report["problems"][0]
    assert {name: s["requests"] for name, s in report["by_day"].items()} == {
        "2026-11-29": 4,
        "2026-11-30": 1,
    }
    assert {name: s["misses"] for name, s in report["by_project"].items()} == {"/w/a": 1, "/w/b": 1}
    assert {name: s["misses"] for name, s in report["by_cause"].items()} == {
        "tools": 1,
        "unexplained": 1,
    }
    assert report["by_owner"]["careless"]["avoidable"] == 1
    assert [row["file"] for row in report["worst_files"]] == ["2.jsonl", "1.jsonl"]


def test_since_leaves_out_what_is_older_but_still_compares_with_it(tmp_path):
    tape = Tape().answer(0, written=9_000).answer(86_400, 9_000).save(tmp_path / "s.jsonl")
    arguments = ["cache", "audit", str(tape), "--since", "2026-11-30", "--json"]
    report = json.loads(CliRunner().invoke(cli, arguments).output)
    assert (report["total"]["requests"], report["total"]["misses"]) == (1, 1)
    done = CliRunner().invoke(cli, [*arguments[:4], "yesterday"])
    assert (done.exit_code, "2026-11-01" in done.output) == (2, True)


def test_a_failed_answer_that_was_paid_for_is_in_the_sum(tmp_path):
    path = Tape().answer(0, 5_000).answer(1, 7_000, stop="error").save(tmp_path / "s.jsonl")
    spending = Spending(PriceBook())
    spend(spending, [path], None)
    assert (spending.total.requests, spending.total.prompt) == (2, 12_000)


def test_a_fork_s_copied_answers_are_paid_for_once(tmp_path):
    tape = Tape().answer(0, 5_000).answer(1, 9_000)
    tape.save(tmp_path / "one.jsonl")
    tape.answer(2, 9_500).save(tmp_path / "two.jsonl")
    spending = Spending(PriceBook())
    spend(spending, session_files([tmp_path]), None)
    assert (spending.total.requests, spending.copies, spending.total.misses) == (3, 2, 2)


def test_of_many_files_those_that_cost_most_are_named(tmp_path):
    for number in range(TOP + 5):
        size = 5_000 + number
        tape = Tape().answer(0, written=size).answer(1, written=size)
        tape.save(tmp_path / str(number) / f"{number}.jsonl")
    spending = Spending(PriceBook())
    spend(spending, session_files([tmp_path]), None)
    named = sorted(int(row.name.removesuffix(".jsonl")) for row in spending.worst)
    assert named == list(range(5, TOP + 5))


def test_memory_does_not_grow_with_the_number_of_files(tmp_path):
    tape = Tape()
    for number in range(60):
        tape.say("x" * 2_000).answer(number, 9_000)
    text = tape.save(tmp_path / "0" / "s.jsonl").read_text()
    for number in range(1, 40):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "s.jsonl").write_text(text)

    def peak(files):
        spending = Spending(PriceBook())
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        spend(spending, files, None)
        return tracemalloc.get_traced_memory()[1] - before, spending

    files = session_files([tmp_path])
    tracemalloc.start()
    try:
        peak(files[:2])  # what is loaded once
        few, _ = peak(files[:4])
        many, spending = peak(files)
    finally:
        tracemalloc.stop()
    assert spending.total.requests == 40 * 60
    assert len(spending.worst) == TOP
    assert many < few + 32_000


def test_a_folder_without_sessions_says_so(tmp_path):
    done = CliRunner().invoke(cli, ["cache", "audit", str(tmp_path)])
    assert (done.exit_code, "no session was found" in done.output) == (2, True)
    (tmp_path / "notes.jsonl").write_text("hello\n")
    done = CliRunner().invoke(cli, ["cache", "audit", str(tmp_path)])
    assert "notes.jsonl is not a session" in done.output
