"""Messages: the entries of a branch that the model can see, and what an answer cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON, AssistantContent, UserContent

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


@shown
@frozen(repr=False)
class Cost:
    """Money for one answer, in US dollars, by kind of token."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        return self.input + self.output + self.cache_read + self.cache_write


@shown
@frozen(repr=False)
class Usage:
    """Tokens of one answer, as the provider reported them.

    `input` counts prompt tokens that were neither read from nor written to the cache. `cache_read`
    and `cache_write` are None when the provider did not report them: a zero means a reported zero.
    `miss_reason` is what the provider itself says has changed since the request before, in its own
    word (`tools_changed`); it is asked where `Model.asks_miss_reason` is set.
    """

    input: int = 0
    output: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    reasoning: int | None = None
    cost: Cost | None = None
    miss_reason: str | None = None

    @property
    def prompt(self) -> int:
        """All prompt tokens: fresh, read and written."""
        return self.input + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def total_tokens(self) -> int:
        return self.prompt + self.output


@shown
@frozen(repr=False)
class UserMessage:
    """What a person (or a plugin in their place) said. `timestamp` is in Unix milliseconds.

    A plain string and a list of blocks are different bytes on the wire: the form is kept.
    """

    role: ClassVar[Literal["user"]] = "user"
    content: str | Sequence[UserContent]
    timestamp: int = 0


@shown
@frozen(repr=False)
class AssistantMessage:
    """One answer of the model, as received."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: Sequence[AssistantContent]
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    timestamp: int = 0
    response_id: str | None = None
    error_message: str | None = None


@shown
@frozen(repr=False)
class ToolResultMessage:
    """The result of one tool call. `details` is for people and plugins and never sent."""

    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: Sequence[UserContent]
    is_error: bool = False
    details: JSON = None
    timestamp: int = 0


@shown
@frozen(repr=False)
class ToolText:
    """A tool as a model is told of it; `schema` is canonical JSON."""

    name: str
    description: str
    schema: str


@shown
@frozen(repr=False)
class Verb:
    """What a message changes from its place on, for a model whose API can be told so there.

    The host alone sets it; elsewhere the message's content stands for it. With `system` the content
    is an instruction of the system's; `effort` is the model's effort; `define` are tools told in
    full, `offer` and `withdraw` names of tools that were told before.
    """

    system: bool = False
    effort: str = ""
    define: Sequence[ToolText] = ()
    offer: Sequence[str] = ()
    withdraw: Sequence[str] = ()


@shown
@frozen(repr=False)
class CustomMessage:
    """A plugin's message to the model, sent as a user message.

    `display=False` hides it from the transcript, never from the model. `verb` is the host's.
    """

    role: ClassVar[Literal["custom"]] = "custom"
    custom_type: str
    content: str | Sequence[UserContent]
    display: bool = True
    details: JSON = None
    timestamp: int = 0
    verb: Verb | None = None


@shown
@frozen(repr=False)
class SummaryMessage:
    """What stands for history that was compacted, or for a branch that was left."""

    role: ClassVar[Literal["summary"]] = "summary"
    kind: Literal["compaction", "branch"]
    summary: str
    timestamp: int = 0


@shown
@frozen(repr=False)
class BashMessage:
    """A command that the user ran with `!`; with `exclude_from_context` the model never sees it."""

    role: ClassVar[Literal["bashExecution"]] = "bashExecution"
    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool = False
    timestamp: int = 0


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | CustomMessage
    | SummaryMessage
    | BashMessage
)


@shown
@frozen(repr=False)
class Entry:
    """One line of a session file.

    `fields` is the whole JSON object of the line, unknown keys included. `message` is what the
    entry says to the model, or None.
    """

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    fields: Mapping[str, JSON]
    message: Message | None = None
