"""What the agent tells whoever runs it: hook events as they are, and notices of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable


@frozen
class Notice:
    """Something a person should know; `plugin` is who it is about, if anybody."""

    level: Literal["info", "warning", "error"]
    text: str
    plugin: str | None = None


@frozen
class Saved:
    """Every entry up to `entry_id` is on disk."""

    entry_id: str | None


@frozen
class Compacted:
    """How an attempt to compact ended; unless it was "applied", everything is as it was.

    `why` is "manual", "threshold" or "overflow"; tokens are estimates.
    """

    status: Literal["applied", "skipped", "failed", "cancelled"]
    why: str
    reason: str = ""
    plugin: str | None = None
    entry_id: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0


Observer: TypeAlias = "Callable[[object], None]"


def nobody(_: object) -> None:
    """An observer that looks away."""
