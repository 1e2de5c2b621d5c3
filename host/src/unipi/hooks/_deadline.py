"""Awaiting a plugin's coroutine within the hook's time budget."""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING

from anyio import CancelScope, current_time

from ._cancel import CancellationWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator

_ACTIVE: ContextVar[Deadline | None] = ContextVar("unipi_hook_deadline", default=None)


class BudgetSpentError(Exception):
    """An implementation was abandoned at its limit."""


class Deadline:
    """The time limit of one dispatch, renewed for each implementation that suspends.

    The scope is entered before a coroutine's first step, since scopes nest and the coroutine may
    open its own before it first suspends; its timer is set only when it does suspend. An
    implementation that outlives its limit is cancelled, and left alone if it heeds that: one that
    shields itself or swallows every cancellation cannot be stopped from outside.
    """

    __slots__ = (
        "_budget",
        "_clock",
        "_held_ns",
        "_left",
        "_outer",
        "_paused_ns",
        "_pauses",
        "_scope",
        "_started_pause",
        "watch",
    )

    def __init__(self, budget: float, clock: Callable[[], int]) -> None:
        self._budget = budget
        self._clock = clock
        self._scope: CancelScope | None = None
        self._outer: Deadline | None = None
        self._left: float | None = None
        self._pauses = 0
        self._started_pause = 0
        self._held_ns: int | None = None
        self._paused_ns = 0
        self.watch = CancellationWatch()

    async def settle(self, awaitable: Awaitable[object]) -> object:
        """The value of `awaitable`; raises BudgetSpentError when it did not come in time."""
        scope = self._open()
        work = awaitable if isinstance(awaitable, CoroutineType) else _awaiting(awaitable)
        began = self._clock()
        try:
            waiting = work.send(None)
        except StopIteration as stop:
            return stop.value
        finally:
            self.held(self._clock() - began)
        self._arm()
        value: object = None
        failure: BaseException | None = None
        try:
            value = await _drive(work, waiting, self, self._clock)
        except BaseException as error:
            if self.watch.closing:
                raise
            failure = error
        self._left = None
        scope.deadline = math.inf
        try:
            if scope.cancel_called:
                failure = self._spent(failure)
            if self.watch.requested():
                # It may have been swallowed, or drowned in an exception group.
                await self.watch.deliver()
            if failure is not None:
                raise failure
            return value
        finally:
            failure = None

    def _open(self) -> CancelScope:
        if self._scope is None:
            self._scope = CancelScope()
            self._scope.__enter__()
            self._outer = _ACTIVE.get()
            _ACTIVE.set(self)
        return self._scope

    def close(self, passing: BaseException | None = None) -> bool:
        """Leave the scope, with the exception that is on its way; whether the scope took it."""
        if self._scope is None:
            return False
        scope, self._scope = self._scope, None
        _ACTIVE.set(self._outer)
        traceback = None if passing is None else passing.__traceback__
        return bool(scope.__exit__(None if passing is None else type(passing), passing, traceback))

    def _spent(self, failure: BaseException | None) -> BaseException:
        """Close the scope after its limit; the exception that this amounts to."""
        try:
            taken = self.close(failure)
        except BaseExceptionGroup as rest:  # our cancellation is out of it, the remainder is not
            taken, failure = False, rest
        ours = failure is None or taken or isinstance(failure, Exception)
        if not ours and failure is not None:
            return failure
        spent = BudgetSpentError(f"timed out after {self._budget:g} s")
        spent.__cause__ = None if taken else failure
        return spent

    def _arm(self) -> None:
        """Start the clock: the coroutine has suspended for the first time."""
        self._left = self._budget
        if not self._pauses and self._scope is not None:
            self._scope.deadline = current_time() + self._budget

    def pause(self) -> None:
        """Stop the clock while the host waits for the user."""
        self._pauses += 1
        if self._pauses == 1:
            self._started_pause = self._clock()
            if self._left is not None and self._scope is not None:
                self._left = self._scope.deadline - current_time()
                self._scope.deadline = math.inf

    def resume(self) -> None:
        """Go on with the time that was left."""
        self._pauses -= 1
        if self._pauses == 0:
            self._paused_ns += self._clock() - self._started_pause
            if self._left is not None and self._scope is not None:
                self._scope.deadline = current_time() + self._left

    def take_figures(self) -> tuple[int | None, int]:
        """How long the last implementation held the event loop, and waited for the user, in ns.

        The first is None when it did not come here; both are then reset.
        """
        figures = self._held_ns, self._paused_ns
        self._held_ns, self._paused_ns = None, 0
        return figures

    def held(self, ns: int) -> None:
        """One step of the coroutine took this long."""
        if self._held_ns is None or ns > self._held_ns:
            self._held_ns = ns

    @property
    def outer(self) -> Deadline | None:
        """The dispatch inside which this one runs."""
        return self._outer


@contextmanager
def budget_paused() -> Iterator[None]:
    """Let no hook's time run out inside: for host code that waits for the user's answer."""
    paused: list[Deadline] = []
    deadline = _ACTIVE.get()
    while deadline is not None:
        deadline.pause()
        paused.append(deadline)
        deadline = deadline.outer
    try:
        yield
    finally:
        for each in paused:
            each.resume()


async def _awaiting(awaitable: Awaitable[object]) -> object:
    return await awaitable


@coroutine
def _drive(
    work: Coroutine[object, object, object],
    waiting: object,
    deadline: Deadline,
    clock: Callable[[], int],
) -> Generator[object, object, object]:
    """Run `work`, which waits for `waiting`, to its end, and note how long each step takes."""
    thrown: BaseException | None = None
    sent: object = None
    while True:
        try:
            sent = yield waiting
        except GeneratorExit:
            deadline.watch.closing = True
            try:
                work.close()
            except Exception as error:
                raise GeneratorExit from error
            raise
        except BaseException as error:  # noqa: BLE001 - thrown into the coroutine below
            thrown = error
        began = clock()
        try:
            waiting = work.send(sent) if thrown is None else work.throw(thrown)
        except StopIteration as stop:
            return stop.value
        finally:
            sent = thrown = None
            deadline.held(clock() - began)
