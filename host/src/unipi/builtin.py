"""The host's own features, registered through the hooks that everybody uses."""

from __future__ import annotations

ESSENTIAL = frozenset({"models"})
"""Built-in plugins without which no session can run."""


def builtin_plugins() -> tuple[tuple[str, object], ...]:
    """Name and module of each, in no particular order: the loader makes the order."""
    from unipi.providers import plugin as models
    from unipi.tools import plugin as tools

    return (("models", models), ("tools", tools))
