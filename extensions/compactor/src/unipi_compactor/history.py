"""A branch as the model was shown it: what was taken out of its sight stays out of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import evolve

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    SummaryMessage,
    Text,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unipi_hookspecs import JSON, Entry, Message

NAME: Final = "unipi-compactor"
RECALL: Final = "session_recall"
_FAILED: Final = ("error", "aborted")


def before_cut(branch: Sequence[Entry], first_kept: str) -> Sequence[Entry]:
    """The entries before the one that stays first; all of them when there is none of that id."""
    if not first_kept:
        return branch
    end = next((i for i in range(len(branch) - 1, -1, -1) if branch[i].id == first_kept), None)
    return branch if end is None else branch[:end]


def last_cut(entries: Sequence[Entry]) -> tuple[int, int]:
    """Where the live part of a history begins, and how long the summary before it is, in characters."""
    at = next((i for i in reversed(range(len(entries))) if entries[i].type == "compaction"), None)
    if at is None:
        return 0, 0
    summary, first = entries[at].fields.get("summary"), entries[at].fields.get("firstKeptEntryId")
    start = next((i for i in range(at) if entries[i].id == first), at)
    return start, len(summary) if isinstance(summary, str) else 0


def seen(entries: Iterable[Entry], edits: Mapping[str, JSON]) -> list[tuple[Entry, Message]]:
    """The messages that the model saw, with their entries, oldest first.

    Left out are plugins' own messages (states, reminders and notes: the host says what is live of
    them once more), commands that the user kept to himself, answers that failed, what an edit or a
    plugin took out of the context, and our own recalls, which would find themselves.
    """
    kept: list[tuple[Entry, Message]] = []
    for entry in entries:
        message = entry.message
        if message is None or isinstance(message, CustomMessage):
            continue
        if entry.id in edits:
            changed = _edited(message, edits[entry.id])
            if changed is None:
                continue
            message = changed
        if isinstance(message, BashMessage):
            if message.exclude_from_context:
                continue
        elif isinstance(message, AssistantMessage):
            if message.stop_reason in _FAILED:
                continue
        elif isinstance(message, ToolResultMessage) and message.tool_name == RECALL:
            continue
        kept.append((entry, message))
    return kept


def edits_of(entries: Iterable[Entry]) -> dict[str, JSON]:
    """What was changed in the context, by entry: new content, or None for what was taken out.

    Two kinds say so: Pi's `context_edit`, and `unipi.projection` where a plugin dropped a message.
    """
    edits: dict[str, JSON] = {}
    for entry in entries:
        if entry.message is None:
            edit = edit_in(entry.type, entry.fields)
            if edit is not None:
                edits[edit[0]] = edit[1]
    return edits


def edit_in(kind: str, fields: Mapping[str, JSON]) -> tuple[str, JSON] | None:
    """The edit that one line of a session makes: the entry it is about, and its new content."""
    if kind == "context_edit":
        replacement = fields.get("replacement")
        content = replacement.get("content") if isinstance(replacement, Mapping) else None
        return str(fields.get("targetId")), content
    if kind == "custom" and fields.get("customType") == "unipi.projection":
        data = fields.get("data")
        if isinstance(data, Mapping) and data.get("dropped") is True:
            return str(data.get("entryId")), None
    return None


def _edited(message: Message, content: JSON) -> Message | None:
    if isinstance(message, SummaryMessage | BashMessage | CustomMessage):
        return message
    text = text_of_json(content)
    if not text:
        return None
    if isinstance(message, UserMessage):
        return evolve(message, content=text)
    if isinstance(message, AssistantMessage):
        return evolve(message, content=(Text(text),))
    return evolve(message, content=(Text(text),))


def text_of_json(content: JSON) -> str:
    """The text in a session file's `content`: a string, or the texts of its blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    texts = (b.get("text") for b in content if isinstance(b, Mapping) and b.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def is_ours(entry: Entry) -> bool:
    """Whether a compaction entry is one that this plugin made."""
    details = entry.fields.get("details")
    return isinstance(details, Mapping) and details.get("compactor") == NAME
