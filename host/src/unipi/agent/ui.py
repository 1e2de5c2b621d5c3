"""Talking to the user, there or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from unipi.hooks import budget_paused

from .notices import Notice, nobody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import UI

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


@frozen
class PatientUI:
    """Another UI, whose user may take their time: no plugin's budget runs while they think."""

    inner: UI

    @property
    def interactive(self) -> bool:
        return self.inner.interactive

    async def confirm(self, question: str, *, default: bool = False) -> bool:
        with budget_paused():
            return await self.inner.confirm(question, default=default)

    async def select(self, question: str, options: Sequence[str]) -> str | None:
        with budget_paused():
            return await self.inner.select(question, options)

    async def input(self, question: str, *, default: str = "") -> str | None:
        with budget_paused():
            return await self.inner.input(question, default=default)

    def notify(self, text: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        self.inner.notify(text, level=level)
