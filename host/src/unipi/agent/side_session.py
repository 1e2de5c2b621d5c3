"""A session beside the main one, for a helper or a side thread: its own file, agent and epochs.

The plans of the hooks are shared, their contexts are not: what a plugin does in the side session
with the `ctx` it gets there happens there.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from unipi.providers import ProviderError
from unipi.session import Session, SessionError
from unipi_hookspecs import AssistantMessage, PluginError, Text

from .loop import RunFailedError
from .saving import AgentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from unipi_hookspecs import Model, Purpose, SessionView, ThinkingLevel

    from .agent import Agent
    from .host import Host


@frozen
class Wish:
    """What is asked for; `unipi_hookspecs.Context.open_side_session` says what each means."""

    purpose: Purpose = "helper"
    system: str | None = None
    tools: tuple[str, ...] | None = None
    model: str | None = None
    thinking: ThinkingLevel | None = None
    inherit: bool = False
    max_turns: int | None = None
    resume: Path | None = None


class AgentSideSession:
    """Implements `unipi_hookspecs.SideSession` over an agent of its own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._before = {entry.id for entry in agent.session.entries()}

    @property
    def session(self) -> SessionView:
        return self._agent.session

    @property
    def tokens(self) -> int:
        return sum(_tokens(message) for message in self._own())

    async def prompt(self, text: str) -> str:
        before = len(self._own())
        # A leading slash would be a command of the user's; what a helper is told is data.
        said = f" {text}" if text.startswith("/") else text
        try:
            reply = await self._agent.prompt(said, source="plugin")
        except (AgentError, ProviderError, RunFailedError, SessionError) as error:
            raise PluginError(str(error)) from error
        if self._agent.cancelled:
            raise PluginError("it was aborted")
        answers = self._own()[before:]
        if not answers:
            raise PluginError(reply or "it gave no answer")
        last = answers[-1]
        if last.stop_reason in ("error", "aborted"):
            raise PluginError(
                last.error_message or f"its last answer ended with {last.stop_reason}"
            )
        return "".join(part.text for part in last.content if isinstance(part, Text))

    def abort(self) -> None:
        self._agent.abort()

    def _own(self) -> list[AssistantMessage]:
        return [
            entry.message
            for entry in self._agent.session.entries()
            if entry.id not in self._before and isinstance(entry.message, AssistantMessage)
        ]


@asynccontextmanager
async def open_side_session(
    parent: Agent, plugin: str, wish: Wish
) -> AsyncIterator[AgentSideSession]:
    """Open a session beside `parent`'s, for `plugin`, until the block ends.

    Raises PluginError for a model that is not known or a session that cannot be opened.
    """
    from .opening import AgentOptions, open_agent

    host = parent.side_host
    if host is None:
        raise PluginError("this session was not opened on a host; it has no side sessions")
    model = _model(host, parent, wish)
    try:
        session = _session(parent, wish)
    except (SessionError, OSError) as error:
        raise PluginError(f"the side session cannot be opened: {error}") from error
    tools = host.tools
    if wish.tools is not None and not wish.inherit:
        tools = [owned for owned in tools if owned.tool.name in wish.tools]
    beside = evolve(host, hooks=host.hooks.another(), tools=tools, commands={})
    options = AgentOptions(
        thinking=wish.thinking or parent.thinking,
        policy=parent.policy,
        max_turns=wish.max_turns or parent.max_turns,
        cache_ttl=parent.cache_ttl,
        compaction=parent.compactor.options,
    )
    async with open_agent(beside, session, model, options) as agent:
        agent.purpose = wish.purpose
        if not wish.inherit:
            agent.prompt_text.instead = wish.system
        elif wish.tools is not None:
            for owned in host.tools:
                if owned.tool.name not in wish.tools:
                    agent.toolbox.disable(owned.tool.name, plugin, "this helper may not use it")
        yield AgentSideSession(agent)


def _model(host: Host, parent: Agent, wish: Wish) -> Model:
    if wish.model is None or wish.inherit:
        return parent.model
    if wish.model == parent.model.name:
        return parent.model
    found = host.models.get(wish.model)
    if found is None:
        known = ", ".join(sorted({parent.model.name, *host.models}))
        raise PluginError(f"there is no model {wish.model!r}; models: {known}")
    return found


def _session(parent: Agent, wish: Wish) -> Session:
    if wish.resume is not None:
        return Session.open(wish.resume)
    origin = parent.session
    path = None
    if origin.path is not None:
        name = f"{origin.path.stem}-{wish.purpose}-{uuid.uuid4().hex[:12]}.jsonl"
        path = origin.path.with_name(name)
    if wish.inherit:
        return origin.fork(path, _last_sent(parent))
    return Session.create(path, cwd=origin.cwd, parent=origin.path)


def _last_sent(parent: Agent) -> str | None:
    """The entry before an answer whose tool calls are still running, else the leaf."""
    items = parent.lineage.items
    if parent.running:
        for item in reversed(items):
            if isinstance(item.message, AssistantMessage):
                for entry in parent.session.branch():
                    if entry.id == item.entry_id:
                        return entry.parent_id
    return parent.session.leaf_id


def _tokens(message: AssistantMessage) -> int:
    usage = message.usage
    if usage is None:
        return 0
    return usage.input + usage.output + (usage.cache_read or 0) + (usage.cache_write or 0)
