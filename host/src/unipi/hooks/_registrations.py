"""Asking plugins, once, for what they register."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ._cancel import holds
from ._current import acting_as
from ._folds import is_list_of, refuse
from ._record import COUNT, NOTABLE, TOTAL, describe
from ._walk import WrongReturnError

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi_hookspecs import LoadContext

    from ._plan import Implementation, Plan

T = TypeVar("T")


def collect(
    plan: Plan,
    implementations: tuple[Implementation, ...],
    contexts: Callable[[str], LoadContext],
    kind: type[T],
) -> list[tuple[str, T]]:
    """What each plugin registers through one hook, in plugin order, with the plugin's name.

    A plugin that fails or returns something else registers nothing here, and is reported. Only a
    KeyboardInterrupt passes. Needs no event loop.
    """
    found: list[tuple[str, T]] = []
    hook, clock, recorder = plan.policy.name, plan.clock, plan.recorder
    for each in implementations:
        ctx = contexts(each.plugin)
        before = clock()
        try:
            with acting_as(each.plugin):
                items = _items(each.call(None, ctx), kind)
        except BaseException as error:
            if holds(error, KeyboardInterrupt):
                raise
            elapsed = clock() - before
            if isinstance(error, WrongReturnError):
                recorder.fail(each.plugin, hook, "returned", str(error), elapsed_ns=elapsed)
            else:
                recorder.fail(
                    each.plugin,
                    hook,
                    "raised",
                    f"raised {describe(error)}",
                    elapsed_ns=elapsed,
                    exception=error,
                )
        else:
            found.extend((each.plugin, item) for item in items)
        elapsed = clock() - before
        each.row[COUNT] += 1
        each.row[TOTAL] += elapsed
        if elapsed > each.row[NOTABLE]:
            # No event loop waits for this one, so that only the budget matters.
            held = elapsed if elapsed > plan.policy.budget * 1e9 else 0
            recorder.took_long(
                each.plugin, hook, plan.policy.budget, elapsed_ns=elapsed, held_ns=held
            )
    return found


def _items(value: object, kind: type[T]) -> list[T]:
    if value is None:
        return []
    if hasattr(type(value), "__await__"):
        close = getattr(value, "close", None)
        if close is not None:
            close()  # else Python warns that it was never awaited
        raise WrongReturnError("is async; a registration hook must be a plain def")
    if not isinstance(value, (list, tuple)) or not is_list_of(value, kind):
        culprit = value
        if isinstance(value, (list, tuple)):
            culprit = next(item for item in value if not isinstance(item, kind))
        raise refuse(culprit, f"a list of {kind.__name__}")
    return list(value)
