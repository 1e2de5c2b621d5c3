"""What each hook does with what its implementations return.

A fold keeps the event as it stands, takes each value in turn, and says when to stop. Values are
checked here, before the host uses them: a wrong one is an error of its plugin and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import evolve

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    Block,
    Cancel,
    CustomMessage,
    Handled,
    Image,
    ReplaceInput,
    Resources,
    ResultPatch,
    StartWith,
    SummaryMessage,
    Text,
    ToolResultMessage,
    Transform,
    UserMessage,
)

from ._types import Decision, Failure
from ._walk import WrongReturnError

if TYPE_CHECKING:
    from unipi_hookspecs import (
        BeforeAgentStartEvent,
        BeforeProviderHeadersEvent,
        ContextEvent,
        InputEvent,
        Message,
        MessageEndEvent,
        ToolCallEvent,
        ToolResultEvent,
    )

E = TypeVar("E")
T = TypeVar("T")

MESSAGE_TYPES = (
    UserMessage,
    AssistantMessage,
    ToolResultMessage,
    CustomMessage,
    SummaryMessage,
    BashMessage,
)


def refuse(value: object, expected: str) -> WrongReturnError:
    """The error of an implementation that returned `value`."""
    name = type(value).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return WrongReturnError(f"returned {article} {name}, expected {expected}")


def is_list_of(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether `value` is a list or tuple of such items (a string is neither)."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, kinds) for item in value)


class Observe:
    """Observers: all are told, and nothing comes back."""

    event: object = None

    def take(self, plugin: str, value: object) -> bool:
        raise refuse(value, "nothing")

    def failed(self, failure: Failure) -> bool:
        return False


class Chain(Generic[E]):
    """A chain: `step(event, plugin, value)` gives the event for the next implementation.

    `owners` names the plugins that changed it, in order.
    """

    def __init__(self, event: E, step: Callable[[E, str, object], E]) -> None:
        self.event = event
        self.owners: list[str] = []
        self._step = step

    def take(self, plugin: str, value: object) -> bool:
        changed = self._step(self.event, plugin, value)
        if changed is not self.event:
            self.event = changed
            self.owners.append(plugin)
        return False

    def failed(self, failure: Failure) -> bool:
        return False


class Answer(Generic[T]):
    """A first or veto hook: `check` gives the value or refuses it, `final` says whether to stop.

    Without a final one the last value stands, as Pi has it for its `session_before_*` events.
    """

    def __init__(
        self, event: object, check: Callable[[object], T], final: Callable[[T], bool]
    ) -> None:
        self.event = event
        self.answer: tuple[T, str] | None = None
        self._check = check
        self._final = final

    def take(self, plugin: str, value: object) -> bool:
        checked = self._check(value)
        self.answer = (checked, plugin)
        return self._final(checked)

    def failed(self, failure: Failure) -> bool:
        return False


class Gather(Generic[T]):
    """A collect hook: every value is kept, with its plugin's name."""

    def __init__(self, event: object, check: Callable[[object], T]) -> None:
        self.event = event
        self.found: list[tuple[str, T]] = []
        self._check = check

    def take(self, plugin: str, value: object) -> bool:
        self.found.append((plugin, self._check(value)))
        return False

    def failed(self, failure: Failure) -> bool:
        return False


class Input:
    """`input`: a Transform goes on with another text, the first Handled ends it."""

    def __init__(self, event: InputEvent) -> None:
        self.event = event
        self.handled: Handled | None = None
        self.owner: str | None = None

    def take(self, plugin: str, value: object) -> bool:
        if isinstance(value, Handled):
            self.handled, self.owner = value, plugin
            return True
        if not isinstance(value, Transform) or not isinstance(value.text, str):
            raise refuse(value, "a Transform with a text, or Handled")
        if value.images is not None and not is_list_of(value.images, Image):
            raise refuse(value.images, "a list of Image in Transform.images")
        images = self.event.images if value.images is None else value.images
        self.event = evolve(self.event, text=value.text, images=images)
        self.owner = plugin
        return False

    def failed(self, failure: Failure) -> bool:
        return False


