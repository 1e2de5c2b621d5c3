"""From the tree of entries to a branch, and from a branch to what the model sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from attrs import define, field, frozen

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    SummaryMessage,
    Text,
    ToolCall,
    ToolResultMessage,
)

from .entries import replace_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import JSON, Message


class Node(Protocol):
    """What has a place in the tree."""

    @property
    def id(self) -> str: ...
    @property
    def parent_id(self) -> str | None: ...


class Said(Node, Protocol):
    """An entry, as far as the context is made of it."""

    @property
    def type(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, JSON]: ...
    @property
    def message(self) -> Message | None: ...


NodeT = TypeVar("NodeT", bound=Node)


@frozen
class ContextItem:
    """One message of the context and the entry that it comes from.

    `synthesised` marks a result that stands in for a missing one; its `entry_id` is the entry of
    the call.
    """

    entry_id: str
    message: Message
    synthesised: bool = False


@define
class Projection:
    """What the model sees of a branch, what was left out and why, and the calls still open."""

    items: list[ContextItem] = field(factory=list)
    left_out: list[str] = field(factory=list)
    open_calls: list[ToolCall] = field(factory=list)


def path_to(nodes: Mapping[str, NodeT], leaf: str | None) -> list[NodeT]:
    """From the root to `leaf`; a missing parent, or a circle, ends the walk."""
    path: list[NodeT] = []
    seen: set[str] = set()
    while leaf is not None and leaf not in seen and (node := nodes.get(leaf)) is not None:
        seen.add(leaf)
        path.append(node)
        leaf = node.parent_id
    path.reverse()
    return path


def not_run(call: ToolCall, reason: str, timestamp: int) -> ToolResultMessage:
    """The result of a call that was never run."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(f"not run: {reason}"),),
        is_error=True,
        timestamp=timestamp,
    )


def project(branch: Sequence[Said], *, repair: bool = False) -> Projection:
    """Build the context of a branch (Pi's rule, with what an API would refuse left out).

    The last compaction's summary comes first, then the branch from the entry that it names to the
    compaction, then what follows. Failed and aborted answers are not sent again. A result stands
    behind its own call or not at all; a call that lost its result while the session went on gets
    one that says so. Calls of the last answer are left open and listed, unless `repair` asks
    for results in their place.
    """
    result = Projection()
    candidates = _after_edits(branch, _kept(branch, result), result)
    while candidates and isinstance(candidates[0].message, AssistantMessage | ToolResultMessage):
        item = candidates.pop(0)
        _leave_out(result, item.entry_id, item.message.role, "the context begins with the user")
    _pair_results(candidates, result, repair=repair)
    return result


def _leave_out(result: Projection, entry_id: str, kind: str, reason: str) -> None:
    result.left_out.append(f"{entry_id} ({kind}): {reason}")


def _kept(branch: Sequence[Said], result: Projection) -> Sequence[Said]:
    """Apply the last compaction: it moves to the front of what it kept and what follows."""
    at = next((i for i in reversed(range(len(branch))) if branch[i].type == "compaction"), None)
    if at is None:
        return branch
    compaction = branch[at]
    first = compaction.fields.get("firstKeptEntryId")
    start = next((i for i in range(at) if branch[i].id == first), at)
    if start == at and first not in (None, "", compaction.id):
        _leave_out(
            result,
            compaction.id,
            "compaction",
            f"its first kept entry {first!s:.40} is not before it: nothing from before was kept",
        )
    before = [entry for entry in branch[start:at] if entry.type != "compaction"]
    return [compaction, *before, *branch[at + 1 :]]


def _after_edits(
    branch: Sequence[Said], kept: Sequence[Said], result: Projection
) -> list[ContextItem]:
    """The messages of the kept entries, without those that never reach the model."""
    edits: dict[str, JSON] = {
        str(entry.fields.get("targetId")): entry.fields.get("replacement")
        for entry in branch
        if entry.type == "context_edit"
    }
    items: list[ContextItem] = []
    for entry in kept:
        message = entry.message
        if message is None:
            _report_unknown(entry, result)
            continue
        if isinstance(message, BashMessage) and message.exclude_from_context:
            continue
        if isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted"):
            ended = "failed" if message.stop_reason == "error" else "was aborted"
            _leave_out(result, entry.id, "assistant", f"the answer {ended}")
            continue
        if entry.id in edits and not isinstance(message, SummaryMessage):
            edit = edits[entry.id]
            if not isinstance(edit, Mapping):
                _leave_out(result, entry.id, message.role, "a context_edit leaves it out")
                continue
            message = replace_content(message, edit.get("content"))
        items.append(ContextItem(entry.id, message))
    return items


def _report_unknown(entry: Said, result: Projection) -> None:
    if entry.type != "message":
        return
    inner = entry.fields.get("message")
    role = inner.get("role") if isinstance(inner, Mapping) else None
    if role != "system":  # Pi's own prompt and tools; a head of ours takes their place
        _leave_out(result, entry.id, "message", f"unknown role {role!s:.40}")


def _pair_results(candidates: Sequence[ContextItem], result: Projection, *, repair: bool) -> None:
    caller = ContextItem("", SummaryMessage("branch", ""))
    waiting: dict[str, ToolCall] = {}

    def stand_in(reason: str) -> None:
        for call in waiting.values():
            message = not_run(call, reason, caller.message.timestamp)
            result.items.append(ContextItem(caller.entry_id, message, synthesised=True))
        waiting.clear()

    for item in candidates:
        message = item.message
        if isinstance(message, ToolResultMessage):
            if waiting.pop(message.tool_call_id, None) is None:
                _leave_out(result, item.entry_id, message.role, "its call is not just before it")
            else:
                result.items.append(item)
            continue
        for call in waiting.values():
            _leave_out(result, caller.entry_id, f"call {call.name}", "it never got its result")
        stand_in("the session went on without a result for this call")
        result.items.append(item)
        if isinstance(message, AssistantMessage):
            caller = item
            waiting = {b.id: b for b in message.content if isinstance(b, ToolCall)}
    result.open_calls.extend(waiting.values())
    if repair:
        stand_in("the session ended before this call had a result")
