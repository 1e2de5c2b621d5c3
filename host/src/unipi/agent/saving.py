"""Everything is on disk before a request goes out; a disk that is full pauses the turn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

from unipi.session import SessionWriteError

from .notices import Notice, Saved

if TYPE_CHECKING:
    from unipi.session import Session

    from .notices import Observer


class AgentError(Exception):
    """The run cannot go on; the text says why and what to do."""


class Saver:
    """Puts a session on disk, waiting `wait` seconds for room where there is none."""

    def __init__(self, session: Session, wait: float) -> None:
        self._session = session
        self._wait = wait
        self._full_since: float | None = None

    async def save(self, tell: Observer) -> None:
        """Put everything on disk; `tell` hears at once when that has to wait.

        Raises AgentError when the disk stays full; from then on each call tries once, until one
        succeeds.
        """
        while True:
            try:
                self._session.sync()
            except SessionWriteError as error:
                if self._full_since is None:
                    self._full_since = time.monotonic()
                    tell(Notice("error", f"not saved: {error}; waiting to try again"))
                if time.monotonic() > self._full_since + self._wait:
                    raise AgentError(
                        f"not saved: {error}. Free some space and run again; "
                        "what was not saved is lost"
                    ) from error
                await anyio.sleep(0.25)
            else:
                self._saved(tell)
                return

    def save_now(self, tell: Observer) -> None:
        """Put everything on disk, or raise SessionWriteError; `save` waits for room then."""
        self._session.sync()
        self._saved(tell)

    def _saved(self, tell: Observer) -> None:
        if self._full_since is not None:
            self._full_since = None
            tell(Notice("info", "saved; going on"))
        tell(Saved(self._session.leaf_id))
