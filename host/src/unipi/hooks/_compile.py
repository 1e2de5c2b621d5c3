"""From a plugin manager to the façade."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import evolve

from unipi_hookspecs import POLICIES

from ._facade import Hooks
from ._plan import compile_plans
from ._record import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pluggy

    from unipi_hookspecs import Context

    from ._types import Failure


def compile_hooks(
    manager: pluggy.PluginManager,
    *,
    contexts: Callable[[str], Context] | None = None,
    report: Callable[[Failure], None] | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    budgets: Mapping[str, float] | None = None,
) -> Hooks:
    """Freeze what `manager` holds into plans; plugins that it registers later are not called.

    `contexts` gives the context of a plugin by its name, now or later through `bind`. `report` is
    told of each kind of failure of a plugin's hook once. `clock` counts nanoseconds. `budgets`
    are seconds by hook name, in place of what the specs say. Raises ValueError when the manager
    lacks the hook specifications.
    """
    recorder = Recorder(report)
    limits = budgets or {}
    policies = {
        hook: evolve(policy, budget=limits.get(hook, policy.budget))
        for hook, policy in POLICIES.items()
    }
    return Hooks(compile_plans(manager, recorder), policies, recorder, clock, contexts)
