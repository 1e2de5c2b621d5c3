"""The status line: how full the context is, what the cache gave, and what last ended an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent import records
from unipi_hookspecs import AssistantMessage

if TYPE_CHECKING:
    from unipi.agent import Agent
    from unipi.cli._summary import Summary
    from unipi.session import Session


def count_earlier(summary: Summary, session: Session) -> None:
    """Add what earlier processes paid in this session, so that the cache share is the session's."""
    for entry in session.entries():
        message = entry.message
        if not isinstance(message, AssistantMessage) or message.usage is None:
            continue
        summary.prompt_tokens += message.usage.prompt
        if message.usage.cache_read is not None:
            summary.reported_tokens += message.usage.prompt
            summary.read_tokens += message.usage.cache_read


def last_boundary(summary: Summary, session: Session) -> str:
    """The boundary that began the running epoch: its number, cause and owner."""
    if summary.boundaries:
        last = summary.boundaries[-1]
        return f"epoch {last.number}: {last.cause}, by {last.owner}"
    data = records.latest(session.branch(), records.EPOCH)
    if data is None:
        return "no epoch yet"
    return f"epoch {data.get('number')}: {data.get('cause')}, by {data.get('owner')}"


def status_line(agent: Agent, summary: Summary, boundary: str, *, busy: bool) -> str:
    """All of it in one line: whether it works, model, thinking, context, cache share, last boundary.

    Context is an estimate in tokens, calibrated by what the provider last reported; the share is
    tokens read from cache over prompt tokens, of the answers that report it.
    """
    model = agent.model
    used, window = agent.compactor.tokens, model.context_window
    share = "not reported" if summary.share is None else f"{summary.share:.1%}"
    parts = [
        *(["working"] if busy else []),
        model.name if agent.thinking == "off" else f"{model.name} ({agent.thinking})",
        f"context {used:,} of {window:,} ({used / window:.0%})",
        f"cache {share}",
        boundary,
    ]
    waiting = len(agent.queues.steer) + len(agent.queues.follow_up)
    if waiting:
        parts.append(f"{waiting} queued")
    return " · ".join(parts)
