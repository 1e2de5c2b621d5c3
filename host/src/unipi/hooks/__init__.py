"""Hooks: one event through its implementations, in order, isolated, attributed and timed.

pluggy holds and validates the implementations; `compile_hooks` freezes them into plans once, and
the host calls the typed methods of `Hooks`, never pluggy, for an event.
"""

from ._compile import compile_hooks
from ._current import acting_as, current_hook, current_plugin
from ._deadline import budget_paused
from ._facade import Hooks
from ._types import Decision, Failure, FailureKind, PluginStats, Start

__all__ = [
    "Decision",
    "Failure",
    "FailureKind",
    "Hooks",
    "PluginStats",
    "Start",
    "acting_as",
    "budget_paused",
    "compile_hooks",
    "current_hook",
    "current_plugin",
]
