"""Which plugin is running."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# One value an implementation, not one cell a dispatch: a task that a plugin starts copies its
# context, and must go on carrying that plugin's name when the dispatch has moved on.
CURRENT: ContextVar[str | None] = ContextVar("unipi_current_plugin", default=None)


def current_plugin() -> str | None:
    """The name of the plugin whose code is running in this task, or None for the host's own."""
    return CURRENT.get()


@contextmanager
def acting_as(plugin: str | None) -> Iterator[None]:
    """Attribute what runs inside to `plugin`: its tools, commands and background tasks."""
    outer = CURRENT.get()
    CURRENT.set(plugin)
    try:
        yield
    finally:
        CURRENT.set(outer)
