"""One session being worked on: its branch, its plugins, its tools, and the loop that runs turns."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from attrs import evolve

from unipi.hooks import acting_as
from unipi.prefix.canonical import repair
from unipi.prefix.ledger import Ledger, Reason
from unipi.prefix.lineage import Item, Lineage
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    EpochBoundaryEvent,
    Image,
    InputEvent,
    MessageEndEvent,
    MessageStartEvent,
    ModelSelectEvent,
    Text,
    Thinking,
    ThinkingLevelSelectEvent,
    ToolResultMessage,
    UserMessage,
)

from . import records
from .cache_state import cache_state
from .compacting import CompactionOptions, Compactor
from .contexts import Contexts
from .keep_warm import KeepWarm, Warmer
from .keys import Keys
from .loop import run_loop
from .notices import Notice, nobody
from .output import fitted
from .pictures import fit_picture
from .prompts import SystemPrompt
from .queues import Queues
from .requests import Requester, RetryPolicy
from .saving import AgentError, Saver
from .tail import Tail, repaired
from .validation import Validators
from .verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from anyio.abc import TaskGroup

    from unipi.hooks import Hooks
    from unipi.loader import MissingRequired
    from unipi.prefix.guard import PrefixPolicy, Rewrite
    from unipi.prefix.wire import Head, HeadSpec, WireApi
    from unipi.providers import Secret, Transport
    from unipi.session import Session
    from unipi.tools.bound import Artifacts
    from unipi_hookspecs import (
        JSON,
        UI,
        Boundary,
        Bounded,
        CacheState,
        Command,
        Deliver,
        Message,
        Model,
        Purpose,
        ThinkingLevel,
        UserContent,
    )

    from .cache_ttl import CacheTtl
    from .host import Host
    from .notices import Observer
    from .toolbox import Toolbox


class Agent:
    """Runs prompts in one session. Made by `unipi.agent.open_agent`."""

    def __init__(
        self,
        *,
        session: Session,
        hooks: Hooks,
        api: WireApi,
        model: Model,
        transport: Transport,
        toolbox: Toolbox,
        tasks: TaskGroup,
        ui: UI,
        artifacts: Artifacts | None,
        find_secret: Callable[[Model], Awaitable[Secret | None]],
        thinking: ThinkingLevel = "off",
        policy: PrefixPolicy = "enforce",
        observer: Observer = nobody,
        commands: Mapping[str, tuple[str, Command]] | None = None,
        settings: Mapping[str, Mapping[str, JSON]] | None = None,
        retry: RetryPolicy | None = None,
        compaction: CompactionOptions | None = None,
        cache_ttl: CacheTtl = "5m",
        keep_warm: KeepWarm | None = None,
        max_turns: int = 200,
        save_wait: float = 30.0,
        missing_required: Sequence[MissingRequired] = (),
        wants_deltas: bool = False,
        wants_bodies: bool = False,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.session = session
        self.hooks = hooks
        self.api = api
        self.model = model
        self.thinking = thinking
        self.transport = transport
        self.toolbox = toolbox
        self.tasks = tasks
        self.ui = ui
        self.keys = Keys(find_secret)
        self.policy = policy
        self.observer = observer
        self.max_turns = max_turns
        self.cache_ttl: CacheTtl = cache_ttl
        self.wants_deltas = wants_deltas
        self.wants_bodies = wants_bodies
        self.now = now
        self.validators = Validators()
        self.queues = Queues()
        self.rewrites: list[Rewrite] = []
        self.side_host: Host | None = None  # set on opening: what side sessions are opened on
        self.purpose: Purpose = "turn"  # of the requests of its turns
        self.late_results = 0
        self.running = False
        self.cancelled = False
        self.lineage = Lineage(api, session.secret(), Ledger())
        self.verbs = Verbs(self)
        self.toolbox.tells = lambda: self.verbs.adds_tools
        self.prompt_text = SystemPrompt(self)
        self.requester = Requester(self, retry or RetryPolicy())
        self.compactor = Compactor(self, compaction or CompactionOptions())
        self.tail = Tail(self.queues, lambda: self.running, self.add, self._wake)
        self._artifacts = artifacts
        self.commands = commands or {}
        self._saver = Saver(session, save_wait)
        self._missing_required = tuple(missing_required)
        self.contexts = Contexts(self, settings or {})
        self._scope: anyio.CancelScope | None = None
        self.turnstile = anyio.Lock()  # one run at a time
        self.warmer = Warmer(self, keep_warm or KeepWarm())
        self._busy = 0  # runs that are active or about to start
        self._quiet = anyio.Event()
        self._head: tuple[HeadSpec, Head] | None = None

    # What the outside does.

    async def prompt(
        self, text: str, images: Sequence[Image] = (), *, source: str = "run"
    ) -> str | None:
        """Say something to the agent and let it work until nothing automatic is left.

        A slash command of a plugin runs instead; `/continue` goes on without a new prompt. Returns
        what a command, or a plugin that handled the input, replied: it never reaches the model.
        Raises AgentError when there is nothing to say.
        """
        if text.startswith("/"):
            name, _, rest = text[1:].partition(" ")
            if name in self.commands:
                return await self._command(name, rest.strip())
            if name == "continue":
                await self.go_on()
                return None
            if name == "compact":
                return await self.compact(rest.strip())
            if name == "reload":
                self.want_boundary("reload", "asked for by /reload")
                return "files are read again; the next request begins an epoch with them"
        event = InputEvent(repair(text), tuple(images), source)  # type: ignore[arg-type]  # checked by the caller's types
        outcome, _ = await self.hooks.input(event)
        if not isinstance(outcome, InputEvent):
            return outcome.reply
        if not outcome.text.strip() and not outcome.images:
            raise AgentError("the prompt is empty; say what to do")
        content: str | Sequence[UserContent] = repair(outcome.text)
        if outcome.images:
            content = (Text(repair(outcome.text)), *map(fit_picture, outcome.images))
        message = UserMessage(content, self.now())
        if self.running:
            self.queues.follow_up.append((message, True))
            return None
        self.compactor.rested()
        async with self.alone():
            await self._run([message], outcome.text, outcome.images)
        return None

    async def compact(self, instructions: str = "") -> str:
        """Compact now, by the user's wish, once no run is active; returns what came of it."""
        async with self.alone():
            outcome = await self.compactor.compact("manual", instructions or None)
            await self.save()
        if outcome.status != "applied":
            return f"not compacted ({outcome.status}): {outcome.reason}"
        return f"compacted: about {outcome.tokens_before:,} tokens before, {outcome.tokens_after:,} now"

    async def _command(self, name: str, rest: str) -> str | None:
        plugin, command = self.commands[name]
        try:
            with acting_as(plugin):
                return await command.run(rest, self.contexts.of(plugin))
        except Exception as error:  # noqa: BLE001 - a plugin's command must not end the session
            return f"/{name} of plugin {plugin!r} failed: {type(error).__name__}: {error}"

    async def go_on(self) -> None:
        """Run with what is queued or unanswered: `/continue`, a wake.

        Where the model has answered and nothing waits, it is asked in two words to go on: a request
        cannot end on an answer.
        """
        async with self.alone():
            items = self.lineage.items
            answered = bool(items) and isinstance(items[-1].message, AssistantMessage)
            opening: list[Message] = []
            if answered and not self.queues:
                opening.append(UserMessage(_GO_ON, self.now()))
            await self._run(opening, "", ())

    async def user_message(
        self, message: UserMessage, deliver: Deliver, source: str = "plugin"
    ) -> None:
        """Take a message in the user's place: queued while a run is active, else run at once."""
        if isinstance(message.content, str):
            event = InputEvent(repair(message.content), (), source)  # type: ignore[arg-type]  # a literal of ours
            outcome, _ = await self.hooks.input(event)
            if not isinstance(outcome, InputEvent):
                return
            message = evolve(message, content=outcome.text)
        message = evolve(message, content=repaired(message.content))
        if deliver == "next_turn":
            self.queues.next_turn.append(message)
        elif self.running:
            queue = self.queues.steer if deliver == "steer" else self.queues.follow_up
            queue.append((message, True))
        else:
            self.queues.follow_up.append((message, True))
            await self._wake()

    def steer(self, text: str) -> None:
        """Say something before the next request of the running turn."""
        self.queues.steer.append((UserMessage(repair(text), self.now()), True))

    def want_boundary(self, cause: str, detail: str = "") -> None:
        """Let a new epoch begin with the next request, by the user's choice."""
        self.lineage.want_boundary(Reason(cause, "user", detail=detail))

    async def settled(self) -> None:
        """Wait until no run is active and none is about to start."""
        while self._busy:
            await self._quiet.wait()

    def abort(self) -> None:
        """Stop the running turn; the session stays valid and can go on."""
        if self._scope is not None:
            self.cancelled = True
            self._scope.cancel()

    async def set_model(self, model: Model, api: WireApi) -> None:
        """Choose another model; switching back before the next request costs nothing."""
        if model == self.model:
            return
        previous, self.model, self.api = self.model, model, api
        self.lineage.api = api
        self.compactor.rested()
        self.session.append("model_change", {"provider": model.provider, "modelId": model.id})
        await self.hooks.model_select(ModelSelectEvent(model, previous))

    async def set_thinking(self, level: ThinkingLevel) -> None:
        """Choose another thinking level."""
        if level == self.thinking:
            return
        previous, self.thinking = self.thinking, level
        self.session.append("thinking_level_change", {"thinkingLevel": level})
        await self.hooks.thinking_level_select(ThinkingLevelSelectEvent(level, previous))

    # What the loop and its rooms use.

    async def add(self, message: Message) -> Message:
        """Seal a message: announce it, let plugins have their last word, store it."""
        await self.message_started(message)
        return await self.seal(message)

    async def message_started(self, message: Message) -> None:
        event = MessageStartEvent(message)
        self.observer(event)
        await self.hooks.message_start(event)

    async def seal(self, message: Message) -> Message:
        """Let plugins have their last word on a message, and store it."""
        sealed, plugin = await self.hooks.message_end(MessageEndEvent(message))
        if sealed is not message and isinstance(sealed, ToolResultMessage):
            assert isinstance(message, ToolResultMessage), "message_end keeps the role"
            sealed, problem = fitted(sealed, message, self.bound_output)
            if problem is not None:
                self.contexts.tell_of(
                    plugin or "", f"message_end of plugin {plugin!r}: {problem}; not used"
                )
        if sealed is not message and _thoughts(sealed) != _thoughts(message):
            text = "changed the thinking of an answer, which no provider takes back; not used"
            self.contexts.tell_of(plugin or "", f"message_end of plugin {plugin!r} {text}")
            sealed = message
        self.store(sealed)
        return sealed

    def store(self, message: Message) -> None:
        """Append a message to the session and to the lineage of requests."""
        before = self.lineage.items[-1].message if self.lineage.items else None
        stand_in = self.verbs.stand_in(before, message)
        if stand_in is not None:
            self.store(stand_in)
        message = self.verbs.admitted(message)
        entry = self.session.append_message(message)
        if _reaches_model(message):
            self.lineage.append(Item(entry.id, message))
            self.verbs.seen(message)
            self.compactor.grew(message)
        self.observer(MessageEndEvent(message))

    async def save(self) -> None:
        """Put everything on disk before a request goes out; see `Saver.save`."""
        await self._saver.save(self.observer)

    def save_now(self) -> None:
        """Put everything on disk, or raise SessionWriteError."""
        self._saver.save_now(self.observer)

    def head_spec(self) -> HeadSpec:
        """The head that the next request wants: the epoch's own, unless a choice ended it."""
        return self.prompt_text.spec()

    def head(self, spec: HeadSpec) -> Head:
        """The bytes of a head, built once."""
        if self._head is None or self._head[0] is not spec:
            self._head = (spec, self.api.head(spec))
        return self._head[1]

    def restore_head(self, spec: HeadSpec, head: Head) -> None:
        """Go on with the head that another process stored."""
        self._head = (spec, head)

    async def crossed(self, boundary: Boundary, head: Head) -> None:
        """Record a boundary and the head of the epoch it begins."""
        spec = self.lineage.spec
        assert spec is not None, "a boundary is crossed by a request"
        self.session.append_custom(records.EPOCH, records.epoch_data(boundary))
        prompt = self.prompt_text
        making = records.Making(self.head(spec), prompt.given, self.requester.shapes, prompt.edits)
        data = records.head_data(boundary.number, spec, head, making)
        self.session.append_custom(records.HEAD, data)
        event = EpochBoundaryEvent(boundary)
        self.observer(event)
        await self.hooks.epoch_boundary(event)

    def cache_state(self) -> CacheState:
        """What is known of the provider's cache at this moment."""
        return cache_state(self)

    def policy_refusal(self) -> str | None:
        """A required plugin that is not there blocks every call (fail closed)."""
        if not self._missing_required:
            return None
        names = "; ".join(f"{item.name} ({item.reason})" for item in self._missing_required)
        return (
            f"Blocked: a required plugin is not active: {names}. See `unipi plugins list`; "
            "install or enable it, or take it out of `required_plugins`."
        )

    def bound_output(self, raw: str | bytes, *, label: str = "output") -> Bounded:
        from unipi.tools.bound import bound_output

        return bound_output(raw, label=label, artifacts=self._artifacts)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While nothing else runs; a ping that is under way is called off."""
        self.warmer.stop()
        async with self.turnstile:
            yield
        if not self._busy:
            self.warmer.start()

    async def _wake(self) -> None:
        self._enter()
        self.tasks.start_soon(self._woken)

    async def _woken(self) -> None:
        """Run what woke the agent, once whatever was running has settled."""
        try:
            async with self.alone():
                if self.queues:
                    await self._run([], "", ())
        except Exception as error:  # noqa: BLE001 - a wake has no caller to tell but the observer
            self.observer(Notice("error", str(error)))
        finally:
            self._leave()

    def _enter(self) -> None:
        self._busy += 1

    def _leave(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._quiet.set()
            self._quiet = anyio.Event()

    async def _run(self, opening: Sequence[Message], text: str, images: Sequence[Image]) -> None:
        self.running, self.cancelled = True, False
        self._enter()
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                await run_loop(self, opening, text, images)
                while self.queues:  # said while the run was settling
                    await run_loop(self, [], "", ())
        finally:
            self._scope = None
            self.running = False
            self._leave()


_GO_ON = "Go on."


def _thoughts(message: Message) -> list[Thinking]:
    if not isinstance(message, AssistantMessage):
        return []
    return [block for block in message.content if isinstance(block, Thinking)]


def _reaches_model(message: Message) -> bool:
    """Whether a message is part of the context: the same rule as the session's own projection."""
    if isinstance(message, AssistantMessage):
        return message.stop_reason not in ("error", "aborted")
    return not (isinstance(message, BashMessage) and message.exclude_from_context)
