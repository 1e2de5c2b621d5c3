"""Putting lines into a session file, and on disk.

A line is handed to the operating system at once, so that it survives the end of the process, and
kept until a sync has put it on disk, so that it survives a full or failing disk.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from .errors import SessionError, SessionWriteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_fdatasync = getattr(os, "fdatasync", os.fsync)
"""macOS and Windows have no fdatasync."""

_APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, readable by their owner alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Put a folder's list of names on disk, where the system can."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders
    try:
        os.fsync(fd)
    except OSError:
        pass  # some file systems refuse it; the file itself has been synced
    finally:
        os.close(fd)


def create_file(path: Path) -> int:
    """Create a file that must not exist, for appending, readable by its owner alone."""
    return os.open(path, _APPEND | os.O_CREAT | os.O_EXCL, 0o600)


def open_file(path: Path) -> int:
    """Open an existing file for appending."""
    return os.open(path, _APPEND)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def set_aside(path: Path, offset: int, torn: bytes) -> Path:
    """Move the bytes from `offset` on to a file next to `path`; returns that file.

    The copy is on disk before the original is cut.
    """
    target = path.with_name(f"{path.name}.torn-{offset}")
    number = 1
    while True:
        try:
            fd = create_file(target)
            break
        except FileExistsError:
            number += 1
            target = path.with_name(f"{path.name}.torn-{offset}-{number}")
    try:
        write_all(fd, torn)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(path.parent)
    os.truncate(path, offset)
    return target


class Store:
    """Appends lines to one file.

    `open_target` opens the file and is called with the first line, again after it has failed;
    `path` is the file that errors name. With `open_line` the file's last line has no newline yet.
    """

    def __init__(
        self, path: Path, open_target: Callable[[], int], *, open_line: bool = False
    ) -> None:
        self.path = path
        self.foreign_bytes = 0
        self._open_target = open_target
        self._fd: int | None = None
        self._lines: list[bytes] = []  # not yet on disk
        # How many of them the system has, and where the file ends. One value, so that an
        # interrupt leaves both as they were or both as they are.
        self._reached = (0, 0)
        self._synced_size = 0
        self._reason: str | None = None
        self._part_left = open_line  # the file does not end with a newline

    @property
    def unsaved(self) -> int:
        """How many lines are not on disk."""
        return len(self._lines)

    @property
    def stuck(self) -> bool:
        """Whether a line could not be handed to the system and waits for another try."""
        return self._reached[0] < len(self._lines)

    def append(self, line: bytes) -> None:
        """Hand a line over. A failure is kept for `sync` to raise; the line is kept too."""
        self._lines.append(line)
        try:
            self._write()
        except BaseException:  # interrupted: an entry nobody was told of must not come back later
            if self._reached[0] < len(self._lines):
                self._lines.pop()
            raise

    def sync(self) -> None:
        """Put every line on disk. Raises SessionWriteError; calling again tries again."""
        if not self._lines:
            return
        if self._fd is None or self._reached[0] < len(self._lines):
            self._write()
        fd = self._fd
        if fd is not None and self._reached[0] == len(self._lines):
            try:
                self._look(fd)
                _fdatasync(fd)
            except OSError as error:
                # The system may have dropped the pages and will not say so twice: only writing
                # them again can put them on disk.
                self._reason = error.strerror or str(error)
                self._back_out((0, self._synced_size), b"".join(self._lines))
            else:
                self._synced_size = self._reached[1]
                self._reached = (0, self._synced_size)
                self._lines = []
                return
        raise SessionWriteError(self.path, self._reason or "unknown", self.unsaved)

    def close(self) -> None:
        """Close the file; unsaved lines are lost with the process."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _write(self) -> None:
        """Hand the system what it does not have yet."""
        line = b""
        try:
            fd = self._fd if self._fd is not None else self._open()
            if self._part_left:
                write_all(fd, b"\n")
                self._reached = (self._reached[0], self._reached[1] + 1)
                self._part_left = False
            while self._reached[0] < len(self._lines):
                written, size = self._reached
                line = self._lines[written]
                write_all(fd, line)
                self._reached = (written + 1, size + len(line))
        except (OSError, SessionError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._reason = reason or str(error)
            self._back_out(self._reached, line)
        except BaseException:
            self._back_out(self._reached, line)
            raise

    def _open(self) -> int:
        self._fd = self._open_target()
        self._synced_size = os.fstat(self._fd).st_size
        self._reached = (0, self._synced_size)
        return self._fd

    def _look(self, fd: int) -> None:
        """Notice what others did to the file: programs that take no lock, Pi for one."""
        status = os.fstat(fd)
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the file was deleted")
        written, size = self._reached
        if status.st_size != size:
            self.foreign_bytes += abs(status.st_size - size)
            self._reached = (written, status.st_size)

    def _back_out(self, reached: tuple[int, int], ours: bytes) -> None:
        """Cut the file back: no part of a line may stay in front of the one that is tried next.

        Only what is the beginning of `ours` is cut. Where another program has written meanwhile,
        or cutting fails, the next line begins with a newline instead.
        """
        self._reached = reached
        if self._fd is None:
            return
        size = reached[1]
        try:
            os.lseek(self._fd, size, os.SEEK_SET)  # writes go to the end all the same
            extra = os.read(self._fd, len(ours) + 1)
            if not extra:
                return
            if ours.startswith(extra):
                os.ftruncate(self._fd, size)
                return
        except OSError:
            pass
        self._part_left = True
