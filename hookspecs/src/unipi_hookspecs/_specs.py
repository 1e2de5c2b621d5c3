"""The hook specifications.

Each hook declares, as data that dispatch and the generated documentation both read, its kind (what
a return does), what happens when an implementation fails, its time budget in seconds, and what it
may touch of the cached prefix. Event hooks take `(event, ctx)`, registration hooks `(ctx)`; an
implementation may name fewer arguments and, for event hooks, may be `async def`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import pluggy
from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from . import _events as ev
    from ._context import Context, LoadContext
    from ._messages import Message
    from ._results import (
        BashResult,
        Block,
        BranchSummary,
        Cancel,
        Compaction,
        Handled,
        ReplaceInput,
        Resources,
        ResultPatch,
        StartWith,
        Transform,
        Trust,
    )
    from ._tools import Check, Command, Flag, ProviderSpec, Renderer, Setting, Tool

Kind: TypeAlias = Literal["collect", "observe", "chain", "first", "veto"]
PROJECT_NAME = "unipi"
_hookspec = pluggy.HookspecMarker(PROJECT_NAME)
_F = TypeVar("_F", bound="Callable[..., object]")


@shown
@frozen(repr=False)
class HookPolicy:
    """How a hook is dispatched; `budget` is in seconds, `cache_effect` names what it may touch."""

    name: str
    kind: Kind
    budget: float
    cache_effect: str
    fail_closed: bool
    reverse: bool
    registration: bool


POLICIES: dict[str, HookPolicy] = {}


def _hook(
    kind: Kind,
    *,
    budget: float = 5.0,
    cache: str = "-",
    fail_closed: bool = False,
    reverse: bool = False,
    registration: bool = False,
) -> Callable[[_F], _F]:
    def mark(function: _F) -> _F:
        name = function.__name__
        POLICIES[name] = HookPolicy(name, kind, budget, cache, fail_closed, reverse, registration)
        return _hookspec(function)

    return mark


# Registration: asked once, before the first request.


@_hook("collect", cache="head, before the first request", registration=True)
def register_tools(ctx: LoadContext) -> Sequence[Tool] | None:
    """Offer tools to the model."""


@_hook("collect", registration=True)
def register_commands(ctx: LoadContext) -> Sequence[Command] | None:
    """Offer slash commands to the user."""


@_hook("collect", registration=True)
def register_providers(ctx: LoadContext) -> Sequence[ProviderSpec] | None:
    """Offer models."""


@_hook("collect", registration=True)
def register_flags(ctx: LoadContext) -> Sequence[Flag] | None:
    """Offer command-line options."""


@_hook("collect", registration=True)
def register_renderers(ctx: LoadContext) -> Sequence[Renderer] | None:
    """Say how entries of a custom type are shown."""


@_hook("collect", registration=True)
def register_settings(ctx: LoadContext) -> Sequence[Setting] | None:
    """Describe the settings that the plugin reads."""


@_hook("collect", registration=True)
def register_checks(ctx: LoadContext) -> Sequence[Check] | None:
    """Offer checks to `unipi doctor`, which alone asks for them."""


# Session life.


@_hook("first")
def project_trust(event: ev.ProjectTrustEvent, ctx: LoadContext) -> Trust | None:
    """Decide whether the plugins and settings of a project folder may load."""


@_hook("collect", cache="head, at session start")
def resources_discover(event: ev.ResourcesDiscoverEvent, ctx: Context) -> Resources | None:
    """Add instruction text to the head, once, at session start."""


@_hook("observe")
def session_start(event: ev.SessionStartEvent, ctx: Context) -> None:
    """A session began, or was resumed, forked or reloaded."""


@_hook("observe", reverse=True)
def session_shutdown(event: ev.SessionShutdownEvent, ctx: Context) -> None:
    """The session is about to end; afterwards `ctx` is stale."""


@_hook("observe")
def session_info_changed(event: ev.SessionInfoChangedEvent, ctx: Context) -> None:
    """The session's name was set or cleared."""


@_hook("veto", cache="boundary")
def session_before_switch(event: ev.SessionBeforeSwitchEvent, ctx: Context) -> Cancel | None:
    """Another session is about to take this one's place."""


@_hook("veto", cache="boundary")
def session_before_fork(event: ev.SessionBeforeForkEvent, ctx: Context) -> Cancel | None:
    """A fork or clone is about to be made."""


@_hook("veto", cache="boundary")
def session_before_tree(
    event: ev.SessionBeforeTreeEvent, ctx: Context
) -> Cancel | BranchSummary | None:
    """The leaf is about to move to another branch."""


@_hook("observe")
def session_tree(event: ev.SessionTreeEvent, ctx: Context) -> None:
    """The leaf has moved."""


@_hook("veto", cache="boundary")
def session_before_compact(
    event: ev.SessionBeforeCompactEvent, ctx: Context
) -> Cancel | Compaction | None:
    """History is about to be compacted; a plugin may supply the whole compaction."""


@_hook("observe", cache="tail of the new epoch")
def session_compact(event: ev.SessionCompactEvent, ctx: Context) -> None:
    """History was compacted."""


