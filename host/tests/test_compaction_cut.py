"""Where a compaction cuts: never through a tool round, never before an earlier one, never too much."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from unipi.compaction.cut import NothingToCompactError, find_cut, live_entries, open_calls
from unipi.compaction.estimate import Calibration, estimate, message_tokens
from unipi.compaction.files import FileLists, file_lists
from unipi.session import Session
from unipi.session.tree import project
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    Image,
    SummaryMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "pi-session-a.jsonl"


def session(*messages):
    made = Session.create(None, cwd=Path("/"))
    for message in messages:
        made.append_message(message)
    return made


def user(size=400):
    return UserMessage("u" * size)


def said(size=400, *calls, usage=None):
    blocks = [ToolCall(name, "read", {"path": f"{name}.py"}) for name in calls]
    return AssistantMessage((Text("a" * size), *blocks), api="x", usage=usage)


def result(name, size=400, **changes):
    return ToolResultMessage(name, "read", [Text("r" * size)], **changes)


def place(made, cut):
    return [entry.id for entry in made.branch()].index(cut.first_kept_entry_id)


# ---- what is real


@pytest.mark.skipif(not RECORDED.exists(), reason="needs ../shared/data")
def test_both_recorded_compactions_of_a_real_session_are_cut_where_they_were() -> None:
    with Session.open(RECORDED, read_only=True) as recorded:
        entries = recorded.entries()
    found = []
    for index, entry in enumerate(entries):
        if entry.type == "compaction":
            cut = find_cut(entries[:index])
            asked = (entry.fields["firstKeptEntryId"], entry.fields["tokensBefore"])
            found.append((cut.first_kept_entry_id, cut.tokens_before) == asked)
    assert found == [True, True]


# ---- the rules, one by one


def test_the_turn_in_which_the_budget_ends_stays_whole() -> None:
    made = session(user(), said(), user(), said(400, "a"), result("a", 2_000), said())
    cut = find_cut(made.branch(), keep=500)
    assert place(made, cut) == 2
    assert (cut.turn_prefix, cut.tokens_kept > 500) == (0, True)


def test_of_a_turn_over_twice_the_budget_the_beginning_is_cut_off_too() -> None:
    rounds = [m for n in range(20) for m in (said(400, f"c{n}"), result(f"c{n}"))]
    made = session(user(), said(), user(), *rounds, said())
    cut = find_cut(made.branch(), keep=500)
    kept = made.branch()[place(made, cut)]
    assert isinstance(kept.message, AssistantMessage)
    assert cut.turn_prefix == place(made, cut) - 2 > 0
    assert 250 < cut.tokens_kept <= 700


def test_a_result_that_fills_the_budget_alone_stays_with_its_call() -> None:
    made = session(user(), said(), user(), said(400, "a"), result("a", 40_000))
    cut = find_cut(made.branch(), keep=500)
    assert place(made, cut) == 3


def test_one_message_that_fills_the_context_goes_if_there_is_anything_behind_it() -> None:
    made = session(user(80_000), said(400), user(400))
    cut = find_cut(made.branch(), keep=500)
    assert (place(made, cut), cut.turn_prefix) == (1, 1)


def test_the_head_in_front_of_the_first_report_is_no_part_of_what_is_kept() -> None:
    # 30,000 tokens of head and summary stand before the first entry; what was said is 300.
    told = Usage(input=30_100, output=100)
    made = session(user(400), said(400, usage=told), user(400))
    with pytest.raises(NothingToCompactError, match="within the 500 tokens"):
        find_cut(made.branch(), keep=500)


def test_entries_that_say_nothing_stay_with_what_follows_them() -> None:
    made = session(user(), said())
    made.append("model_change", {"provider": "sim", "modelId": "m"})
    made.append_message(user(4_000))
    made.append_message(said())
    assert place(made, find_cut(made.branch(), keep=500)) == 2


def test_the_budget_is_counted_in_what_was_reported_where_it_was() -> None:
    # Two characters a token: by the rule of thumb the last turn alone would not fill the budget.
    made = session(
        user(), said(usage=Usage(input=9_900, output=100)), user(), said(usage=Usage(10_300, 300))
    )
    cut = find_cut(made.branch(), keep=500)
    assert (place(made, cut), cut.tokens_before, cut.tokens_kept) == (2, 10_600, 600)


def test_a_second_compaction_begins_where_the_first_one_cut_and_hands_its_summary_on() -> None:
    made = session(user(), said(), user(), said())
    first = find_cut(made.branch(), keep=150)
    made.append("compaction", {"summary": "S1", "firstKeptEntryId": first.first_kept_entry_id})
    for message in (user(), said(), user(), said()):
        made.append_message(message)
    second = find_cut(made.branch(), keep=150)
    assert second.previous_summary == "S1"
    assert second.summarised[0].id == first.first_kept_entry_id
    assert all(entry.type != "compaction" for entry in second.summarised)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((), "no message"),
        ((user(), said()), "within the 500 tokens"),
        ((user(40_000), said(40_000)), "within"),
    ],
)
def test_where_there_is_nothing_to_cut_off_the_reason_is_told(messages, why) -> None:
    made = session(*messages)
    if why == "within":  # one turn: its own beginning could only be cut off inside of it
        assert find_cut(made.branch(), keep=500).turn_prefix == 1
        return
    with pytest.raises(NothingToCompactError, match=why):
        find_cut(made.branch(), keep=500)


def test_right_after_a_compaction_there_is_nothing_to_do() -> None:
    made = session(user(4_000), said(4_000), user(), said())
    made.append("compaction", {"summary": "S", "firstKeptEntryId": made.branch()[2].id})
    made.append("model_change", {"provider": "sim", "modelId": "m"})
    with pytest.raises(NothingToCompactError, match="since the last compaction"):
        find_cut(made.branch(), keep=10)


def test_an_unknown_boundary_keeps_nothing_from_before_it() -> None:
    made = session(user(), said())
    made.append("compaction", {"summary": "S", "firstKeptEntryId": "gone"})
    made.append_message(user())
    live, previous = live_entries(made.branch())
    assert ([entry.type for entry in live], previous) == (["message"], "S")


@pytest.mark.parametrize(
    ("tail", "names"),
    [
        ((said(9, "a", "b"),), ["a", "b"]),
        ((said(9, "a", "b"), result("a")), ["b"]),
        ((said(9, "a"), result("a")), []),
        ((said(9, "a"), result("a"), user()), []),
        ((said(9),), []),
    ],
)
def test_open_calls_are_those_of_the_last_answer_without_a_result(tail, names) -> None:
    assert [call.id for call in open_calls(session(user(), *tail).branch())] == names


# ---- any history


def messages():
    def round_of(sizes):
        names = [f"c{i}_{size}" for i, size in enumerate(sizes)]
        return [said(sizes[0], *names), *(result(n, s) for n, s in zip(names, sizes, strict=True))]

    size = st.integers(1, 3_000)
    return st.lists(
        st.one_of(
            size.map(lambda n: [user(n)]),
            size.map(lambda n: [said(n)]),
            size.map(lambda n: [CustomMessage("note", "c" * n)]),
            size.map(lambda n: [BashMessage("ls", "b" * n)]),
            st.lists(size, min_size=1, max_size=4).map(round_of),
            st.just(["compact"]),
        ),
        min_size=1,
        max_size=25,
    )


@settings(max_examples=150, deadline=None)
@given(messages(), st.integers(50, 2_000))
def test_any_cut_of_any_history_leaves_whole_rounds_and_loses_no_message(history, keep) -> None:
    made = Session.create(None, cwd=Path("/"))
    for message in (m for step in [[user()], *history, ["compact"]] for m in step):
        if message != "compact":
            made.append_message(message)
            continue
        before = made.branch()
        try:
            cut = find_cut(before, keep=keep)
        except NothingToCompactError:
            continue
        live, _ = live_entries(before)
        made.append("compaction", {"summary": "S", "firstKeptEntryId": cut.first_kept_entry_id})
        after, _ = live_entries(made.branch())
        told = [entry.id for entry in live if entry.message is not None]
        kept = [entry.id for entry in after if entry.message is not None]
        gone = [entry.id for entry in cut.summarised if entry.message is not None]
        assert gone + kept == told
        assert gone
        seen = project(made.branch())
        assert isinstance(seen.items[0].message, SummaryMessage)
        assert seen.left_out == [], seen.left_out
        assert not any(item.synthesised for item in seen.items)


# ---- sizes


def test_the_rule_of_thumb_is_four_characters_a_token() -> None:
    assert message_tokens(UserMessage("abcde")) == 2
    assert message_tokens(UserMessage([Text("abcd"), Image("x", "image/png")])) == 1_201
    assert message_tokens(said(0, "abc")) == len('read{"path":"abc.py"}') // 4 + 1
    assert message_tokens(AssistantMessage((Thinking("abcd"),))) == 1
    assert message_tokens(SummaryMessage("compaction", "abcd")) == 1
    assert message_tokens(BashMessage("ab", "cd")) == 1


def test_what_was_reported_counts_and_what_came_since_is_estimated() -> None:
    found = estimate([user(), said(usage=Usage(input=50, cache_read=40, output=10)), user(80)])
    assert (found.reported, found.since, found.total) == (100, 20, 120)


def test_a_report_from_before_a_compaction_is_not_about_this_context() -> None:
    kept = attrs.evolve(said(40, usage=Usage(input=90_000)), timestamp=5)
    found = estimate([SummaryMessage("compaction", "s" * 40, 9), user(40), kept])
    assert (found.reported, found.since) == (0, 30)
    new = attrs.evolve(kept, usage=Usage(input=70), timestamp=11)
    assert estimate([SummaryMessage("compaction", "s", 9), kept, new]).reported == 70


def test_the_rule_is_set_right_by_reports_that_can_be_believed() -> None:
    learnt = Calibration().learn(1_000, 1_400).learn(1_000, 1_600).learn(10, 900)
    assert learnt.ratio == 1.5
    assert learnt.tokens([user(400)]) == 150


# ---- files


def test_files_are_carried_on_sorted_and_a_changed_one_is_not_listed_as_read() -> None:
    def call(name, tool, path):
        return AssistantMessage((ToolCall(name, tool, {"path": path}),))

    made = session(
        call("a", "read", "b.py"),
        result("a"),
        call("b", "read", "a.py"),
        result("b"),
        call("c", "edit", "b.py"),
        result("c"),
        call("d", "write", "no.py"),
        result("d", is_error=True),
    )
    found = file_lists(made.branch(), {"readFiles": ["z.py"], "modifiedFiles": ["old.py", 3]})
    assert found == FileLists(("a.py", "z.py"), ("b.py", "old.py"))
    assert found.text() == "Files read:\n- a.py\n- z.py\n\nFiles changed:\n- b.py\n- old.py"
    assert file_lists([], found.details()) == found
