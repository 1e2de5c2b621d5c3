"""The events that hooks receive: frozen, typed, named after Pi's.

Events compare by identity, so a host can see in constant time that a plugin left one alone.
Derive a changed event with `attrs.evolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON, Image, UserContent
    from ._messages import (
        AssistantMessage,
        Entry,
        Message,
        StopReason,
        ToolResultMessage,
        Usage,
    )
    from ._models import Model, RequestInfo, ThinkingLevel
    from ._results import ResultPatch

SessionReason = Literal["startup", "reload", "new", "resume", "fork"]


@shown
@frozen(eq=False, repr=False)
class ProjectTrustEvent:
    """A project folder holds plugins or settings, and nobody has said whether to trust it."""

    cwd: str
    items: Sequence[str]


@shown
@frozen(eq=False, repr=False)
class ResourcesDiscoverEvent:
    cwd: str
    reason: SessionReason


@shown
@frozen(eq=False, repr=False)
class SessionStartEvent:
    reason: SessionReason
    previous_session_file: str | None = None


@shown
@frozen(eq=False, repr=False)
class SessionShutdownEvent:
    reason: Literal["quit", "reload", "new", "resume", "fork"]
    target_session_file: str | None = None


@shown
@frozen(eq=False, repr=False)
class SessionInfoChangedEvent:
    name: str | None


@shown
@frozen(eq=False, repr=False)
class SessionBeforeSwitchEvent:
    reason: Literal["new", "resume"]
    target_session_file: str | None = None


@shown
@frozen(eq=False, repr=False)
class SessionBeforeForkEvent:
    entry_id: str
    position: Literal["before", "at"]


@shown
@frozen(eq=False, repr=False)
class SessionBeforeTreeEvent:
    target_id: str
    old_leaf_id: str | None
    entries_to_summarize: Sequence[Entry]
    user_wants_summary: bool


@shown
@frozen(eq=False, repr=False)
class SessionTreeEvent:
    new_leaf_id: str
    old_leaf_id: str | None
    summary_entry: Entry | None = None


@shown
@frozen(eq=False, repr=False)
class SessionBeforeCompactEvent:
    """The host has chosen where to cut, and asks for what shall stand for what is cut off.

    `summarised` are the entries before the cut, from the last compaction's boundary on; the last
    `turn_prefix` of them begin the turn whose rest is kept. Tokens are estimates.
    """

    reason: Literal["manual", "threshold", "overflow"]
    will_retry: bool
    branch_entries: Sequence[Entry]
    first_kept_entry_id: str
    tokens_before: int
    previous_summary: str | None = None
    custom_instructions: str | None = None
    summarised: Sequence[Entry] = ()
    turn_prefix: int = 0
    tokens_kept: int = 0


@shown
@frozen(eq=False, repr=False)
class SessionCompactEvent:
    compaction_entry: Entry
    reason: Literal["manual", "threshold", "overflow"]
    will_retry: bool
    from_plugin: str | None = None


@shown
@frozen(eq=False, repr=False)
class InputEvent:
    """What a person typed, or what a plugin sent in their place."""

    text: str
    images: Sequence[Image] = ()
    source: Literal["interactive", "run", "rpc", "plugin"] = "interactive"


@shown
@frozen(eq=False, repr=False)
class BeforeAgentStartEvent:
    """A run is about to start, whatever started it; `prompt` is empty for a plugin's wake."""

    prompt: str
    images: Sequence[Image]
    system_prompt: str


@shown
@frozen(eq=False, repr=False)
class AgentStartEvent:
    pass


@shown
@frozen(eq=False, repr=False)
class AgentEndEvent:
    messages: Sequence[Message]
    will_retry: bool = False


@shown
@frozen(eq=False, repr=False)
class AgentSettledEvent:
    aborted: bool = False


@shown
@frozen(eq=False, repr=False)
class TurnStartEvent:
    turn_index: int
    timestamp: int


@shown
@frozen(eq=False, repr=False)
class TurnEndEvent:
    turn_index: int
    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]


@shown
@frozen(eq=False, repr=False)
class MessageStartEvent:
    message: Message


@shown
@frozen(eq=False, repr=False)
class MessageUpdateEvent:
    """One streamed piece of the answer: `text`, `thinking` or the arguments of a call."""

    kind: Literal["text", "thinking", "toolcall"]
    index: int
    delta: str


@shown
@frozen(eq=False, repr=False)
class MessageEndEvent:
    """A message is about to be sealed: the last moment at which it may be changed."""

    message: Message


@shown
@frozen(eq=False, repr=False)
class ContextEvent:
    """All messages that the next request will carry.

    Those before `new_from` were sent already and are immutable inside the epoch.
    """

    messages: Sequence[Message]
    new_from: int
    info: RequestInfo