# A run, from input to settled.


@_hook("chain", cache="tail")
def input(event: ev.InputEvent, ctx: Context) -> Transform | Handled | None:  # noqa: A001 - Pi's name for the event
    """Something was said by the user, or by a plugin in their place."""


@_hook("chain", cache="tail; the system prompt only at a boundary")
def before_agent_start(event: ev.BeforeAgentStartEvent, ctx: Context) -> StartWith | None:
    """A run is about to start, whatever started it."""


@_hook("observe", cache="tail via ctx")
def agent_start(event: ev.AgentStartEvent, ctx: Context) -> None:
    """A pass of the agent loop starts."""


@_hook("observe", cache="tail via ctx", reverse=True)
def agent_end(event: ev.AgentEndEvent, ctx: Context) -> None:
    """A pass of the agent loop ended; with `will_retry` another follows by itself."""


@_hook("observe", cache="tail via ctx", reverse=True)
def agent_settled(event: ev.AgentSettledEvent, ctx: Context) -> None:
    """Nothing automatic is left to do."""


@_hook("observe", cache="tail via ctx")
def turn_start(event: ev.TurnStartEvent, ctx: Context) -> None:
    """A model request is about to be built."""


@_hook("observe", cache="tail via ctx", reverse=True)
def turn_end(event: ev.TurnEndEvent, ctx: Context) -> None:
    """The answer and its tool results are sealed."""


# Messages.


@_hook("observe")
def message_start(event: ev.MessageStartEvent, ctx: Context) -> None:
    """A message begins: the user's at once, an answer with its first piece."""


@_hook("observe", budget=1.0)
def message_update(event: ev.MessageUpdateEvent, ctx: Context) -> None:
    """A piece of an answer arrived."""


@_hook("chain", cache="the message being sealed, never an older one")
def message_end(event: ev.MessageEndEvent, ctx: Context) -> Message | None:
    """A message is complete; a returned message of the same role takes its place."""


@_hook("chain", cache="projection of new messages")
def context(event: ev.ContextEvent, ctx: Context) -> Sequence[Message] | None:
    """The messages of the next request.

    A returned sequence may change or leave out messages at or after `event.new_from`; what it
    decides for one is kept for the epoch. Older messages are immutable, and messages that are not
    in the session belong in `ctx.append_message`.
    """


# The provider.


@_hook("chain", cache="headers")
def before_provider_headers(
    event: ev.BeforeProviderHeadersEvent, ctx: Context
) -> Mapping[str, str] | None:
    """The request's own headers; a returned mapping takes their place."""


@_hook("chain", cache="guarded payload")
def before_provider_request(
    event: ev.BeforeProviderRequestEvent, ctx: Context
) -> ev.Payload | None:
    """The request is built; a returned payload takes its place, if the prefix policy lets it."""


@_hook("observe")
def provider_request_sealed(event: ev.ProviderRequestSealedEvent, ctx: Context) -> None:
    """The exact bytes that went out, after every change; the answer is not there yet."""


@_hook("observe")
def after_provider_response(event: ev.AfterProviderResponseEvent, ctx: Context) -> None:
    """Status and headers of the response have arrived."""


@_hook("observe")
def provider_response_end(event: ev.ProviderResponseEndEvent, ctx: Context) -> None:
    """The response's stream has ended, with its usage."""


# Tools.


@_hook("observe")
def tool_execution_start(event: ev.ToolExecutionStartEvent, ctx: Context) -> None:
    """A call is about to be checked and run, in the model's order."""


@_hook("observe")
def tool_execution_update(event: ev.ToolExecutionUpdateEvent, ctx: Context) -> None:
    """A running tool reported partial output."""


@_hook("observe", reverse=True)
def tool_execution_end(event: ev.ToolExecutionEndEvent, ctx: Context) -> None:
    """A call has its result."""


@_hook("veto", budget=10.0, fail_closed=True)
def tool_call(event: ev.ToolCallEvent, ctx: Context) -> Block | ReplaceInput | None:
    """A valid call is about to run. An implementation that fails blocks it."""


@_hook("chain", cache="the result being sealed")
def tool_result(event: ev.ToolResultEvent, ctx: Context) -> ResultPatch | None:
    """A tool ran; parts of its result may be replaced before it is sealed."""


@_hook("first", cache="tail")
def user_bash(event: ev.UserBashEvent, ctx: Context) -> BashResult | None:
    """The user ran a command with `!`."""


# Choices of the user, and what they cost.


@_hook("observe", cache="boundary")
def model_select(event: ev.ModelSelectEvent, ctx: Context) -> None:
    """Another model was chosen."""


@_hook("observe", cache="boundary")
def thinking_level_select(event: ev.ThinkingLevelSelectEvent, ctx: Context) -> None:
    """Another thinking level was chosen."""


@_hook("observe")
def epoch_boundary(event: ev.EpochBoundaryEvent, ctx: Context) -> None:
    """A cache epoch ended: cause, owner, cost."""


__all__ = ["POLICIES", "PROJECT_NAME", "HookPolicy", "Kind"]
