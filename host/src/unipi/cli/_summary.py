"""What `unipi run` shows while it works and when it is done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from attrs import define, field

from unipi.agent import Notice
from unipi.cli._output import print_json_line
from unipi.redaction import scrub
from unipi_hookspecs import (
    EpochBoundaryEvent,
    MessageEndEvent,
    MessageUpdateEvent,
    ProviderResponseEndEvent,
    ToolExecutionEndEvent,
    ToolExecutionStartEvent,
)

from ._events import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unipi.hooks import Failure, PluginStats
    from unipi.session import Session
    from unipi_hookspecs import Boundary, Model


@define
class Totals:
    """What a plugin's hooks have cost: `ms` of wall time, `slow` calls that held the event loop."""

    calls: int = 0
    errors: int = 0
    ms: float = 0.0
    slow: int = 0


def totals(stats: Iterable[PluginStats]) -> dict[str, Totals]:
    """Figures of each plugin's hooks added up, for the plugins that were called."""
    found: dict[str, Totals] = {}
    for row in stats:
        if row.count or row.errors:
            total = found.setdefault(row.plugin, Totals())
            total.calls += row.count
            total.errors += row.errors
            total.ms += row.total_ns / 1e6
            total.slow += row.slow
    return found


class Voice(Protocol):
    """A way of telling: for people or for programs."""

    def begin(self, session: Session, model: Model) -> None: ...
    def event(self, event: object) -> None: ...
    def reply(self, text: str) -> None: ...
    def end(
        self, summary: Summary, session: Session, code: int, plugins: Mapping[str, Totals]
    ) -> None: ...


@define
class Summary:
    """An observer that counts requests, tokens and boundaries, and passes all on to a voice."""

    voice: Voice
    requests: int = 0
    prompt_tokens: int = 0
    read_tokens: int = 0
    reported_tokens: int = 0
    cost: float = 0.0
    boundaries: list[Boundary] = field(factory=list)

    def __call__(self, event: object) -> None:
        if isinstance(event, ProviderResponseEndEvent) and event.usage is not None:
            self.requests += 1
            self.prompt_tokens += event.usage.prompt
            if event.usage.cache_read is not None:  # the others say nothing, which is no miss
                self.reported_tokens += event.usage.prompt
                self.read_tokens += event.usage.cache_read
            self.cost += event.usage.cost.total if event.usage.cost else 0.0
        elif isinstance(event, EpochBoundaryEvent):
            self.boundaries.append(event.boundary)
        self.voice.event(event)

    @property
    def share(self) -> float | None:
        """Tokens read over prompt tokens, of the answers that report it; None where none does."""
        return self.read_tokens / self.reported_tokens if self.reported_tokens else None

    def begin(self, session: Session, model: Model) -> None:
        self.voice.begin(session, model)

    def failed(self, failure: Failure) -> None:
        self.voice.event(Notice("warning", str(failure), failure.plugin))

    def problem(self, text: str) -> None:
        self.voice.event(Notice("warning", text))

    def reply(self, text: str) -> None:
        self.voice.reply(text)

    def end(self, session: Session, code: int, stats: Iterable[PluginStats] = ()) -> None:
        self.voice.end(self, session, code, totals(stats))


class JsonLines:
    """One JSON object a line on standard output."""

    def begin(self, session: Session, model: Model) -> None:
        print_json_line(
            {
                "type": "session",
                "id": session.id,
                "path": str(session.path) if session.path else None,
                "cwd": str(session.cwd),
                "model": model.name,
            }
        )

    def event(self, event: object) -> None:
        line = to_json(event)
        if line is not None:
            print_json_line(line)

    def reply(self, text: str) -> None:
        print_json_line({"type": "reply", "text": text})

    def end(
        self, summary: Summary, session: Session, code: int, plugins: Mapping[str, Totals]
    ) -> None:
        print_json_line(
            {
                "type": "end",
                "exit_code": code,
                "requests": summary.requests,
                "prompt_tokens": summary.prompt_tokens,
                "cache_read_tokens": summary.read_tokens if summary.reported_tokens else None,
                "read_share": summary.share,
                "cost": summary.cost,
                "epochs": len(summary.boundaries),
                "avoidable": sum(b.avoidable for b in summary.boundaries),
                "unsaved": session.unsaved,
                "plugins": {
                    name: {
                        "calls": total.calls,
                        "errors": total.errors,
                        "ms": round(total.ms, 3),
                        "slow": total.slow,
                    }
                    for name, total in plugins.items()
                },
            }
        )


class PlainText:
    """The answer on standard output as it streams; everything else on standard error."""

    def __init__(self) -> None:
        self._open_line = False

    def begin(self, session: Session, model: Model) -> None:
        pass

    def event(self, event: object) -> None:
        match event:
            case MessageUpdateEvent(kind="text"):
                sys.stdout.write(printable(event.delta))
                sys.stdout.flush()
                self._open_line = not event.delta.endswith("\n")
            case MessageEndEvent():
                self._close_line()
            case ToolExecutionStartEvent():
                self._aside(f"· {event.tool_name} {_brief(event.args)}")
            case ToolExecutionEndEvent(is_error=True):
                self._aside(f"  {event.tool_name} failed")
            case EpochBoundaryEvent() if event.boundary.number > 1:
                boundary = event.boundary
                self._aside(
                    f"cache boundary {boundary.number}: {boundary.cause}, by {boundary.owner}, "
                    f"{boundary.tokens_lost:,} tokens lost"
                )
            case Notice():
                self._aside(f"{event.level}: {event.text}")

    def reply(self, text: str) -> None:
        sys.stdout.write(f"{printable(text)}\n")

    def end(
        self, summary: Summary, session: Session, code: int, plugins: Mapping[str, Totals]
    ) -> None:
        self._close_line()
        share = "not reported" if summary.share is None else f"{summary.share:.1%}"
        many = "" if summary.requests == 1 else "s"
        self._aside(
            f"{summary.requests} request{many}, {summary.prompt_tokens:,} prompt tokens, "
            f"{share} read from cache, ${summary.cost:.4f}"
        )
        avoidable = [b for b in summary.boundaries if b.avoidable]
        if avoidable:
            lost = sum(b.tokens_lost for b in avoidable)
            owners = ", ".join(sorted({b.owner for b in avoidable}))
            price = sum(b.price or 0.0 for b in avoidable)
            many = "boundary" if len(avoidable) == 1 else "boundaries"
            self._aside(
                f"avoidable: {len(avoidable)} {many}, {lost:,} tokens (${price:.4f}), by {owners}; "
                f"`unipi cache report {session.path or 'SESSION'}` says where"
            )
        for name, total in plugins.items():
            if total.slow:
                self._aside(
                    f"slow: plugin {name!r} held everything up in {total.slow} of {total.calls} "
                    f"calls, {total.ms:,.0f} ms in all"
                )
        if session.path is not None and not session.unsaved:
            self._aside(f"to go on: unipi run --session {session.path} -p …")

    def _aside(self, text: str) -> None:
        self._close_line()
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()

    def _close_line(self) -> None:
        if self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open_line = False


def printable(text: str) -> str:
    """Text from outside without the control characters that could drive a terminal."""
    text = scrub(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _brief(args: object) -> str:
    text = " ".join(f"{value}" for value in args.values()) if isinstance(args, dict) else ""
    line = text.replace("\n", " ")
    return line if len(line) <= 100 else f"{line[:99]}…"
