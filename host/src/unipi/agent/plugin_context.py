"""The context that a plugin's hooks, tools and commands get: one a plugin and session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.hooks import current_hook
from unipi.prefix.ledger import Reason
from unipi_hookspecs import (
    CustomMessage,
    PluginError,
    PrefixError,
    StaleContextError,
    Text,
    UserMessage,
)

from .logs import LazyLogger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from unipi_hookspecs import (
        JSON,
        UI,
        Bounded,
        CacheState,
        ContextUsage,
        Deliver,
        Logger,
        Model,
        ProcessResult,
        Purpose,
        SessionView,
        SideSession,
        ThinkingLevel,
        Tool,
        UserContent,
    )

    from .agent import Agent


class PluginContext:
    """Implements `unipi_hookspecs.Context`; stale once its session has ended."""

    def __init__(self, agent: Agent, plugin: str, settings: Mapping[str, JSON]) -> None:
        self._agent: Agent | None = agent
        self._ended_by = ""
        self._tell: Callable[[str], None] | None = None
        self._plugin = plugin
        self._settings = settings
        self._log = LazyLogger(plugin)

    def end(self, event: str, tell: Callable[[str], None]) -> None:
        """Make every later use raise `StaleContextError`; `event` is what ended the session.

        `tell` hears of the first such use: it may be made where nobody would see the exception.
        """
        self._agent = None
        self._ended_by = event
        self._tell = tell

    @property
    def _live(self) -> Agent:
        if self._agent is None:
            text = (
                f"plugin {self._plugin!r} used a context whose session has ended "
                f"({self._ended_by}); take the context from the hook that is running"
            )
            tell, self._tell = self._tell, None
            if tell is not None:
                tell(text)
            raise StaleContextError(text)
        return self._agent

    @property
    def plugin(self) -> str:
        return self._plugin

    @property
    def settings(self) -> Mapping[str, JSON]:
        return self._settings

    @property
    def log(self) -> Logger:
        return self._log

    @property
    def cwd(self) -> Path:
        return self._live.session.cwd

    @property
    def ui(self) -> UI:
        return self._live.ui

    @property
    def session(self) -> SessionView:
        return self._live.session

    @property
    def model(self) -> Model | None:
        return self._live.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._live.thinking

    @property
    def cancelled(self) -> bool:
        return self._live.cancelled

    @property
    def idle(self) -> bool:
        return not self._live.running

    def cache_state(self) -> CacheState:
        return self._live.cache_state()

    def context_usage(self) -> ContextUsage:
        return self._live.compactor.usage()

    async def append_message(
        self,
        custom_type: str,
        content: str | Sequence[UserContent],
        *,
        display: bool = True,
        details: JSON = None,
        supersedes: bool = False,
        deliver: Deliver = "steer",
        trigger_turn: bool = False,
    ) -> bool:
        agent = self._live
        if _is_blank(content):
            raise PluginError(f"append_message({custom_type!r}): an empty message says nothing")
        message = CustomMessage(custom_type, content, display, details, agent.now())
        return await agent.tail.add(message, supersedes, deliver, trigger_turn)

    async def append_entry(self, custom_type: str, data: JSON = None) -> str:
        return self._live.session.append_custom(custom_type, data).id

    async def send_user_message(
        self, content: str | Sequence[UserContent], *, deliver: Deliver = "follow_up"
    ) -> None:
        agent = self._live
        if _is_blank(content):
            raise PluginError("send_user_message: an empty message says nothing")
        message = UserMessage(content, agent.now())
        await agent.user_message(message, deliver, source="plugin")

    def bound_output(self, raw: str | bytes, *, label: str = "output") -> Bounded:
        return self._live.bound_output(raw, label=label)

    def request_boundary(self, cause: str, detail: str = "") -> None:
        self._live.lineage.want_boundary(Reason(cause, self._plugin, detail=detail))

    async def compact(self, instructions: str = "") -> str:
        agent = self._live
        if agent.running:
            agent.compactor.ask(instructions)
            return "the context is compacted before the next request"
        return await agent.compact(instructions)

    def exclude_custom_type(self, custom_type: str) -> None:
        lineage = self._live.lineage
        if custom_type in lineage.excluded:
            return
        if lineage.was_sent(custom_type):
            raise PrefixError(
                f"messages of type {custom_type!r} were already sent in this epoch; "
                "exclude a type before its first message"
            )
        lineage.excluded.add(custom_type)

    def register_tools(self, tools: Sequence[Tool]) -> None:
        self._live.toolbox.offer(self._plugin, tools, where=current_hook() or "")

    def disable_tool(self, name: str, reason: str) -> None:
        self._live.toolbox.disable(name, self._plugin, reason)

    def enable_tool(self, name: str) -> None:
        self._live.toolbox.enable(name, self._plugin)

    async def run_process(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> ProcessResult:
        from unipi.tools.process import run_process

        where = self._live.session.cwd if cwd is None else cwd
        return await run_process(argv, cwd=where, timeout=timeout, env=env, stdin=stdin)

    def open_side_session(
        self,
        purpose: Purpose = "helper",
        *,
        system: str | None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        thinking: ThinkingLevel | None = None,
        inherit: bool = False,
        max_turns: int | None = None,
        resume: Path | None = None,
    ) -> AbstractAsyncContextManager[SideSession]:
        from .side_session import Wish, open_side_session

        names = None if tools is None else tuple(tools)
        wish = Wish(purpose, system, names, model, thinking, inherit, max_turns, resume)
        return open_side_session(self._live, self._plugin, wish)

    def start_task(self, run: Callable[[], Awaitable[None]], *, name: str = "") -> None:
        self._live.contexts.start_task(self._plugin, run, name)


def _is_blank(content: str | Sequence[UserContent]) -> bool:
    """Whether no provider would take it; a turn that it starts would have nothing to answer."""
    if isinstance(content, str):
        return not content.strip()
    return all(isinstance(part, Text) and not part.text.strip() for part in content)
