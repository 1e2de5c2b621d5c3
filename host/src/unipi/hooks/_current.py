"""Which plugin is running, and in which hook."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# The plugin and the hook, made once for each implementation and set for each call. Not one cell a
# dispatch: a task that a plugin starts copies its context, and must go on carrying that plugin's
# name when the dispatch has moved on.
Running: TypeAlias = tuple[str | None, str | None]
CURRENT: ContextVar[Running] = ContextVar("unipi_running", default=(None, None))


def current_hook() -> str | None:
    """The name of the hook that is being dispatched in this task, or None outside one."""
    return CURRENT.get()[1]


def current_plugin() -> str | None:
    """The name of the plugin whose code is running in this task, or None for the host's own."""
    return CURRENT.get()[0]


@contextmanager
def acting_as(plugin: str | None) -> Iterator[None]:
    """Attribute what runs inside to `plugin`: its tools, commands and background tasks."""
    outer = CURRENT.get()
    CURRENT.set((plugin, outer[1]))
    try:
        yield
    finally:
        CURRENT.set(outer)
