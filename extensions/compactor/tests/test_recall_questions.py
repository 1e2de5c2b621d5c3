"""Fifty questions about what a recorded session of Pi's was compacted away of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from unipi.compaction.cut import find_cut
from unipi.session import Session
from unipi_compactor.recall import Query, Recall
from unipi_compactor.settings import Options
from unipi_compactor.summary import summarise

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT.parent / "shared" / "data" / "pi-session-a.jsonl"
QUESTIONS = json.loads(
    (Path(__file__).parent / "data" / "recall_questions.json").read_text("utf-8")
)

pytestmark = pytest.mark.skipif(
    not RECORDED.is_file(), reason="the recorded session is not beside the checkout"
)


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "a.jsonl"
    shutil.copyfile(RECORDED, path)
    with Session.open(path, read_only=True) as session:
        yield session


def text_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from text_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from text_of(item)


def test_there_are_fifty_questions_and_each_answer_is_in_what_is_cut_off(recorded):
    branch = recorded.branch()
    first = find_cut(branch).first_kept_entry_id
    place = next(i for i, entry in enumerate(branch) if entry.id == first)
    said = [e.fields["message"] for e in branch[:place] if e.type == "message"]
    cut_off = "\n".join(text for message in said for text in text_of(message))
    assert len(QUESTIONS) == len({q["question"] for q in QUESTIONS}) == 50
    for question in QUESTIONS:
        assert question["expected"] in cut_off, question
        assert question["expected"].lower() not in question["question"].lower()


def test_the_summary_or_the_first_page_of_recall_answers_forty_five_of_them(recorded):
    branch = recorded.branch()
    first = find_cut(branch).first_kept_entry_id
    summary = summarise(branch, first, Options(), window=200_000).text
    place = next(i for i, entry in enumerate(branch) if entry.id == first)
    live = frozenset(entry.id for entry in branch[place:])
    recall = Recall(recorded.id, str(recorded.cwd), recorded.path, from_file=False)
    entries = recorded.entries()
    missed = []
    for question in QUESTIONS:
        expected = question["expected"]
        if expected not in summary:
            page = recall.ask(Query(question["question"]), entries, live)
            if expected not in page:
                missed.append(question["question"])
    recall.close()
    assert len(QUESTIONS) - len(missed) >= 45, missed


def test_both_recorded_summaries_are_carried_on_as_the_newest_of_them_alone(recorded):
    branch = recorded.branch()
    summary = summarise(branch, "", Options(summary_bytes=200_000)).text
    older, newer = [e.message.summary for e in branch if e.type == "compaction"]
    assert newer in summary
    assert older not in summary
