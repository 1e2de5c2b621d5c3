"""What the model is asked for a summary, and whether what it answers is one."""

from __future__ import annotations

import re
from typing import Final

from unipi_hookspecs import AssistantMessage, Text, ToolCall

LEAST: Final = 40
"""Characters, headings and list marks aside, under which a text sums up nothing."""

_HEADINGS: Final = (
    "Goal",
    "Constraints and preferences",
    "Done",
    "In progress",
    "Decisions",
    "Next steps",
    "To remember",
)
_MARKS = re.compile(r"^\s*(#+.*|[-*+]\s*|\d+[.)]\s*|```\w*|\(?none\.?\)?)\s*$", re.I | re.M)
_LINE_START = re.compile(r"^\s*([-*+]|\d+[.)])\s+", re.M)


class UnusableSummaryError(Exception):
    """What came back cannot stand for a history; the text says why."""


def instruction(
    previous: str | None, custom: str | None, *, branch: bool = False, from_here: str | None = None
) -> str:
    """The last user message of a request for a summary.

    The request is the conversation itself with this message behind it, so that everything before
    is read from the cache. `previous` says whether a summary stands at its beginning; `from_here`
    quotes the start of the part that will be kept and need not be summed up.
    """
    what = "the branch of work that is being left" if branch else "the conversation so far"
    parts = [
        f"Stop working and write a summary of {what}. It will take the place of what it sums up, "
        "for a reader who has nothing else, so whatever is needed to go on must be in it: exact "
        "paths, names, commands, error texts and numbers. Call no tool. Answer with the summary "
        "alone, under these headings, each on a line of its own:",
        "\n".join(f"## {heading}" for heading in _HEADINGS),
        "Quote what the user asked for and forbade in the user's own words. Under 'In progress' "
        "say what was being done at the very end; under 'Next steps' give the order.",
    ]
    if previous:
        parts.append(
            "The conversation begins with an earlier summary. Carry over everything in it that "
            "still holds; drop only what was overtaken."
        )
    if from_here:
        parts.append(
            f"Everything from the message that begins with {from_here!r} on will stay as it is: "
            "mention of it only what explains where the work stands."
        )
    if custom:
        parts.append(f"The user asks in addition: {custom}")
    return "\n\n".join(parts)


def summary_of(answer: AssistantMessage) -> str:
    """The summary in an answer.

    Raises `UnusableSummaryError` for an answer that was cut, that calls a tool instead, or that
    says nothing beyond headings.
    """
    text = "\n".join(b.text for b in answer.content if isinstance(b, Text)).strip()
    if answer.stop_reason == "length":
        raise UnusableSummaryError("the summary was cut at the output limit")
    if any(isinstance(block, ToolCall) for block in answer.content) and not is_summary(text):
        raise UnusableSummaryError("the model called a tool instead of summing up")
    if answer.stop_reason in ("error", "aborted"):
        raise UnusableSummaryError(answer.error_message or "the answer failed")
    if not is_summary(text):
        raise UnusableSummaryError("the summary is empty, or headings and nothing else")
    return text


def is_summary(text: str) -> bool:
    """Whether a text says something beyond headings and empty lists."""
    said = _LINE_START.sub("", _MARKS.sub("", text))
    return len("".join(said.split())) >= LEAST
