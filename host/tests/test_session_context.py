"""From a branch to what the model sees: compactions, pairs of call and result, edits."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from unipi.session import ContextItem, Session
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    SummaryMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


@pytest.fixture
def session() -> Session:
    return Session.create(None, cwd=Path("/w"))


def user(text="hi"):
    return UserMessage(text, 1)


def answer(*calls, text="ok", stop="stop"):
    blocks = (Text(text), *(ToolCall(call, "bash", {}) for call in calls))
    return AssistantMessage(blocks, stop_reason="toolUse" if calls else stop, timestamp=2)


def result(call, text="done"):
    return ToolResultMessage(call, "bash", (Text(text),), timestamp=3)


def say(session, *messages):
    return [session.append_message(message) for message in messages]


def words(session, **options):
    said = []
    for item in session.context(**options):
        message = item.message
        if isinstance(message, SummaryMessage):
            said.append(f"summary:{message.summary}")
        elif isinstance(message, ToolResultMessage):
            said.append(f"{message.tool_call_id}:{message.content[0].text}")
        elif isinstance(message.content, str):
            said.append(message.content)
        else:
            said.append(message.content[0].text)
    return said


def test_every_item_names_the_entry_it_comes_from(session):
    entries = say(session, user("a"), answer(text="b"))
    assert session.context() == [ContextItem(e.id, e.message) for e in entries]


def test_a_branch_ends_at_a_missing_parent_and_begins_anew_at_another_leaf(session):
    _, second, _ = say(session, user("a"), answer(text="b"), user("c"))
    session.move_leaf(second.id)
    say(session, user("d"))
    assert words(session) == ["a", "b", "d"]
    session.move_leaf(None)
    say(session, user("e"))
    assert words(session) == ["e"]


def test_only_the_last_compaction_counts_and_its_summary_comes_first(session):
    say(session, user("a"), answer(text="b"))
    (kept,) = say(session, user("c"))
    session.append("compaction", {"summary": "old", "firstKeptEntryId": kept.id})
    say(session, answer(text="d"))
    session.append("compaction", {"summary": "new", "firstKeptEntryId": kept.id})
    say(session, user("e"))
    assert words(session) == ["summary:new", "c", "d", "e"]
    assert session.left_out() == []


def test_a_compaction_that_names_an_unknown_entry_keeps_nothing_from_before_and_says_so(session):
    say(session, user("a"), answer(text="b"))
    session.append("compaction", {"summary": "s", "firstKeptEntryId": "ffffffff"})
    say(session, user("c"))
    assert words(session) == ["summary:s", "c"]
    assert "ffffffff is not before it" in session.left_out()[0]


@pytest.mark.parametrize("first", [None, ""])
def test_a_compaction_may_keep_nothing_on_purpose(session, first):
    say(session, user("a"))
    session.append("compaction", {"summary": "s", "firstKeptEntryId": first})
    assert words(session) == ["summary:s"]
    assert session.left_out() == []


def test_a_result_whose_call_was_compacted_away_is_left_out(session):
    say(session, user("a"), answer("c1"))
    older = session.append("compaction", {"summary": "old", "firstKeptEntryId": None})
    (orphan,) = say(session, result("c1"))
    say(session, *(m for n in range(40) for m in (user(f"u{n}"), answer(text=f"a{n}"))))
    session.append("compaction", {"summary": "new", "firstKeptEntryId": older.id})
    say(session, user("go on"))
    said = words(session)
    assert said[:3] == ["summary:new", "u0", "a0"]
    assert said[-1] == "go on"
    assert session.left_out() == [f"{orphan.id} (toolResult): its call is not just before it"]


def test_a_result_stays_with_its_call_across_a_compaction_between_them(session):
    (kept,) = say(session, user("a"))
    say(session, answer("c1"))
    session.append("compaction", {"summary": "old", "firstKeptEntryId": kept.id})
    say(session, result("c1"))
    session.append("compaction", {"summary": "new", "firstKeptEntryId": kept.id})
    assert words(session) == ["summary:new", "a", "ok", "c1:done"]


def test_a_context_begins_with_the_user(session):
    entries = say(session, answer("c1"), result("c1"), user("a"), answer())
    assert words(session) == ["a", "ok"]
    assert [line.split()[0] for line in session.left_out()] == [e.id for e in entries[:2]]


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_failed_and_aborted_answers_are_not_sent_nor_what_hangs_on_them(session, stop):
    failed = AssistantMessage((Text("x"), ToolCall("c1", "bash", {})), stop_reason=stop)
    say(session, user("a"), failed, result("c1"), user("b"))
    assert words(session) == ["a", "b"]
    assert len(session.left_out()) == 2
    assert session.open_calls() == []


def test_a_second_result_of_a_call_is_left_out(session):
    say(session, user(), answer("c1"), result("c1", "first"), result("c1", "second"))
    assert words(session)[-1] == "c1:first"
    assert len(session.left_out()) == 1


def test_calls_of_the_last_answer_without_a_result_are_open(session):
    say(session, user(), answer("c1", "c2", "c3"), result("c2"))
    assert [call.id for call in session.open_calls()] == ["c1", "c3"]
    assert words(session) == ["hi", "ok", "c2:done"]


def test_repair_puts_results_in_place_in_memory_alone(session):
    say(session, user(), answer("c1"))
    *_, last = session.context(repair=True)
    assert last.synthesised
    assert last.message.is_error
    assert last.message.content[0].text.startswith("not run: ")
    assert session.context(repair=True) == session.context(repair=True)
    assert len(session.entries()) == 2


def test_open_calls_are_closed_with_results_that_say_they_were_not_run(session):
    say(session, user(), answer("c1", "c2"))
    closed = session.close_open_calls("the session ended before it")
    assert [e.message.tool_call_id for e in closed] == ["c1", "c2"]
    assert words(session)[-2:] == [
        "c1:not run: the session ended before it",
        "c2:not run: the session ended before it",
    ]
    assert all(e.message.is_error for e in closed)
    assert session.open_calls() == []
    assert session.close_open_calls("again") == []


def test_a_call_that_the_session_went_on_without_gets_a_stand_in_and_is_no_longer_open(session):
    say(session, user(), answer("c1", "c2"), result("c1"), user("next"), result("c2", "late"))
    assert words(session)[2] == "c1:done"
    assert words(session)[3].startswith("c2:not run: ")
    assert words(session)[4:] == ["next"]
    assert session.open_calls() == []
    assert len(session.left_out()) == 2


def test_a_bash_command_is_seen_unless_it_is_excluded(session):
    seen = BashMessage("ls", "a", timestamp=1)
    hidden = BashMessage("env", "SECRET", exclude_from_context=True, timestamp=1)
    say(session, seen, hidden)
    assert session.messages() == [seen]


def test_a_plugin_message_and_a_branch_summary_are_seen_and_other_entries_are_not(session):
    note = CustomMessage("note", "n", display=False, timestamp=4)
    say(session, note)
    session.append("branch_summary", {"fromId": "x", "summary": "left"})
    session.append("branch_summary", {"fromId": "x", "summary": ""})
    session.append("model_change", {"provider": "p", "modelId": "m"})
    session.append("usage", {"kind": "cache_warm", "usage": {}})
    session.append("message", {"message": {"role": "system", "content": "p", "sections": {}}})
    assert session.messages() == [
        note,
        SummaryMessage("branch", "left", session.messages()[1].timestamp),
    ]
    assert session.left_out() == []


def test_a_message_of_an_unknown_role_is_kept_and_reported(session):
    session.append("message", {"message": {"role": "oracle", "content": "?"}})
    assert session.messages() == []
    assert "unknown role oracle" in session.left_out()[0]


def test_empty_content_is_kept(session):
    say(session, user(""), AssistantMessage((), timestamp=1))
    assert [m.content for m in session.messages()] == ["", ()]


def test_a_context_edit_replaces_the_content_of_an_earlier_message(session):
    first, second = say(session, user("secret"), answer(text="secret"))
    session.append("context_edit", {"targetId": first.id, "replacement": {"content": "x"}})
    session.append("context_edit", {"targetId": first.id, "replacement": {"content": "y"}})
    session.append("context_edit", {"targetId": second.id, "replacement": {"content": "z"}})
    assert [m.content for m in session.messages()] == ["y", (Text("z"),)]
    assert session.entries()[0].message.content == "secret"


def test_a_context_edit_leaves_a_message_out_and_its_results_with_it(session):
    _, called, _ = say(session, user("a"), answer("c1"), result("c1"))
    session.append("context_edit", {"targetId": called.id, "replacement": None})
    assert words(session) == ["a"]
    assert len(session.left_out()) == 2


def test_a_context_edit_on_another_branch_changes_nothing_here(session):
    (first,) = say(session, user("a"))
    session.append("context_edit", {"targetId": first.id, "replacement": None})
    session.move_leaf(first.id)
    assert words(session) == ["a"]


ids = st.sampled_from(["c1", "c2", "c3"])
steps = st.lists(
    st.one_of(
        st.builds(user),
        st.lists(ids, max_size=2, unique=True).map(lambda calls: answer(*calls)),
        st.builds(result, ids),
        st.builds(answer, ids, stop=st.just("stop")),
        st.just(AssistantMessage((ToolCall("c1", "bash", {}),), stop_reason="aborted")),
        st.just("compact"),
    ),
    max_size=25,
)


@given(steps=steps, data=st.data())
def test_no_context_holds_a_call_without_its_result_or_a_result_without_its_call(steps, data):
    session = Session.create(None, cwd=Path("/w"))
    for step in steps:
        if step == "compact":
            known = [e.id for e in session.entries()] + ["nowhere"]
            first = data.draw(st.sampled_from(known))
            session.append("compaction", {"summary": "s", "firstKeptEntryId": first})
        else:
            session.append_message(step)
    context = [item.message for item in session.context(repair=True)]
    assert not context or not isinstance(context[0], AssistantMessage | ToolResultMessage)
    waiting: set[str] = set()
    for message in context:
        if isinstance(message, ToolResultMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting
        if isinstance(message, AssistantMessage):
            assert message.stop_reason not in ("error", "aborted")
            waiting = {b.id for b in message.content if isinstance(b, ToolCall)}
    assert not waiting
    # What is open can be closed at the tail, and then nothing needs repair.
    session.close_open_calls("test")
    assert session.open_calls() == []
    assert session.context() == session.context(repair=True)
