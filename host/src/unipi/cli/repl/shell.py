"""Lines in, work done: the shell hands each line to the agent, a command, or a queue."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import anyio
from attrs import evolve, frozen

from unipi.agent import AgentError, Notice, RunFailedError, open_agent
from unipi.cli._session import remarks
from unipi.cli._summary import Summary
from unipi.providers import SecretError
from unipi.session import SessionError, SessionWriteError
from unipi_hookspecs import UserMessage

from .commands import COMMANDS, OF_AGENT, arguments, described
from .complete import choices
from .status import count_earlier, last_boundary, status_line
from .transcript import Transcript
from .ui import AskingUI
from .unused import is_unused, remove_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

    from unipi.agent import Agent, AgentOptions, Host
    from unipi.session import Session
    from unipi_hookspecs import Deliver, Model, ThinkingLevel

    from .console import Choice, Console, Line

FAILURES = (AgentError, RunFailedError, SecretError, SessionError, SessionWriteError)

_COMMAND = re.compile(r"/([A-Za-z][\w:.-]*)(?:\s+(.*))?", re.DOTALL)

_STOPPED = "stopped; say how to go on"


@frozen
class Start:
    """A session to work in, with whom, and what stands on the input line at first."""

    session: Session
    model: Model
    thinking: ThinkingLevel
    prefill: str = ""


class Shell:
    """Works in one session after the other, until the user leaves; a `Driver` of its console.

    `following` is the session that a command wants next.
    """

    def __init__(self, host: Host, options: AgentOptions, console: Console) -> None:
        self.host = host
        self.console = console
        self.transcript = Transcript(console)
        self.summary = Summary(self.transcript)
        self.following: Start | None = None
        self.leaving = False
        self._options = options
        self._agent: Agent | None = None
        self._boundary = ""
        self._scope: anyio.CancelScope | None = None
        self._stopped = False

    @property
    def agent(self) -> Agent:
        """Whoever works now. A command always finds one."""
        assert self._agent is not None, "a session is open while lines are taken"
        return self._agent

    # What the console asks.

    @property
    def busy(self) -> bool:
        return self._scope is not None or (self._agent is not None and self._agent.running)

    def status(self) -> str:
        if self._agent is None:
            return "opening a session"
        if self.summary.boundaries:
            self._boundary = last_boundary(self.summary, self._agent.session)
        return status_line(self._agent, self.summary, self._boundary, busy=self.busy)

    def interrupt(self) -> bool:
        if self._agent is not None and self._agent.running:
            self._agent.abort()
        elif self._scope is not None:
            self._scope.cancel()
        else:
            return False
        self._stopped = self._scope is not None
        if not self._stopped:  # a run that a plugin has woken
            self.console.write(_STOPPED)
        return True

    def choices(self, before: str) -> Sequence[Choice]:
        if self._agent is None:
            return []
        return choices(before, self.host.cwd, partial(described, self), arguments(self))

    # The work.

    async def work(self, start: Start) -> None:
        """Sessions one after the other. Raises what an agent cannot be opened or closed with."""
        following: Start | None = start
        while following is not None:
            following = await self._in_session(following)
            self._options = evolve(self._options, fresh_head=False)

    async def _in_session(self, start: Start) -> Start | None:
        session, console = start.session, self.console
        self.following, self.leaving = None, False
        self.summary = Summary(self.transcript)
        count_earlier(self.summary, session)
        self._boundary = last_boundary(self.summary, session)
        options = evolve(self._options, thinking=start.thinking)
        ui = AskingUI(console, self._heard)
        try:
            async with open_agent(
                self.host, session, start.model, options, observer=self._heard, ui=ui
            ) as agent:
                self._agent = agent
                self._greet(session)
                console.prefill(start.prefill)
                await self._serve(agent)
                unused = is_unused(session)
        finally:
            self._agent = None
        if unused:
            remove_file(session)
        return self.following

    def _heard(self, event: object) -> None:
        self.summary(event)

    def _greet(self, session: Session) -> None:
        for remark in remarks(session):
            self.console.write(remark, "warning")
        said = len(session.messages())
        parts = [f"session {session.id}", *([repr(session.name)] if session.name else [])]
        parts += ["in memory"] if session.path is None else []
        parts += [f"{said} messages"] if said else ["/help says what there is"]
        self.console.write(", ".join(parts))

    async def _serve(self, agent: Agent) -> None:
        async with anyio.create_task_group() as tasks:
            while self.following is None and not self.leaving:
                line = await self.console.line()
                if line is None:
                    break
                await self._take(line, tasks)
            self.interrupt()
        await agent.settled()

    async def _take(self, line: Line, tasks: TaskGroup) -> None:
        text = line.text.strip()
        named = _COMMAND.fullmatch(text)
        name, rest = (named[1], (named[2] or "").strip()) if named else ("", "")
        if not text:
            return
        if name and name not in described(self):
            self.console.write(
                f"there is no command /{name}; /help lists those that are", "warning"
            )
            return
        own = COMMANDS.get(name)
        if self.busy and (name in OF_AGENT or (own is not None and not own.any_time)):
            self.console.write(f"/{name} has to wait: a turn runs; Ctrl-C stops it", "warning")
        elif own is not None:
            beside = anyio.CancelScope() if own.any_time else None
            await self._finish(partial(own.run, self, rest), keep=self._scope or beside)
        elif self.busy and name in self.agent.commands:
            tasks.start_soon(partial(self._finish, partial(self._prompt, text), keep=self._scope))
        elif self.busy:
            await self._queue(text, after=line.after)
        else:
            await self._begin(text, tasks)

    async def _begin(self, text: str, tasks: TaskGroup) -> None:
        """Start a turn: in the background where lines can come meanwhile, else to its end."""
        if self.console.live:
            self._scope = anyio.CancelScope()
            tasks.start_soon(self._finish, partial(self._prompt, text))
            return
        await self._finish(partial(self._prompt, text))
        await self.agent.settled()
        self.console.write(self.status())

    async def _prompt(self, text: str) -> str | None:
        return await self.agent.prompt(text, source="interactive")

    async def _queue(self, text: str, *, after: bool) -> None:
        message = UserMessage(text, self.agent.now())
        deliver: Deliver = "follow_up" if after else "steer"
        await self.agent.user_message(message, deliver, source="interactive")
        self.console.refresh()

    async def _finish(
        self,
        work: Callable[[], Awaitable[str | None]],
        *,
        keep: anyio.CancelScope | None = None,
    ) -> None:
        """Do one thing, say what came of it, and how it failed.

        `keep` is the scope of a turn that goes on beside it, and that Ctrl-C still means.
        """
        scope = anyio.CancelScope() if keep is not None or self._scope is None else self._scope
        if keep is None:
            self._scope = scope
        try:
            with scope:
                reply = await work()
                if reply:
                    self.transcript.reply(reply)
        except FAILURES as error:
            self._heard(Notice("error", str(error)))
        finally:
            if keep is None:
                self._scope = None
            self.console.end_stream()
            if self._stopped and not self.busy:
                self._stopped = False
                self.console.write(_STOPPED)
            self.console.refresh()
