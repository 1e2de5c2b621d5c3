"""What is taken for a summary, and what the model is asked."""

import pytest

from unipi.compaction.summary import UnusableSummaryError, instruction, is_summary, summary_of
from unipi_hookspecs import AssistantMessage, Text, ToolCall

GOOD = "## Goal\n- Make the tests pass, and change no public name: `parse` stays as it is in a.py, b.py.\n"


def answer(text, *calls, **changes):
    return AssistantMessage((Text(text), *calls), **changes)


def test_a_summary_is_taken_as_it_was_written() -> None:
    assert summary_of(answer(f"\n{GOOD}\n")) == GOOD.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "## Goal\n\n## Done\n- \n\n## Next steps\n1. \n",
        "## Goal\nNone.\n## Done\n(none)\n## Decisions\n- None\n",
        "```markdown\n## Goal\n```",
        "I cannot do that.",
    ],
    ids=["empty", "space", "headings", "none", "fence", "refusal"],
)
def test_headings_and_nothing_else_are_no_summary(text) -> None:
    assert not is_summary(text)
    with pytest.raises(UnusableSummaryError, match="headings and nothing else"):
        summary_of(answer(text))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(GOOD, stop_reason="length"), "cut at the output limit"),
        (answer("Let me look.", ToolCall("a", "read", {}), stop_reason="toolUse"), "called a tool"),
        (answer(GOOD, stop_reason="error", error_message="boom"), "boom"),
    ],
)
def test_an_answer_that_is_no_whole_summary_says_why(given, why) -> None:
    with pytest.raises(UnusableSummaryError, match=why):
        summary_of(given)


def test_a_summary_with_a_needless_call_behind_it_is_one() -> None:
    call = ToolCall("a", "read", {})
    assert summary_of(answer(GOOD, call, stop_reason="toolUse")) == GOOD.strip()


def test_the_request_names_what_is_carried_over_what_stays_and_what_the_user_wants() -> None:
    text = instruction("S1", "keep the table", from_here="Now fix")
    assert "earlier summary" in text
    assert "'Now fix'" in text
    assert text.endswith("keep the table")
    assert "earlier summary" not in instruction(None, None)


def test_equal_requests_are_equal_texts() -> None:
    assert instruction("a", "b") == instruction("a", "b")
