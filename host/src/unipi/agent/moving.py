"""To another place in the tree of a session, or to another session, if no plugin has a word against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from unipi.compaction.summary import UnusableSummaryError, instruction, is_summary, summary_of
from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Item
from unipi.providers import ProviderError
from unipi.session import SessionError
from unipi.session.tree import path_to
from unipi_hookspecs import (
    BranchSummary,
    Cancel,
    CustomMessage,
    SessionBeforeForkEvent,
    SessionBeforeSwitchEvent,
    SessionBeforeTreeEvent,
    SessionTreeEvent,
    UserMessage,
)

from .side import ask_beside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unipi_hookspecs import JSON, Entry

    from .agent import Agent

_LEFT_OPEN = "the user went on from here before this call had a result"


@frozen
class Moved:
    """What came of a move: words for the user, and what stands ready to be said again.

    `moved` is False where everything stayed as it was.
    """

    told: str
    moved: bool = False
    prefill: str = ""


async def may_switch(
    agent: Agent, reason: Literal["new", "resume"], target: Path | None
) -> str | None:
    """Ask plugins before another session is opened; returns who is against it and why, or None."""
    event = SessionBeforeSwitchEvent(reason, None if target is None else str(target))
    return _refusal(await agent.hooks.session_before_switch(event))


async def may_fork(agent: Agent, entry_id: str, position: Literal["before", "at"]) -> str | None:
    """Ask plugins before a branch is copied; returns who is against it and why, or None."""
    event = SessionBeforeForkEvent(entry_id, position)
    return _refusal(await agent.hooks.session_before_fork(event))


async def move_to(agent: Agent, entry_id: str, *, summarize: bool = False) -> Moved:
    """Go on from another entry of this session, once no run is active; nothing is lost.

    Behind a user's or a plugin's message the work would go on with it unanswered, so the place is
    the one before it, and its text stands ready (Pi's rule). With `summarize` a summary of what is
    left is taken along: a plugin's, else the model's, asked on the prefix that it has read.
    """
    async with agent.alone():
        moved = await _move(agent, entry_id, summarize)
        await agent.save()
    return moved


async def _move(agent: Agent, entry_id: str, summarize: bool) -> Moved:
    session = agent.session
    entries = {entry.id: entry for entry in session.entries()}
    target = entries.get(entry_id)
    if target is None:
        return Moved(f"there is no entry {entry_id} in this session")
    old = session.leaf_id
    leaf, prefill = target.id, ""
    if isinstance(target.message, UserMessage | CustomMessage):
        leaf, prefill = target.parent_id or "", _words(target.message)
    if (leaf or None) == old:
        return Moved("that is where the work stands", prefill=prefill)
    left = _left(path_to(entries, old), path_to(entries, leaf))
    event = SessionBeforeTreeEvent(entry_id, old, left, summarize)
    answer = await agent.hooks.session_before_tree(event)
    refused = _refusal(answer)
    if refused is not None:
        return Moved(refused)
    made: BranchSummary | None = None
    plugin: str | None = None
    if summarize and any(entry.message is not None for entry in left):
        try:
            if answer is not None and isinstance(answer[0], BranchSummary):
                made, plugin = _usable(answer[0], answer[1]), answer[1]
            else:
                made = await _asked(agent)
        except (UnusableSummaryError, ProviderError) as error:
            return Moved(f"nothing was moved: there is no summary: {error}")
    try:
        session.move_leaf(leaf or None)
    except SessionError as error:
        return Moved(str(error))
    session.close_open_calls(_LEFT_OPEN)
    summary = _keep(agent, made, plugin, old)
    _rebuild(agent, "branch_summary" if summary is not None else "tree", plugin)
    await agent.hooks.session_tree(SessionTreeEvent(leaf, old, summary))
    behind = f"behind {leaf}" if leaf else "at the beginning"
    told = f"the work goes on {behind}; {len(left):,} entries are left"
    return Moved(told, moved=True, prefill=prefill)


def _left(old: Sequence[Entry], new: Sequence[Entry]) -> Sequence[Entry]:
    """What of the old branch is no part of the new one, oldest first."""
    there = {entry.id for entry in new}
    return [entry for entry in old if entry.id not in there]


def _usable(made: BranchSummary, plugin: str | None) -> BranchSummary:
    if not is_summary(made.summary):
        raise UnusableSummaryError(f"that of plugin {plugin!r} says nothing")
    return made


async def _asked(agent: Agent) -> BranchSummary:
    request = UserMessage(instruction(None, None, branch=True), agent.now())
    return BranchSummary(summary_of(await ask_beside(agent, "branch_summary", [request])))


def _keep(
    agent: Agent, made: BranchSummary | None, plugin: str | None, old: str | None
) -> Entry | None:
    if made is None:
        return None
    fields: dict[str, JSON] = {"fromId": old or "root", "summary": made.summary}
    if made.details is not None:
        fields["details"] = made.details
    if plugin is not None:
        fields["fromHook"] = True
    return agent.session.append("branch_summary", fields)


def _rebuild(agent: Agent, cause: str, plugin: str | None) -> None:
    items = [Item(item.entry_id, item.message) for item in agent.session.context()]
    detail = f"summed up by plugin {plugin!r}" if plugin else ""
    agent.lineage.replace(items, Reason(cause, "user", detail=detail))
    agent.verbs.rebuilt()
    agent.tail.remember([item.message for item in items])
    agent.compactor.rebuilt()


def _words(message: UserMessage | CustomMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content if part.type == "text")


def _refusal(answer: tuple[object, str] | None) -> str | None:
    if answer is None or not isinstance(answer[0], Cancel):
        return None
    return f"plugin {answer[1]!r} is against it: {answer[0].reason or 'it gives no reason'}"