class Start:
    """`before_agent_start`: messages pile up, each plugin sees the system prompt so far."""

    def __init__(self, event: BeforeAgentStartEvent) -> None:
        self.event = event
        self.messages: list[tuple[str, CustomMessage]] = []
        self.prompt_changed_by: list[str] = []
        self.prompts: list[str] = []

    def take(self, plugin: str, value: object) -> bool:
        if not isinstance(value, StartWith):
            raise refuse(value, "StartWith")
        if not is_list_of(value.messages, CustomMessage):
            raise refuse(value.messages, "a list of CustomMessage in StartWith.messages")
        prompt: object = value.system_prompt
        if prompt is not None and not isinstance(prompt, str):
            raise refuse(prompt, "a string in StartWith.system_prompt")
        self.messages.extend((plugin, message) for message in value.messages)
        if prompt is not None and prompt != self.event.system_prompt:
            self.event = evolve(self.event, system_prompt=prompt)
            self.prompt_changed_by.append(plugin)
            self.prompts.append(prompt)
        return False

    def failed(self, failure: Failure) -> bool:
        return False


class ToolCall:
    """`tool_call`: the first Block stops the call, and so does a plugin that fails."""

    def __init__(self, event: ToolCallEvent) -> None:
        self.event = event
        self._replaced_by: list[str] = []
        self._block: Block | None = None
        self._owner: str | None = None

    def take(self, plugin: str, value: object) -> bool:
        if isinstance(value, Block) and isinstance(value.reason, str):
            self._block, self._owner = value, plugin
            return True
        if not isinstance(value, ReplaceInput) or not isinstance(value.input, Mapping):
            raise refuse(value, "a Block with a reason, or a ReplaceInput with an object")
        self.event = evolve(self.event, input=value.input)
        self._replaced_by.append(plugin)
        return False

    def failed(self, failure: Failure) -> bool:
        name = self.event.tool_name
        self._owner = failure.plugin
        self._block = Block(
            f"The call of {name} was not run: plugin {failure.plugin!r}, which has a say in it, "
            f"failed in tool_call ({failure.error})."
        )
        return True

    def decision(self) -> Decision:
        """What it all comes to."""
        return Decision(self.event.input, self._block, self._owner, tuple(self._replaced_by))


def patch_result(event: ToolResultEvent, _: str, value: object) -> ToolResultEvent:
    """`tool_result`: replace the parts that a ResultPatch names."""
    if not isinstance(value, ResultPatch):
        raise refuse(value, "ResultPatch")
    if value.content is not None and not is_list_of(value.content, (Text, Image)):
        raise refuse(value.content, "a list of Text and Image in ResultPatch.content")
    flag: object = value.is_error
    if flag is not None and not isinstance(flag, bool):
        raise refuse(flag, "a bool in ResultPatch.is_error")
    return event.patched(value)


def replace_message(event: MessageEndEvent, _: str, value: object) -> MessageEndEvent:
    """`message_end`: another message, of the same kind."""
    if value is event.message:
        return event
    kind = type(event.message)
    if not isinstance(value, kind):
        raise refuse(value, f"{kind.__name__}, the kind of the message that is being sealed")
    return evolve(event, message=value)


def replace_headers(
    event: BeforeProviderHeadersEvent, _: str, value: object
) -> BeforeProviderHeadersEvent:
    """`before_provider_headers`: another mapping of strings to strings."""
    if not isinstance(value, Mapping):
        raise refuse(value, "a mapping of header names to values")
    for item in (*value.keys(), *value.values()):
        if not isinstance(item, str):
            raise refuse(item, "strings as header names and values")
    return event if value == event.headers else evolve(event, headers=dict(value))


def checked_messages(event: ContextEvent, value: object) -> Sequence[Message]:
    """What a `context` implementation returned, as a sequence of messages.

    Only items from `new_from` on are looked at: the guard compares the older ones by identity.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise refuse(value, "a sequence of messages")
    for item in value[event.new_from :]:
        if not isinstance(item, MESSAGE_TYPES):
            raise refuse(item, "messages in the sequence")
    return value


def of(kind: type[T], article: str = "a") -> Callable[[object], T]:
    """A check that lets instances of `kind` pass."""

    def check(value: object) -> T:
        if not isinstance(value, kind):
            raise refuse(value, f"{article} {kind.__name__}")
        return value

    return check


def resources(value: object) -> Resources:
    """What a `resources_discover` implementation returned."""
    if not isinstance(value, Resources):
        raise refuse(value, "Resources")
    if not is_list_of(value.instructions, str):
        raise refuse(value.instructions, "a list of strings in Resources.instructions")
    return value


def cancel_or(kind: type[T]) -> Callable[[object], Cancel | T]:
    """A check that lets Cancel pass, and the replacement that the hook knows."""

    def check(value: object) -> Cancel | T:
        if not isinstance(value, (Cancel, kind)):
            raise refuse(value, f"Cancel or {kind.__name__}")
        return value

    return check


def is_cancel(value: object) -> bool:
    """Whether a veto hook's value stops the action."""
    return isinstance(value, Cancel)
