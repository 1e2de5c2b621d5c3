"""Talking to a user who is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from .notices import Notice, nobody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .notices import Observer


@frozen
class SilentUI:
    """Answers every question with its neutral value and passes notices on."""

    observer: Observer = nobody

    @property
    def interactive(self) -> bool:
        return False

    async def confirm(self, question: str, *, default: bool = False) -> bool:
        return default

    async def select(self, question: str, options: Sequence[str]) -> str | None:
        return None

    async def input(self, question: str, *, default: str = "") -> str | None:
        return None

    def notify(self, text: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        self.observer(Notice(level, text))
