"""What the prompt shows of a run: the answer as it comes, a line for each call and each result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

from unipi.agent import Compacted, Notice
from unipi_hookspecs import (
    AssistantMessage,
    CustomMessage,
    EpochBoundaryEvent,
    MessageEndEvent,
    MessageUpdateEvent,
    Text,
    ToolExecutionEndEvent,
    ToolExecutionStartEvent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.cli._summary import Summary, Totals
    from unipi.session import Session
    from unipi_hookspecs import Boundary, Model, UserContent

    from .console import Console

_BRIEF = 100
"""Characters of a call's arguments that its line shows."""


@frozen
class Shown:
    """A call and its result, for whoever wants to see all of it."""

    name: str
    args: Mapping[str, object]
    text: str


@define
class Transcript:
    """The voice of the prompt: implements `unipi.cli._summary.Voice`."""

    console: Console
    last: Shown | None = None
    _calls: dict[str, Mapping[str, object]] = Factory(dict)
    _thinking: bool = False

    def begin(self, session: Session, model: Model) -> None:
        """Nothing: the shell says where it is."""

    def reply(self, text: str) -> None:
        self.console.write(text, "answer")

    def end(
        self, summary: Summary, session: Session, code: int, plugins: Mapping[str, Totals]
    ) -> None:
        """Nothing: the status has said it."""

    def event(self, event: object) -> None:
        """Show one event, or pass it over."""
        console = self.console
        match event:
            case MessageUpdateEvent(kind="text"):
                console.stream(event.delta)
            case MessageUpdateEvent(kind="thinking") if not self._thinking:
                self._thinking = True
                console.write("· thinking")
            case MessageEndEvent():
                self._message(event.message)
            case ToolExecutionStartEvent():
                self._calls[event.tool_call_id] = event.args
                console.write(f"· {event.tool_name} {brief(event.args)}")
            case ToolExecutionEndEvent():
                self._result(event)
            case EpochBoundaryEvent() if event.boundary.number > 1:
                console.write(
                    told(event.boundary), "warning" if event.boundary.avoidable else "aside"
                )
            case Compacted(status="applied") if event.why != "manual":
                sizes = f"about {event.tokens_before:,} tokens before, {event.tokens_after:,} now"
                console.write(f"compacted ({event.why}): {sizes}")
            case Notice():
                owner = f"{event.plugin}: " if event.plugin else ""
                kind = "aside" if event.level == "info" else event.level
                console.write(f"{owner}{event.text}", kind)
        console.refresh()

    def _message(self, message: object) -> None:
        self.console.end_stream()
        if isinstance(message, AssistantMessage):
            self._thinking = False
        elif isinstance(message, CustomMessage) and message.display:
            self.console.write(_text(message.content))

    def _result(self, event: ToolExecutionEndEvent) -> None:
        text = _text(event.result)
        self.last = Shown(event.tool_name, self._calls.pop(event.tool_call_id, {}), text)
        seconds = f"{event.duration_ms / 1000:.1f} s"
        if event.is_error:
            why = brief({"text": text})
            self.console.write(f"  └ {event.tool_name} failed ({seconds}): {why}", "warning")
        else:
            lines = len(text.splitlines())
            many = "line" if lines == 1 else "lines"
            self.console.write(f"  └ {event.tool_name}: {lines:,} {many}, {seconds}")

    def expanded(self) -> str:
        """The last call and its result, in full."""
        if self.last is None:
            return "no tool has been called yet"
        shown = self.last
        given = "\n".join(f"  {name}: {value}" for name, value in shown.args.items())
        return "\n".join(part for part in (f"· {shown.name}", given, shown.text) if part)


def told(boundary: Boundary) -> str:
    """A boundary in a line, with its cause, its owner and what it cost."""
    avoidable = ", avoidable" if boundary.avoidable else ""
    price = f" (${boundary.price:.4f})" if boundary.price else ""
    return (
        f"cache boundary {boundary.number}: {boundary.cause}, by {boundary.owner}{avoidable}, "
        f"{boundary.tokens_lost:,} tokens lost{price}"
    )


def brief(args: Mapping[str, object]) -> str:
    """The arguments of a call in one short line."""
    line = " ".join(" ".join(f"{value}"[: 4 * _BRIEF].split()) for value in args.values())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"


def _text(content: str | Sequence[UserContent]) -> str:
    if isinstance(content, str):
        return content
    parts = (p.text if isinstance(p, Text) else f"({p.mime_type})" for p in content)
    return "\n".join(parts)
