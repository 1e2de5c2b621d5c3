"""Compacts a session without a model, and finds again what was cut off.

The summary is made from the stored entries alone: the same entries give the same bytes on every
machine. What it leaves out stays in the session, where the tool `session_recall` searches it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from unipi_hookspecs import (
    BranchSummary,
    Command,
    Compaction,
    Manifest,
    Setting,
    StartWith,
    Tool,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import (
        BeforeAgentStartEvent,
        Call,
        Context,
        SessionBeforeCompactEvent,
        SessionBeforeTreeEvent,
        SessionCompactEvent,
        SessionShutdownEvent,
        SessionStartEvent,
        SessionTreeEvent,
        TurnEndEvent,
    )

__version__ = "0.1.0"

manifest = Manifest(
    name="compactor",
    api=1,
    host=">=0.1,<0.2",
    description="Compacts without a model (/unipi:compact) and recalls what was cut off.",
)


async def _recall(call: Call, ctx: Context) -> str:
    from .recall_tool import run

    return await run(call, ctx)


@hookimpl
def register_tools() -> Sequence[Tool]:
    from .schema import DESCRIPTION, PARAMETERS

    return [Tool("session_recall", DESCRIPTION, parameters=PARAMETERS, run=_recall)]


async def _compact(rest: str, ctx: Context) -> str:
    from .commands import compact

    return await compact(rest, ctx)


async def _stats(_: str, ctx: Context) -> str:
    from .commands import stats

    return stats(ctx)


async def _preset(rest: str, ctx: Context) -> str:
    from .commands import preset

    return await preset(rest, ctx)


@hookimpl
def register_commands() -> Sequence[Command]:
    return [
        Command(
            "unipi:compact",
            "Compact now without a model; --dry-run shows what would be kept and what it costs.",
            _compact,
        ),
        Command("unipi:compact-stats", "The compactions of this session, in numbers.", _stats),
        Command(
            "unipi:compact-preset",
            "How much a summary holds in this session: lean, balanced, precise or thorough.",
            _preset,
        ),
    ]


@hookimpl
def register_settings() -> Sequence[Setting]:
    from .schema import SETTINGS

    return SETTINGS


_looked: set[str] = set()
"""Sessions in which nobody needs to look again whether a resume context is missing."""


@hookimpl
def session_start(event: SessionStartEvent, ctx: Context) -> None:
    _forget(ctx)


@hookimpl
def session_shutdown(event: SessionShutdownEvent, ctx: Context) -> None:
    _forget(ctx)


def _forget(ctx: Context) -> None:
    _looked.discard(ctx.session.id)
    state = sys.modules.get(f"{__name__}.state")
    if state is not None:  # most sessions never need it, and do not pay for it
        state.end(ctx)


@hookimpl
def session_tree(event: SessionTreeEvent, ctx: Context) -> None:
    _looked.discard(ctx.session.id)


@hookimpl
def session_before_compact(event: SessionBeforeCompactEvent, ctx: Context) -> Compaction | None:
    from . import state
    from .summary import summarise

    options = state.options_of(ctx, event.branch_entries)
    if options.mode == "model":
        return None
    made = summarise(
        event.branch_entries,
        event.first_kept_entry_id,
        options,
        instructions=event.custom_instructions or "",
        window=ctx.model.context_window if ctx.model else 0,
    )
    if not made.facts.messages:
        return None
    return Compaction(made.text, event.first_kept_entry_id, made.details(options))


@hookimpl
def session_before_tree(event: SessionBeforeTreeEvent, ctx: Context) -> BranchSummary | None:
    if not event.user_wants_summary:
        return None
    from . import state
    from .summary import summarise

    options = state.options_of(ctx)
    if options.mode == "model":
        return None
    window = ctx.model.context_window if ctx.model else 0
    made = summarise(event.entries_to_summarize, "", options, window=window)
    if not made.facts.messages:
        return None
    return BranchSummary(made.text, made.details(options))


@hookimpl
async def session_compact(event: SessionCompactEvent, ctx: Context) -> None:
    from . import resume, state

    _looked.add(ctx.session.id)
    state.of(ctx).trigger.compacted(_now(ctx))
    branch = ctx.session.branch()
    text = resume.render(branch, state.options_of(ctx, branch).resume_bytes)
    await ctx.append_message(resume.TYPE, text, display=False)


@hookimpl
def before_agent_start(event: BeforeAgentStartEvent, ctx: Context) -> StartWith | None:
    if ctx.session.id in _looked:
        return None
    _looked.add(ctx.session.id)
    branch = ctx.session.branch()
    if not any(entry.type == "compaction" for entry in branch):
        return None
    from . import resume, state

    if not resume.is_due(branch):
        return None
    from unipi_hookspecs import CustomMessage

    text = resume.render(branch, state.options_of(ctx, branch).resume_bytes)
    return StartWith([CustomMessage(resume.TYPE, text, display=False, timestamp=_now(ctx))])


@hookimpl
async def turn_end(event: TurnEndEvent, ctx: Context) -> None:
    if not ctx.settings.get("trigger"):
        return
    from .commands import on_turn_end

    await on_turn_end(event, ctx)


def _now(ctx: Context) -> int:
    """The time of the newest message, in Unix milliseconds: the only clock that a replay has too."""
    for entry in reversed(ctx.session.branch()):
        if entry.message is not None and entry.message.timestamp:
            return entry.message.timestamp
    return 0
