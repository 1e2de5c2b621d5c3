"""Telling the host's cancellation from one that a plugin made up.

A cancelled anyio or trio scope is seen for as long as it lasts. A bare `task.cancel()` on asyncio
(what Ctrl-C does under `asyncio.run`) is delivered once and leaves a trace only in
`Task.cancelling()`, for which anyio has no equivalent: the one place where the host looks at
asyncio itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

if TYPE_CHECKING:
    import asyncio


class CancellationWatch:
    """Made in a task before a plugin's coroutine suspends, asked when it has ended.

    `closing` is set when the host's own coroutine is being closed meanwhile: Python gives each
    frame a GeneratorExit of its own, which looks like one that the plugin raised.
    """

    __slots__ = ("_before", "_task", "closing")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._before = 0
        self.closing = False
        if anyio.get_cancelled_exc_class().__module__.partition(".")[0] != "asyncio":
            return
        import asyncio

        self._task = asyncio.current_task()
        if self._task is not None and self._task.cancelling():
            # Requests that were delivered earlier are somebody's clean-up by now; one that is
            # still under way will be delivered during this dispatch and is to be seen as new.
            pending = anyio.get_current_task().has_pending_cancellation()
            self._before = 0 if pending else self._task.cancelling()

    def requested(self) -> bool:
        """Whether somebody cancelled this asyncio task meanwhile (trio's scopes tell by themselves)."""
        return self._task is not None and self._task.cancelling() > self._before

    async def deliver(self) -> None:
        """Raise the host's cancellation, if there is one, in the form its scopes recognise."""
        await checkpoint_if_cancelled()
        if not self.requested():
            return
        if anyio.get_current_task().has_pending_cancellation():
            await checkpoint()
        raise anyio.get_cancelled_exc_class()


def holds(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether `error` is a `kind`, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)


async def contain(error: BaseException, watch: CancellationWatch | None) -> None:
    """Return if a plugin's `error` is to be contained; raise what must pass.

    A KeyboardInterrupt, the closing of the host's own coroutine and the host's cancellation pass.
    All else is the plugin's: exceptions and groups of them, SystemExit, GeneratorExit, other
    BaseExceptions, and a cancellation that nobody asked for. `watch` is None when nothing
    suspended, so that no cancellation can have arrived.
    """
    if watch is not None and watch.closing:
        raise error
    if isinstance(error, Exception):
        return
    if holds(error, KeyboardInterrupt):
        raise error
    if holds(error, anyio.get_cancelled_exc_class()):
        await (checkpoint_if_cancelled() if watch is None else watch.deliver())
