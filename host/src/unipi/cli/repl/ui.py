"""`ctx.ui` at the prompt: one question at a time, answered by a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import anyio
from attrs import Factory, frozen

from unipi.agent import Notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi.agent.notices import Observer

    from .console import Console

_TRIES = 3
"""Answers that make no sense before a question counts as unanswered."""


@frozen
class AskingUI:
    """Implements `unipi_hookspecs.UI`; no answer is each question's neutral value."""

    console: Console
    observer: Observer
    _one: anyio.Lock = Factory(anyio.Lock)

    @property
    def interactive(self) -> bool:
        return self.console.interactive

    async def confirm(self, question: str, *, default: bool = False) -> bool:
        """Yes or no; an empty line is the default."""
        async with self._one:
            for _ in range(_TRIES):
                answer = await self.console.ask(f"{question} [{'Y/n' if default else 'y/N'}]")
                word = (answer or "").strip().lower()
                if not word:
                    return default
                if word in ("y", "yes", "n", "no"):
                    return word.startswith("y")
            return default

    async def select(self, question: str, options: Sequence[str]) -> str | None:
        """One of the options, by its number, its text, or the start of it that no other has."""
        if not options or not self.interactive:
            return None
        async with self._one:
            width = len(str(len(options)))
            for number, option in enumerate(options, 1):
                self.console.write(f"  {number:>{width}}  {' '.join(option.split())}")
            for _ in range(_TRIES):
                answer = await self.console.ask(f"{question} [1-{len(options)}]")
                if answer is None or not answer.strip():
                    return None
                chosen = chosen_of(answer.strip(), options)
                if chosen is not None:
                    return chosen
            return None

    async def input(self, question: str, *, default: str = "") -> str | None:
        """A line of the user's own."""
        async with self._one:
            return await self.console.ask(question, default=default)

    def notify(self, text: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        """Say something; nobody waits."""
        self.observer(Notice(level, text))


def chosen_of(answer: str, options: Sequence[str]) -> str | None:
    """The option that an answer means, or None. An option that is a number goes before a number."""
    if answer in options:
        return answer
    if answer.isascii() and answer.isdigit() and len(answer) < 10:
        number = int(answer)
        return options[number - 1] if 1 <= number <= len(options) else None
    starting = [option for option in options if option.startswith(answer)]
    return starting[0] if len(starting) == 1 else None
