"""One writer a session: a lock of the operating system, gone when its holder is, however it ends."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import orjson

from .errors import SessionError, SessionLocked
from .times import now_ms, to_iso

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PATIENCE = 20
"""How often, 10 ms apart, a loser looks for the name of a holder that has only just taken the lock."""


class Lock:
    """The right to write one session file."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Give the right back; more than once does no harm."""
        release, self._release = self._release, None
        if release is not None:
            release()


def lock_path(path: Path) -> Path:
    """Where the lock of a session file is; it stays when it is free."""
    return path.with_name(path.name + ".lock")


def acquire(path: Path) -> Lock:
    """Take the lock of a session file.

    Raises SessionLocked when another process, or another Session of this one, has it, and
    SessionError where the file system offers no lock.
    """
    file = lock_path(path)
    try:
        fd = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise SessionError(
            f"{file}: {error.strerror or error}; the session can be opened read-only"
        ) from None
    try:
        release = _take(file, fd)
    except OSError as error:
        os.close(fd)
        raise SessionError(
            f"{file} cannot be locked: {error.strerror or error}; open the session read-only"
        ) from None
    if release is None:
        os.close(fd)
        raise SessionLocked(path, *_holder(file))
    holder = orjson.dumps({"pid": os.getpid(), "started": to_iso(now_ms())}) + b"\n"
    # A full disk must not keep the owner out; losers are told less.
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, holder, 0)
    return Lock(release)


def _take(file: Path, fd: int) -> Callable[[], None] | None:
    """Lock without waiting; returns how to give the lock back, or None when somebody has it."""
    try:
        import fcntl
    except ImportError:
        return _take_elsewhere(file, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return lambda: os.close(fd)


def _take_elsewhere(file: Path, fd: int) -> Callable[[], None] | None:
    # Windows locks a range of bytes, which would keep losers from reading the holder's name:
    # the lock proper goes on a file next to it.
    from filelock import FileLock, Timeout

    lock = FileLock(f"{file}.os", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None

    def release() -> None:
        lock.release()
        os.close(fd)

    return release


def _holder(file: Path) -> tuple[int | None, str | None]:
    for attempt in range(_PATIENCE):
        if attempt:
            time.sleep(0.01)
        try:
            told = orjson.loads(file.read_bytes())
            pid, started = int(told["pid"]), str(told["started"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # the winner is between taking the lock and saying so
        if _alive(pid):
            return pid, started
    return None, None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
