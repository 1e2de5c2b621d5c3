"""All that a UniPi plugin depends on.

    from unipi_hookspecs import Block, Manifest, Tool, hookimpl

Names are imported when they are first used, so that a plugin pays for what it names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pluggy

    from ._cli import CliHost as CliHost
    from ._content import (
        JSON as JSON,
        AssistantContent as AssistantContent,
        Image as Image,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        UserContent as UserContent,
    )
    from ._context import (
        UI as UI,
        Bounded as Bounded,
        Context as Context,
        Deliver as Deliver,
        LoadContext as LoadContext,
        Logger as Logger,
        ProcessResult as ProcessResult,
        SessionView as SessionView,
        SideSession as SideSession,
    )
    from ._errors import (
        PluginError as PluginError,
        PrefixError as PrefixError,
        StaleContextError as StaleContextError,
    )
    from ._events import (
        AfterProviderResponseEvent as AfterProviderResponseEvent,
        AgentEndEvent as AgentEndEvent,
        AgentSettledEvent as AgentSettledEvent,
        AgentStartEvent as AgentStartEvent,
        BeforeAgentStartEvent as BeforeAgentStartEvent,
        BeforeProviderHeadersEvent as BeforeProviderHeadersEvent,
        BeforeProviderRequestEvent as BeforeProviderRequestEvent,
        Boundary as Boundary,
        ContextEvent as ContextEvent,
        EpochBoundaryEvent as EpochBoundaryEvent,
        InputEvent as InputEvent,
        MessageEndEvent as MessageEndEvent,
        MessageStartEvent as MessageStartEvent,
        MessageUpdateEvent as MessageUpdateEvent,
        ModelSelectEvent as ModelSelectEvent,
        Payload as Payload,
        ProjectTrustEvent as ProjectTrustEvent,
        ProviderRequestSealedEvent as ProviderRequestSealedEvent,
        ProviderResponseEndEvent as ProviderResponseEndEvent,
        ResourcesDiscoverEvent as ResourcesDiscoverEvent,
        SessionBeforeCompactEvent as SessionBeforeCompactEvent,
        SessionBeforeForkEvent as SessionBeforeForkEvent,
        SessionBeforeSwitchEvent as SessionBeforeSwitchEvent,
        SessionBeforeTreeEvent as SessionBeforeTreeEvent,
        SessionCompactEvent as SessionCompactEvent,
        SessionInfoChangedEvent as SessionInfoChangedEvent,
        SessionReason as SessionReason,
        SessionShutdownEvent as SessionShutdownEvent,
        SessionStartEvent as SessionStartEvent,
        SessionTreeEvent as SessionTreeEvent,
        ThinkingLevelSelectEvent as ThinkingLevelSelectEvent,
        ToolCallEvent as ToolCallEvent,
        ToolExecutionEndEvent as ToolExecutionEndEvent,
        ToolExecutionStartEvent as ToolExecutionStartEvent,
        ToolExecutionUpdateEvent as ToolExecutionUpdateEvent,
        ToolResultEvent as ToolResultEvent,
        TurnEndEvent as TurnEndEvent,
        TurnStartEvent as TurnStartEvent,
        UserBashEvent as UserBashEvent,
    )
    from ._manifest import API_VERSION as API_VERSION, Manifest as Manifest
    from ._messages import (
        AssistantMessage as AssistantMessage,
        BashMessage as BashMessage,
        Cost as Cost,
        CustomMessage as CustomMessage,
        Entry as Entry,
        Message as Message,
        StopReason as StopReason,
        SummaryMessage as SummaryMessage,
        ToolResultMessage as ToolResultMessage,
        ToolText as ToolText,
        Usage as Usage,
        UserMessage as UserMessage,
        Verb as Verb,
    )
    from ._models import (
        CacheState as CacheState,
        ContextUsage as ContextUsage,
        Model as Model,
        Prices as Prices,
        Purpose as Purpose,
        RequestInfo as RequestInfo,
        ThinkingLevel as ThinkingLevel,
    )
    from ._results import (
        BashResult as BashResult,
        Block as Block,
        BranchSummary as BranchSummary,
        Cancel as Cancel,
        Compaction as Compaction,
        Handled as Handled,
        ReplaceInput as ReplaceInput,
        Resources as Resources,
        ResultPatch as ResultPatch,
        StartWith as StartWith,
        Transform as Transform,
        Trust as Trust,
    )
    from ._specs import (
        POLICIES as POLICIES,
        PROJECT_NAME as PROJECT_NAME,
        HookPolicy as HookPolicy,
        Kind as Kind,
    )
    from ._tools import (
        Call as Call,
        Check as Check,
        CheckResult as CheckResult,
        Command as Command,
        Flag as Flag,
        ProviderSpec as ProviderSpec,
        Renderer as Renderer,
        Setting as Setting,
        Tool as Tool,
        ToolOutput as ToolOutput,
        ToolRun as ToolRun,
    )

    hookimpl: pluggy.HookimplMarker

__version__ = "0.1.0"

_WHERE = {
    "_cli": ("CliHost",),
    "_content": (
        "AssistantContent",
        "Image",
        "JSON",
        "Text",
        "Thinking",
        "ToolCall",
        "UserContent",
    ),
    "_context": (
        "Bounded",
        "Context",
        "Deliver",
        "LoadContext",
        "Logger",
        "ProcessResult",
        "SessionView",
        "SideSession",
        "UI",
    ),
    "_errors": (
        "PluginError",
        "PrefixError",
        "StaleContextError",
    ),
    "_events": (
        "AfterProviderResponseEvent",
        "AgentEndEvent",
        "AgentSettledEvent",
        "AgentStartEvent",
        "BeforeAgentStartEvent",
        "BeforeProviderHeadersEvent",
        "BeforeProviderRequestEvent",
        "Boundary",
        "ContextEvent",
        "EpochBoundaryEvent",
        "InputEvent",
        "MessageEndEvent",
        "MessageStartEvent",
        "MessageUpdateEvent",
        "ModelSelectEvent",
        "Payload",
        "ProjectTrustEvent",
        "ProviderRequestSealedEvent",
        "ProviderResponseEndEvent",
        "ResourcesDiscoverEvent",
        "SessionBeforeCompactEvent",
        "SessionBeforeForkEvent",
        "SessionBeforeSwitchEvent",
        "SessionBeforeTreeEvent",
        "SessionCompactEvent",
        "SessionInfoChangedEvent",
        "SessionReason",
        "SessionShutdownEvent",
        "SessionStartEvent",
        "SessionTreeEvent",
        "ThinkingLevelSelectEvent",
        "ToolCallEvent",
        "ToolExecutionEndEvent",
        "ToolExecutionStartEvent",
        "ToolExecutionUpdateEvent",
        "ToolResultEvent",
        "TurnEndEvent",
        "TurnStartEvent",
        "UserBashEvent",
    ),
    "_manifest": (
        "API_VERSION",
        "Manifest",
    ),
    "_messages": (
        "AssistantMessage",
        "BashMessage",
        "Cost",
        "CustomMessage",
        "Entry",
        "Message",
        "StopReason",
        "SummaryMessage",
        "ToolResultMessage",
        "ToolText",
        "Usage",
        "UserMessage",
        "Verb",
    ),
    "_models": (
        "CacheState",
        "ContextUsage",
        "Model",
        "Prices",
        "Purpose",
        "RequestInfo",
        "ThinkingLevel",
    ),
    "_results": (
        "BashResult",
        "Block",
        "BranchSummary",
        "Cancel",
        "Compaction",
        "Handled",
        "ReplaceInput",
        "Resources",
        "ResultPatch",
        "StartWith",
        "Transform",
        "Trust",
    ),
    "_specs": (
        "HookPolicy",
        "Kind",
        "POLICIES",
        "PROJECT_NAME",
    ),
    "_tools": (
        "Call",
        "Check",
        "CheckResult",
        "Command",
        "Flag",
        "ProviderSpec",
        "Renderer",
        "Setting",
        "Tool",
        "ToolOutput",
        "ToolRun",
    ),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted([*_HOME, "hookimpl"])


def __getattr__(name: str) -> object:
    if name == "hookimpl":
        import pluggy

        value: object = pluggy.HookimplMarker("unipi")
    elif name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
