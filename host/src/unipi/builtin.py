"""The host's own features, registered through the hooks that everybody uses."""

from __future__ import annotations

ESSENTIAL = frozenset({"models"})
"""Built-in plugins without which no session can run."""


def builtin_plugins(*, resources: bool = True) -> tuple[tuple[str, object], ...]:
    """Name and module of each, in no particular order: the loader makes the order.

    Without `resources` no instruction file or skill of the machine is read: for tests and replays.
    """
    from unipi.providers import plugin as models
    from unipi.tools import plugin as tools

    found: tuple[tuple[str, object], ...] = (("models", models), ("tools", tools))
    if resources:
        from unipi.resources import plugin as files

        found = (*found, ("resources", files))
    return found
