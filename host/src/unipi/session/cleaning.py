"""Removing sessions that nobody has written for a long time.

Only what the host itself made is ever touched: a session file in a folder of the sessions' root that
begins with a session's header, and the files that stand beside it under its name. A session in use
is left alone, and so is everything else.
"""

from __future__ import annotations

import shutil
import stat
from typing import TYPE_CHECKING

import orjson
from attrs import frozen

from .errors import SessionError
from .listing import sessions_root
from .lock import acquire, lock_path
from .secret import secret_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_FIRST_LINE = 64 * 1024


@frozen
class Old:
    """A session file that may go, its size with all that belongs to it in bytes."""

    path: Path
    size: int
    modified: float


def old_sessions(before: float, only: Sequence[Path] = ()) -> list[Old]:
    """Sessions last written before a time (seconds since 1970), the oldest first.

    `only` narrows them to these files. Raises SessionError for one that is no session of the root.
    """
    root = sessions_root()
    for path in only:
        if path.resolve().parent.parent != root.resolve() or not _is_session(path):
            raise SessionError(f"{path} is no session file in {root}; nothing was removed")
    found = only or (sorted(root.glob("*/*.jsonl")) if root.is_dir() else ())
    old = [
        Old(path, sum(_size(part) for part in (path, *_beside(path))), path.stat().st_mtime)
        for path in found
        if _is_session(path) and path.stat().st_mtime < before
    ]
    return sorted(old, key=lambda each: (each.modified, str(each.path)))


def remove(session: Old) -> bool:
    """Remove a session and what belongs to it; False when somebody has it open.

    Raises OSError when the file system refuses.
    """
    try:
        lock = acquire(session.path)
    except SessionError:
        return False
    try:
        for part in (*_beside(session.path), session.path):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
    finally:
        lock.release()
        lock_path(session.path).unlink(missing_ok=True)
    return True


def _beside(path: Path) -> Iterator[Path]:
    for part in (secret_path(path), path.with_suffix(".artifacts")):
        if part.is_symlink() or part.exists():
            yield part


def _size(path: Path) -> int:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    return sum(each.lstat().st_size for each in path.rglob("*"))


def _is_session(path: Path) -> bool:
    """Whether a file, not a link, begins with the header of a session."""
    try:
        if path.suffix != ".jsonl" or not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            header = orjson.loads(file.readline(_FIRST_LINE))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and header.get("type") == "session" and "id" in header
