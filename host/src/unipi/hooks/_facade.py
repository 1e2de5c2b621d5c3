"""The typed façade: one method a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from attrs import evolve

from unipi_hookspecs import (
    BashResult,
    BranchSummary,
    Cancel,
    Check,
    Command,
    Compaction,
    Flag,
    Handled,
    HookPolicy,
    Payload,
    ProviderSpec,
    Renderer,
    Resources,
    Setting,
    Tool,
    Trust,
)

from . import _folds as folds
from ._plan import Plan, Unbound, digest, steps
from ._registrations import collect
from ._types import Decision, Start
from ._walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unipi_hookspecs import (
        Context,
        InputEvent,
        LoadContext,
        Message,
        ToolResultEvent,
        _events as ev,
    )

    from ._plan import Implementation
    from ._record import Recorder
    from ._types import PluginStats

T = TypeVar("T")
_OBSERVE = folds.Observe()


class Hooks:
    """All event hooks, as methods that are awaited in the caller's task.

    What each event means is said in its specification; observers give nothing back. What a plugin
    does wrong is contained, counted and reported, and only a `tool_call` is stopped by it.
    While no session is bound, a hook that has implementations raises RuntimeError; registration
    hooks and `project_trust` take their contexts as an argument and work without.
    """

    def __init__(
        self,
        compiled: Mapping[str, tuple[Implementation, ...]],
        policies: Mapping[str, HookPolicy],
        recorder: Recorder,
        clock: Callable[[], int],
        contexts: Callable[[str], Context] | None,
    ) -> None:
        self._compiled = compiled
        self._policies = policies
        self._recorder = recorder
        self._clock = clock
        self._plans: dict[str, Plan] = {}
        if contexts is None:
            self.unbind()
        else:
            self.bind(contexts)

    def bind(self, contexts: Callable[[str], Context]) -> None:
        """Give implementations the contexts of a session; `contexts` is asked once a plugin."""
        made: dict[str, Context] = {}

        def context(plugin: str) -> Context:
            if plugin not in made:
                made[plugin] = contexts(plugin)
            return made[plugin]

        self._plans = {
            hook: Plan(policy, steps(self._compiled[hook], context), self._recorder, self._clock)
            for hook, policy in self._policies.items()
            if not policy.registration and hook != "project_trust"
        }

    def another(self) -> Hooks:
        """The same plans for a second session beside this one; not bound yet."""
        return Hooks(self._compiled, self._policies, self._recorder, self._clock, None)

    def unbind(self) -> None:
        """Let go of the session's contexts, after its last event."""
        self._plans = {
            hook: Plan(
                policy,
                Unbound(hook) if self._compiled[hook] else (),
                self._recorder,
                self._clock,
            )
            for hook, policy in self._policies.items()
        }

    def has(self, hook: str) -> bool:
        """Whether any plugin implements a hook, so that its event need not be made for nobody."""
        return bool(self._compiled[hook])

    def digest(self) -> str:
        """SHA-256 in hex of who implements what in which order: part of a cache epoch."""
        return digest(self._compiled)

    def stats(self) -> list[PluginStats]:
        """What each implementation has cost so far, hook by hook in plugin order."""
        return self._recorder.stats()

    # Registration.

    def collect_tools(self, contexts: Callable[[str], LoadContext]) -> list[tuple[str, Tool]]:
        return self._collect("register_tools", contexts, Tool)

    def collect_commands(self, contexts: Callable[[str], LoadContext]) -> list[tuple[str, Command]]:
        return self._collect("register_commands", contexts, Command)

    def collect_providers(
        self, contexts: Callable[[str], LoadContext]
    ) -> list[tuple[str, ProviderSpec]]:
        return self._collect("register_providers", contexts, ProviderSpec)

    def collect_flags(self, contexts: Callable[[str], LoadContext]) -> list[tuple[str, Flag]]:
        return self._collect("register_flags", contexts, Flag)

    def collect_renderers(
        self, contexts: Callable[[str], LoadContext]
    ) -> list[tuple[str, Renderer]]:
        return self._collect("register_renderers", contexts, Renderer)

    def collect_settings(self, contexts: Callable[[str], LoadContext]) -> list[tuple[str, Setting]]:
        return self._collect("register_settings", contexts, Setting)

    def collect_checks(self, contexts: Callable[[str], LoadContext]) -> list[tuple[str, Check]]:
        return self._collect("register_checks", contexts, Check)

    def _collect(
        self, hook: str, contexts: Callable[[str], LoadContext], kind: type[T]
    ) -> list[tuple[str, T]]:
        plan = Plan(self._policies[hook], (), self._recorder, self._clock)
        return collect(plan, self._compiled[hook], contexts, kind)

    # Hooks whose answer the host acts on.

    async def project_trust(
        self, event: ev.ProjectTrustEvent, contexts: Callable[[str], LoadContext]
    ) -> tuple[Trust, str] | None:
        """The first decision, with its plugin; asked before there is a session."""
        bound = steps(self._compiled["project_trust"], contexts)
        plan = Plan(self._policies["project_trust"], bound, self._recorder, self._clock)
        fold = folds.Answer(event, folds.of(Trust), lambda _: True)
        await walk(plan, event, fold)
        return fold.answer

    async def user_bash(self, event: ev.UserBashEvent) -> tuple[BashResult, str] | None:
        """The first outcome that a plugin supplies, with its name."""
        fold = folds.Answer(event, folds.of(BashResult), lambda _: True)
        await walk(self._plans["user_bash"], event, fold)
        return fold.answer

    async def resources_discover(
        self, event: ev.ResourcesDiscoverEvent
    ) -> list[tuple[str, Resources]]:
        """Each plugin's instruction texts, in plugin order."""
        fold = folds.Gather(event, folds.resources)
        await walk(self._plans["resources_discover"], event, fold)
        return fold.found

    async def session_before_switch(
        self, event: ev.SessionBeforeSwitchEvent
    ) -> tuple[Cancel, str] | None:
        """The first Cancel, with its plugin."""
        fold = folds.Answer(event, folds.of(Cancel), folds.is_cancel)
        await walk(self._plans["session_before_switch"], event, fold)
        return fold.answer

    async def session_before_fork(
        self, event: ev.SessionBeforeForkEvent
    ) -> tuple[Cancel, str] | None:
        """The first Cancel, with its plugin."""
        fold = folds.Answer(event, folds.of(Cancel), folds.is_cancel)
        await walk(self._plans["session_before_fork"], event, fold)
        return fold.answer

    async def session_before_tree(
        self, event: ev.SessionBeforeTreeEvent
    ) -> tuple[Cancel | BranchSummary, str] | None:
        """The first Cancel, or the last summary that a plugin supplies, with its plugin."""
        fold = folds.Answer(event, folds.cancel_or(BranchSummary), folds.is_cancel)
        await walk(self._plans["session_before_tree"], event, fold)
        return fold.answer

    async def session_before_compact(
        self, event: ev.SessionBeforeCompactEvent
    ) -> tuple[Cancel | Compaction, str] | None:
        """The first Cancel, or the last compaction that a plugin supplies, with its plugin."""
        fold = folds.Answer(event, folds.cancel_or(Compaction), folds.is_cancel)
        await walk(self._plans["session_before_compact"], event, fold)
        return fold.answer

    async def tool_call(self, event: ev.ToolCallEvent) -> Decision:
        """Whether the call may run, and with which arguments; a plugin that fails blocks it."""
        plan = self._plans["tool_call"]
        if not plan.steps:
            return Decision(event.input)
        fold = folds.ToolCall(event)
        await walk(plan, event, fold)
        return fold.decision()

    # Chains.

    async def tool_result(self, event: ev.ToolResultEvent) -> ToolResultEvent:
        """The event with what plugins replaced in the result."""
        plan = self._plans["tool_result"]
        if not plan.steps:
            return event
        fold = folds.Chain(event, folds.patch_result)
        await walk(plan, event, fold)
        return fold.event

    async def input(self, event: ev.InputEvent) -> tuple[InputEvent | Handled, str | None]:
        """The input as transformed, or Handled, with the plugin that handled or last changed it."""
        fold = folds.Input(event)
        await walk(self._plans["input"], event, fold)
        return fold.handled or fold.event, fold.owner

    async def before_agent_start(self, event: ev.BeforeAgentStartEvent) -> Start:
        """The messages and the system prompt that the run starts with, and whose they are."""
        fold = folds.Start(event)
        await walk(self._plans["before_agent_start"], event, fold)
        return Start(
            tuple(fold.messages),
            fold.event.system_prompt,
            tuple(fold.prompt_changed_by),
            tuple(fold.prompts),
        )

    async def message_end(self, event: ev.MessageEndEvent) -> tuple[Message, str | None]:
        """The message to seal, with the plugin that last replaced it, or None."""
        plan = self._plans["message_end"]
        if not plan.steps:
            return event.message, None
        fold = folds.Chain(event, folds.replace_message)
        await walk(plan, event, fold)
        return fold.event.message, fold.owners[-1] if fold.owners else None

    async def context(
        self,
        event: ev.ContextEvent,
        check: Callable[[str, Sequence[Message], Sequence[Message]], Sequence[Message]],
    ) -> Sequence[Message]:
        """The projection of the messages.

        After each plugin that returned one, `check(plugin, before, returned)` gives the sequence
        to go on with.
        """
        plan = self._plans["context"]
        if not plan.steps:
            return event.messages

        def step(now: ev.ContextEvent, plugin: str, value: object) -> ev.ContextEvent:
            returned = folds.checked_messages(now, value)
            accepted = check(plugin, now.messages, returned)
            return now if accepted is now.messages else evolve(now, messages=accepted)

        fold = folds.Chain(event, step)
        await walk(plan, event, fold)
        return fold.event.messages

    async def before_provider_request(
        self,
        event: ev.BeforeProviderRequestEvent,
        check: Callable[[str, Payload, Payload], Payload],
    ) -> Payload:
        """The payload; `check(plugin, before, returned)` gives the one to go on with."""
        plan = self._plans["before_provider_request"]
        if not plan.steps:
            return event.payload
        is_payload = folds.of(Payload)

        def step(
            now: ev.BeforeProviderRequestEvent, plugin: str, value: object
        ) -> ev.BeforeProviderRequestEvent:
            accepted = check(plugin, now.payload, is_payload(value))
            return now if accepted is now.payload else evolve(now, payload=accepted)

        fold = folds.Chain(event, step)
        await walk(plan, event, fold)
        return fold.event.payload

    async def before_provider_headers(
        self, event: ev.BeforeProviderHeadersEvent
    ) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """The request's headers, with the plugins that changed them, in order."""
        plan = self._plans["before_provider_headers"]
        if not plan.steps:
            return event.headers, ()
        fold = folds.Chain(event, folds.replace_headers)
        await walk(plan, event, fold)
        return fold.event.headers, tuple(fold.owners)

    # Observers. An empty hook costs one look at its plan.

    async def session_start(self, event: ev.SessionStartEvent) -> None:
        if (plan := self._plans["session_start"]).steps:
            await walk(plan, event, _OBSERVE)

    async def session_shutdown(self, event: ev.SessionShutdownEvent) -> None:
        if (plan := self._plans["session_shutdown"]).steps:
            await walk(plan, event, _OBSERVE)

    async def session_info_changed(self, event: ev.SessionInfoChangedEvent) -> None:
        if (plan := self._plans["session_info_changed"]).steps:
            await walk(plan, event, _OBSERVE)

    async def session_tree(self, event: ev.SessionTreeEvent) -> None:
        if (plan := self._plans["session_tree"]).steps:
            await walk(plan, event, _OBSERVE)

    async def session_compact(self, event: ev.SessionCompactEvent) -> None:
        if (plan := self._plans["session_compact"]).steps:
            await walk(plan, event, _OBSERVE)

    async def agent_start(self, event: ev.AgentStartEvent) -> None:
        if (plan := self._plans["agent_start"]).steps:
            await walk(plan, event, _OBSERVE)

    async def agent_end(self, event: ev.AgentEndEvent) -> None:
        if (plan := self._plans["agent_end"]).steps:
            await walk(plan, event, _OBSERVE)

    async def agent_settled(self, event: ev.AgentSettledEvent) -> None:
        if (plan := self._plans["agent_settled"]).steps:
            await walk(plan, event, _OBSERVE)

    async def turn_start(self, event: ev.TurnStartEvent) -> None:
        if (plan := self._plans["turn_start"]).steps:
            await walk(plan, event, _OBSERVE)

    async def turn_end(self, event: ev.TurnEndEvent) -> None:
        if (plan := self._plans["turn_end"]).steps:
            await walk(plan, event, _OBSERVE)

    async def message_start(self, event: ev.MessageStartEvent) -> None:
        if (plan := self._plans["message_start"]).steps:
            await walk(plan, event, _OBSERVE)

    async def message_update(self, event: ev.MessageUpdateEvent) -> None:
        if (plan := self._plans["message_update"]).steps:
            await walk(plan, event, _OBSERVE)

    async def provider_request_sealed(self, event: ev.ProviderRequestSealedEvent) -> None:
        if (plan := self._plans["provider_request_sealed"]).steps:
            await walk(plan, event, _OBSERVE)

    async def after_provider_response(self, event: ev.AfterProviderResponseEvent) -> None:
        if (plan := self._plans["after_provider_response"]).steps:
            await walk(plan, event, _OBSERVE)

    async def provider_response_end(self, event: ev.ProviderResponseEndEvent) -> None:
        if (plan := self._plans["provider_response_end"]).steps:
            await walk(plan, event, _OBSERVE)

    async def tool_execution_start(self, event: ev.ToolExecutionStartEvent) -> None:
        if (plan := self._plans["tool_execution_start"]).steps:
            await walk(plan, event, _OBSERVE)

    async def tool_execution_update(self, event: ev.ToolExecutionUpdateEvent) -> None:
        if (plan := self._plans["tool_execution_update"]).steps:
            await walk(plan, event, _OBSERVE)

    async def tool_execution_end(self, event: ev.ToolExecutionEndEvent) -> None:
        if (plan := self._plans["tool_execution_end"]).steps:
            await walk(plan, event, _OBSERVE)

    async def model_select(self, event: ev.ModelSelectEvent) -> None:
        if (plan := self._plans["model_select"]).steps:
            await walk(plan, event, _OBSERVE)

    async def thinking_level_select(self, event: ev.ThinkingLevelSelectEvent) -> None:
        if (plan := self._plans["thinking_level_select"]).steps:
            await walk(plan, event, _OBSERVE)

    async def epoch_boundary(self, event: ev.EpochBoundaryEvent) -> None:
        if (plan := self._plans["epoch_boundary"]).steps:
            await walk(plan, event, _OBSERVE)
