"""The cache audit: misses, what they cost, and why, from recorded usage alone."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli.main import cli
from unipi.session import Session
from unipi.session.audit import audit
from unipi_hookspecs import AssistantMessage, Usage, UserMessage

PI_SESSION = Path(__file__).parents[3] / "shared" / "data" / "pi-session-a.jsonl"
needs_data = pytest.mark.skipif(
    not PI_SESSION.exists(), reason="the recorded session (shared/data) is not here"
)


class Tape:
    """A session in memory on which answers are recorded at given seconds."""

    def __init__(self):
        self.session = Session.create(None, cwd=Path("/w"))

    def answer(self, second, fresh, read, *, stop="stop", model="m"):
        self.session.append_message(
            AssistantMessage(
                (),
                provider="p",
                model=model,
                usage=Usage(fresh, 1, read, 0),
                stop_reason=stop,
                timestamp=1_000_000 + int(second * 1000),
            )
        )
        return self

    def add(self, kind, **fields):
        self.session.append(kind, fields)
        return self

    def report(self, **options):
        return audit(self.session.entries(), **options)

    def causes(self, **options):
        return [row.cause for row in self.report(**options).rows]


def test_a_prompt_read_back_for_nine_tenths_is_no_miss_and_a_token_less_is_one():
    assert Tape().answer(0, 1000, 0).answer(1, 200, 900).report().rows == ()
    (miss,) = Tape().answer(0, 1000, 0).answer(1.5, 200, 899).report().rows
    assert (miss.index, miss.seconds, miss.tokens, miss.cause) == (1, 1.5, 101, "unexplained")


def test_the_first_answer_is_no_miss():
    assert Tape().answer(0, 1000, 0).report().rows == ()


def test_failed_and_aborted_answers_are_not_judged_and_not_compared_with():
    tape = Tape().answer(0, 1000, 0).answer(1, 0, 0, stop="aborted").answer(2, 10, 1000)
    report = tape.report()
    assert (report.answered, report.rows) == (2, ())


@pytest.mark.parametrize(
    ("kind", "fields", "cause"),
    [
        ("compaction", {"summary": "s"}, "compaction"),
        ("thinking_level_change", {"thinkingLevel": "high"}, "thinking_level"),
        ("label", {"targetId": "x"}, "unexplained"),
    ],
)
def test_the_cause_is_what_the_session_records_between_the_answers(kind, fields, cause):
    tape = Tape().answer(0, 1000, 0).add(kind, **fields).answer(1, 1000, 0)
    assert tape.causes() == [cause]


def test_another_model_is_a_cause_and_a_change_back_is_none():
    assert Tape().answer(0, 1000, 0).answer(1, 1000, 0, model="n").causes() == ["model"]
    tape = Tape().answer(0, 1000, 0)
    tape.add("model_change", provider="p", modelId="n").add(
        "model_change", provider="p", modelId="m"
    )
    assert tape.answer(1, 1000, 0).causes() == ["unexplained"]


def test_a_pause_past_the_time_to_live_is_idle():
    tape = Tape().answer(0, 1000, 0).answer(301, 1000, 0)
    assert tape.causes() == ["idle"]
    assert tape.causes(ttl_seconds=3600) == ["unexplained"]


@pytest.mark.parametrize(("stop", "cause"), [("aborted", "after_abort"), ("error", "after_error")])
def test_a_miss_behind_an_abort_or_an_error_says_so(stop, cause):
    tape = Tape().answer(0, 1000, 0).answer(1, 0, 0, stop=stop).answer(2, 1000, 0)
    assert tape.causes() == [cause]


def test_a_cause_does_not_outlive_the_next_answer():
    tape = Tape().answer(0, 1000, 0).add("compaction", summary="s").answer(1, 100, 1000)
    assert tape.answer(2, 1000, 0).causes() == ["unexplained"]


def test_a_provider_that_says_nothing_of_its_cache_is_not_accused():
    tape = Tape().answer(0, 1000, 0)
    tape.session.append_message(AssistantMessage((), usage=Usage(1000, 1)))
    tape.session.append_message(AssistantMessage(()))
    report = tape.report()
    assert (report.answered, report.unreported, report.rows) == (3, 2, ())


def test_a_session_without_answers_has_a_report():
    session = Session.create(None, cwd=Path("/w"))
    session.append_message(UserMessage("x"))
    assert audit(session.entries()).to_json() == {
        "answered": 0,
        "misses": 0,
        "tokens_paid_again": 0,
        "recorded_share": 0.0,
        "by_cause": {},
        "rows": [],
        "unreported": 0,
    }


@needs_data
def test_the_recorded_session_holds_12_misses_of_one_and_a_half_million_tokens():
    result = CliRunner().invoke(cli, ["cache", "audit", str(PI_SESSION), "--json"])
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["answered"] == 465
    assert report["misses"] == len(report["rows"]) == 12
    assert report["tokens_paid_again"] == 1_491_729
    assert f"{report['recorded_share']:.1%}" == "97.0%"
    assert sum(cause["misses"] for cause in report["by_cause"].values()) == 12
    assert sum(cause["tokens"] for cause in report["by_cause"].values()) == 1_491_729
    assert report["by_cause"]["compaction"]["misses"] == 2


@needs_data
def test_people_get_a_table_and_the_totals():
    result = CliRunner().invoke(cli, ["cache", "audit", str(PI_SESSION), "--ttl", "3600"])
    assert "465 answered, 12 misses, 1,491,729 tokens paid again, 97.0%" in result.output
    assert "idle" not in result.output


def test_a_file_that_is_no_session_is_named_and_ends_with_2(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("hello\n")
    result = CliRunner().invoke(cli, ["cache", "audit", str(path)])
    assert result.exit_code == 2
    assert "notes.jsonl is not a session" in result.output