@shown
@frozen(eq=False, repr=False)
class BeforeProviderHeadersEvent:
    headers: Mapping[str, str]
    info: RequestInfo


@shown
@frozen(eq=False, repr=False)
class Payload:
    """A request body, split into its parts, provider-native.

    `messages` is a lazy sequence: an item is decoded only when it is looked at.
    """

    envelope: Mapping[str, JSON]
    system: Sequence[JSON]
    tools: Sequence[Mapping[str, JSON]]
    messages: Sequence[Mapping[str, JSON]]


@shown
@frozen(eq=False, repr=False)
class BeforeProviderRequestEvent:
    payload: Payload
    info: RequestInfo


@shown
@frozen(eq=False, repr=False)
class ProviderRequestSealedEvent:
    """What goes out, after every change: exact body bytes and final headers, secrets redacted.

    Body layout: `body[:head_length]` is the head, the messages follow, and the last
    `tail_length` bytes close the body. `message_ends` are the offsets at which each message ends,
    so that one message is a slice. The host has compared the bytes: the first `shared_length` are
    those of the session's last request, and so are the first `kept_messages` messages, cache markers
    set aside. `same_meaning`: the message behind them is another only in its notation. A request
    beside the conversation is compared with the conversation's last one. `fingerprint` is a digest
    of head and messages under the session's secret, as 64 hex digits.
    """

    body: bytes
    headers: Mapping[str, str]
    info: RequestInfo
    head_length: int
    tail_length: int
    message_ends: Sequence[int]
    shared_length: int = 0
    kept_messages: int = 0
    same_meaning: bool = False
    fingerprint: str = ""


@shown
@frozen(eq=False, repr=False)
class AfterProviderResponseEvent:
    """The response's status and headers have arrived; its body has not been read."""

    status: int
    headers: Mapping[str, str]
    info: RequestInfo


@shown
@frozen(eq=False, repr=False)
class ProviderResponseEndEvent:
    """The answer is complete, or will never be."""

    info: RequestInfo
    usage: Usage | None
    stop_reason: StopReason
    response_id: str | None = None
    error: str | None = None
    duration_ms: float = 0.0


@shown
@frozen(eq=False, repr=False)
class ToolExecutionStartEvent:
    tool_call_id: str
    tool_name: str
    args: Mapping[str, JSON]


@shown
@frozen(eq=False, repr=False)
class ToolExecutionUpdateEvent:
    tool_call_id: str
    tool_name: str
    partial_result: str


@shown
@frozen(eq=False, repr=False)
class ToolExecutionEndEvent:
    tool_call_id: str
    tool_name: str
    result: Sequence[UserContent]
    is_error: bool
    duration_ms: float = 0.0


@shown
@frozen(eq=False, repr=False)
class ToolCallEvent:
    """The model asked for a call whose arguments are valid; nothing has run yet."""

    tool_name: str
    tool_call_id: str
    input: Mapping[str, JSON]


@shown
@frozen(eq=False, repr=False)
class ToolResultEvent:
    """A tool ran; its result is about to be sealed."""

    tool_name: str
    tool_call_id: str
    input: Mapping[str, JSON]
    content: Sequence[UserContent]
    details: JSON
    is_error: bool

    def patched(self, patch: ResultPatch) -> ToolResultEvent:
        """This event with the parts that `patch` names replaced."""
        return ToolResultEvent(
            self.tool_name,
            self.tool_call_id,
            self.input,
            self.content if patch.content is None else patch.content,
            self.details if patch.details is None else patch.details,
            self.is_error if patch.is_error is None else patch.is_error,
        )


@shown
@frozen(eq=False, repr=False)
class UserBashEvent:
    command: str
    exclude_from_context: bool
    cwd: str


@shown
@frozen(eq=False, repr=False)
class ModelSelectEvent:
    model: Model
    previous_model: Model | None
    source: Literal["set", "cycle", "restore"] = "set"


@shown
@frozen(eq=False, repr=False)
class ThinkingLevelSelectEvent:
    level: ThinkingLevel
    previous_level: ThinkingLevel


@shown
@frozen(eq=False, repr=False)
class Boundary:
    """A cache epoch ended and another began.

    `owner` is `host`, `user` or a plugin's name; `tokens_lost` is what the provider must read
    again; `price` is in US dollars, None without prices.
    """

    number: int
    cause: str
    owner: str
    avoidable: bool
    tokens_lost: int
    price: float | None = None
    detail: str = ""


@shown
@frozen(eq=False, repr=False)
class EpochBoundaryEvent:
    boundary: Boundary
