"""Changing state goes to the tail: superseding snapshots, appended only when they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from unipi.prefix.canonical import repair
from unipi.redaction import scrub
from unipi_hookspecs import CustomMessage, SummaryMessage, Text

from .pictures import fit_picture
from .verbs import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from unipi_hookspecs import Deliver, Message, UserContent

    from .queues import Queues


class Tail:
    """Where plugins' messages enter the history: queued while a run is active, else at once."""

    def __init__(
        self,
        queues: Queues,
        running: Callable[[], bool],
        append: Callable[[Message], Awaitable[Message]],
        wake: Callable[[], Awaitable[None]],
    ) -> None:
        self._queues = queues
        self._running = running
        self._append = append
        self._wake = wake
        self._live: dict[str, str | tuple[UserContent, ...]] = {}

    def remember(self, messages: Iterable[Message]) -> None:
        """Take the live snapshots from a branch; a compaction ends them."""
        self._live.clear()
        for message in messages:
            if isinstance(message, CustomMessage):
                self._live[message.custom_type] = _frozen(message.content)
            elif isinstance(message, SummaryMessage):
                self._live.clear()

    async def add(
        self, message: CustomMessage, supersedes: bool, deliver: Deliver, trigger_turn: bool
    ) -> bool:
        """Append or queue a message; False when it equals the live one of its type."""
        message = evolve(message, content=repaired(message.content))
        if supersedes:
            message = evolve(message, content=_superseding(message), verb=SYSTEM)
        if not self.is_news(message) and supersedes:
            return False
        if deliver == "next_turn":
            self._queues.next_turn.append(message)
        elif self._running():
            queue = self._queues.follow_up if deliver == "follow_up" else self._queues.steer
            queue.append((message, trigger_turn))
        elif trigger_turn:
            self._queues.steer.append((message, True))
            await self._wake()
        else:
            await self._append(message)
        return True

    def is_news(self, message: CustomMessage) -> bool:
        """Whether a message says something else than the live one of its type; it is live now."""
        content = _frozen(message.content)
        news = self._live.get(message.custom_type) != content
        self._live[message.custom_type] = content
        return news


def _superseding(message: CustomMessage) -> str | Sequence[UserContent]:
    head = f"[{message.custom_type}] This replaces every earlier [{message.custom_type}]."
    if isinstance(message.content, str):
        return f"{head}\n{message.content}"
    return (Text(head), *message.content)


def repaired(content: str | Sequence[UserContent]) -> str | Sequence[UserContent]:
    """Content without lone surrogates, as it may enter the history."""
    if isinstance(content, str):
        return scrub(repair(content))
    return tuple(
        evolve(part, text=scrub(repair(part.text))) if isinstance(part, Text) else fit_picture(part)
        for part in content
    )


def _frozen(content: str | Sequence[UserContent]) -> str | tuple[UserContent, ...]:
    return content if isinstance(content, str) else tuple(content)
