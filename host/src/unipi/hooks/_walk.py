"""Walking a plan: one event through its implementations, isolated, attributed and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ._cancel import contain, holds
from ._current import CURRENT
from ._deadline import BudgetSpentError, Deadline
from ._record import COUNT, NOTABLE, TOTAL, describe

if TYPE_CHECKING:
    from ._plan import Plan
    from ._types import Failure, FailureKind


class WrongReturnError(Exception):
    """A plugin returned something that the hook has no use for."""


class Fold(Protocol):
    """What a hook does with what its implementations return."""

    @property
    def event(self) -> object:
        """The event for the next implementation."""

    def take(self, plugin: str, value: object) -> bool:
        """Use a value that is not None; whether to stop. Raises WrongReturnError to refuse it."""

    def failed(self, failure: Failure) -> bool:
        """An implementation failed; whether to stop."""


async def walk(plan: Plan, event: object, fold: Fold) -> None:
    """Call the implementations in order, in this task, until `fold` has heard enough.

    What a plugin raises or returns amiss is counted and reported, and the walk goes on with the
    event as it was. What the host's own code in `fold` raises passes, as do a KeyboardInterrupt
    and the host's cancellation.
    """
    enter = CURRENT.set
    clock = plan.clock
    outer = CURRENT.get()
    deadline: Deadline | None = None
    passing: BaseException | None = None
    try:
        before = clock()
        for call, ctx, running, row in plan.steps:
            enter(running)
            error: BaseException | None = None
            try:
                value = call(event, ctx)
                if value is not None and hasattr(type(value), "__await__"):
                    if deadline is None:
                        deadline = Deadline(plan.policy.budget, clock)
                    value = await deadline.settle(value)  # type: ignore[arg-type]  # it has __await__
            except BaseException as caught:  # noqa: BLE001 - `contain` raises what must pass
                await contain(caught, None if deadline is None else deadline.watch)
                error, value = caught, None
            now = clock()
            elapsed = now - before
            before = now
            row[COUNT] += 1
            if deadline is not None or elapsed > row[NOTABLE]:
                elapsed = _look_closer(plan, running[0], row, elapsed, deadline)
            row[TOTAL] += elapsed
            if error is None and value is None:
                continue
            if _outcome(plan, fold, running[0], value, error, elapsed):
                break
            event = fold.event
            before = clock()
    except BaseException as caught:
        passing = caught
        raise
    finally:
        enter(outer)
        if deadline is not None:
            deadline.close(passing)
        del passing


def _look_closer(
    plan: Plan, plugin: str, row: list[int], elapsed: int, deadline: Deadline | None
) -> int:
    """Note a call that may be slow; returns its time without what it waited for the user."""
    held: int | None = None
    if deadline is not None:
        held, paused = deadline.take_figures()
        elapsed -= paused
    if elapsed > row[NOTABLE]:
        plan.recorder.took_long(
            plugin,
            plan.policy.name,
            plan.policy.budget,
            elapsed_ns=elapsed,
            held_ns=elapsed if held is None else held,
        )
    return elapsed


def _outcome(
    plan: Plan, fold: Fold, plugin: str, value: object, error: BaseException | None, elapsed: int
) -> bool:
    """Hand a value to `fold`, or the failure that it or `error` amounts to; whether to stop."""
    kind: FailureKind
    if error is None:
        try:
            return fold.take(plugin, value)
        except WrongReturnError as wrong:
            kind, text = "returned", str(wrong)
    elif isinstance(error, BudgetSpentError):
        kind, text = "timed_out", str(error)
        error = error.__cause__
    elif _is_cancellation(error):
        kind, text = "cancelled", f"raised {describe(error)}, though nobody cancelled it"
    else:
        kind, text = "raised", f"raised {describe(error)}"
    failure = plan.recorder.fail(
        plugin, plan.policy.name, kind, text, elapsed_ns=elapsed, exception=error
    )
    return fold.failed(failure)


def _is_cancellation(error: BaseException) -> bool:
    from anyio import get_cancelled_exc_class

    return not isinstance(error, Exception) and holds(error, get_cancelled_exc_class())
