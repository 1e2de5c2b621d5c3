"""What can go wrong with a session file, and what was found damaged in one.

SessionError
├── SessionLocked       another process writes this file
└── SessionWriteError   entries could not be put on disk; they are kept and can be tried again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from pathlib import Path


class SessionError(Exception):
    """A session file cannot be used as asked; the message names the file and the way out."""


class SessionLocked(SessionError):  # noqa: N818 - the name reads as what happened, as in sqlite3
    """Another process writes this session.

    `pid` and `started` (ISO time at which the holder took the lock) are None when the holder has
    not said.
    """

    def __init__(self, path: Path, pid: int | None, started: str | None) -> None:
        self.path = path
        self.pid = pid
        self.started = started
        holder = f"process {pid} since {started}" if pid is not None else "another process"
        super().__init__(
            f"{path} is being written by {holder}; fork it (`unipi run --fork {path}`), or read it"
            " (`unipi sessions show`)"
        )


class SessionWriteError(SessionError):
    """Entries could not be put on disk. They are kept: free the cause and call `sync` again.

    `unsaved` counts the entries that are not on disk.
    """

    def __init__(self, path: Path, reason: str, unsaved: int) -> None:
        self.path = path
        self.reason = reason
        self.unsaved = unsaved
        entries = "1 entry is" if unsaved == 1 else f"{unsaved} entries are"
        super().__init__(f"{path} could not be written: {reason}; {entries} not saved yet")


@frozen
class Damage:
    """Something in a session file that could not be used.

    `offset` is where it begins, in bytes. `moved_to` is the file that a torn tail was set aside
    to, or None when the bytes stay where they are.
    """

    offset: int
    reason: str
    moved_to: Path | None = None

    def __str__(self) -> str:
        aside = f"; set aside to {self.moved_to}" if self.moved_to is not None else ""
        return f"damage at byte {self.offset}: {self.reason}{aside}"
