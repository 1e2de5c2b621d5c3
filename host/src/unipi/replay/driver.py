"""From a recorded session to a report: host, provider and walk put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent import AgentOptions, RetryPolicy, open_agent, prepare_host
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.loader import LoadOptions
from unipi.session import Session
from unipi.session.audit import audit
from unipi.sim import PROFILES
from unipi_hookspecs import AssistantMessage

from .models import PROFILE_OF, Models
from .provider import Provider
from .report import Epoch, ReplayReport, find_misses
from .walk import ReplayError, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unipi_hookspecs import Entry, Model

__all__ = ["APIS", "ReplayError", "replay"]

APIS = tuple(PROFILE_OF)


def _silent(_done: int) -> None:
    return None


async def replay(
    recording: Session,
    api: str | None = None,
    *,
    progress: Callable[[int], None] = _silent,
) -> ReplayReport:
    """Send every request of a recorded session again, through the host to the simulator.

    The host is bare: its own prompt and built-in tools, no plugin of the user's. `api` is one of
    `APIS`; None takes the recording's own where it is one of them. `progress` is told how many
    entries are done. Raises ReplayError when the simulator refuses a request.
    """
    entries = recording.entries()
    api = api or _api_of(entries)
    host = prepare_host(
        recording.cwd,
        LoadOptions(
            builtins=builtin_plugins(resources=False), essential=ESSENTIAL, entry_points=False
        ),
    )
    provider = Provider(PROFILES[PROFILE_OF[api]])
    session = Session.create(None, cwd=recording.cwd, id=recording.id)
    # The same bytes again would be refused again, and no plugin is there to break the prefix.
    options = AgentOptions(retry=RetryPolicy(attempts=1))
    async with provider.serve() as url:
        models = Models(api, url, entries)
        first = _first_model(recording, entries, models)
        async with open_agent(host, session, first, options) as agent:
            provider.watch.epoch = lambda: agent.lineage.ledger.number
            walk = Walk(agent, provider, models)
            await walk.thinking(recording.header.get("thinkingLevel"))
            for done, entry in enumerate(entries):
                await walk.take(entry)
                progress(done + 1)
    recorded = audit(entries)
    answered = [sent for sent in walk.sent if sent.answered]
    prompt = sum(sent.prompt for sent in answered)
    return ReplayReport(
        file=str(recording.path),
        api=api,
        requests=len(walk.sent),
        answered=len(answered),
        recorded_share=recorded.recorded_share,
        recorded_misses=len(recorded.rows),
        recorded_tokens=recorded.tokens_paid_again,
        attained_share=sum(sent.cached for sent in answered) / prompt if prompt else 0.0,
        violations=provider.watch.violations,
        epochs=tuple(Epoch.of(boundary) for boundary in agent.lineage.ledger.boundaries),
        misses=find_misses(walk.sent, provider.profile),
        unsent=walk.unsent,
    )


def _api_of(entries: Sequence[Entry]) -> str:
    """Anthropic's API for a recording made over it, Chat Completions for all others."""
    apis = [e.message.api for e in entries if isinstance(e.message, AssistantMessage)]
    native = apis.count("anthropic-messages")
    return APIS[0] if 2 * native >= len(apis) else APIS[1]


def _first_model(recording: Session, entries: Sequence[Entry], models: Models) -> Model:
    for entry in entries:
        if isinstance(entry.message, AssistantMessage):
            return models.find(entry.message.provider, entry.message.model)
    header = recording.header
    return models.find(str(header.get("provider", "")), str(header.get("modelId", "")))
