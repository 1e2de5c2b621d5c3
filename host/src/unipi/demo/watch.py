"""What is seen of a session while it runs: its exact request bodies, its epochs, its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define

from unipi.agent import Notice
from unipi_hookspecs import (
    AssistantMessage,
    Boundary,
    CustomMessage,
    EpochBoundaryEvent,
    MessageEndEvent,
    ProviderRequestSealedEvent,
    Text,
    ToolCall,
    ToolExecutionEndEvent,
)

from .events import Answered, Told, Warned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .events import Tell


@define
class Watch:
    """An observer of the agent.

    `rewritten` counts requests whose body is not the last one plus a tail, byte for byte;
    `violations` those of them that belong to the same epoch as the last one.
    """

    tell: Tell
    answers: list[Answered] = Factory(list)
    boundaries: list[Boundary] = Factory(list)
    warnings: list[Notice] = Factory(list)
    failed_tools: list[str] = Factory(list)
    cost: float = 0.0
    rewritten: int = 0
    violations: int = 0
    last_answer: str = ""
    _last: ProviderRequestSealedEvent | None = None
    _crossed: Boundary | None = None

    def __call__(self, event: object) -> None:
        match event:
            case EpochBoundaryEvent():
                self._crossed = event.boundary
                self.boundaries.append(event.boundary)
            case ProviderRequestSealedEvent():
                self._compare(event)
            case MessageEndEvent(message=AssistantMessage() as message):
                self._answered(message)
            case MessageEndEvent(message=CustomMessage() as message):
                self.tell(Told(message.custom_type, _said(message)))
            case ToolExecutionEndEvent(is_error=True):
                said = _text(event.result)
                self.failed_tools.append(f"{event.tool_name}: {said.strip()}")
            case Notice(level="warning" | "error"):
                self.warnings.append(event)
                self.tell(Warned(event.text))
            case _:
                pass

    def _compare(self, event: ProviderRequestSealedEvent) -> None:
        last, self._last = self._last, event
        if last is None:
            return
        sent = last.body[: len(last.body) - last.tail_length]
        if not event.body.startswith(sent):
            self.rewritten += 1
            self.violations += event.info.epoch == last.info.epoch

    def _answered(self, message: AssistantMessage) -> None:
        usage = message.usage
        if usage is None:
            return  # it failed; the run ends with the reason
        self.cost += usage.cost.total if usage.cost else 0.0
        self.last_answer = _text(message.content)
        number = len(self.answers) + 1
        crossed, self._crossed = self._crossed, None
        told = Answered(number, usage.prompt, usage.cache_read or 0, _brief(message), crossed)
        self.answers.append(told)
        self.tell(told)


def _brief(message: AssistantMessage) -> str:
    """An answer in one line: its calls, or else its text."""
    calls = [part for part in message.content if isinstance(part, ToolCall)]
    if calls:
        return "; ".join(f"{call.name} {_subject(call)}" for call in calls)
    return _text(message.content)


def _said(message: CustomMessage) -> str:
    """What a message says, without the host's line that it replaces earlier ones."""
    text = message.content if isinstance(message.content, str) else _text(message.content)
    return text.partition("\n")[2] if text.startswith(f"[{message.custom_type}]") else text


def _text(content: Sequence[object]) -> str:
    return " ".join(part.text for part in content if isinstance(part, Text))


def _subject(call: ToolCall) -> str:
    names = ("command", "path", "pattern")
    return next((str(call.arguments[name]) for name in names if name in call.arguments), "")
