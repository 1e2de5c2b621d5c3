"""Where output too large for the model is kept whole: private files of unguessable name."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ARTIFACT_LIMIT = 16 * 1024 * 1024
"""Bytes that one artifact holds at most (design §4.5)."""

_DOMAIN = b"unipi artifact\0"
_NAME = re.compile(r"(?:[A-Za-z0-9_-]{1,48}-)?[0-9a-f]{64}\.(?:txt|[0-9a-f]{16}\.part)\Z")


class ArtifactError(Exception):
    """Output could not be kept; the message is a clause that says why."""


@frozen
class Artifacts:
    """The artifact folder of one session.

    `key` is the session's secret: a file's name is an HMAC-SHA-256 of its content under it, so
    that nobody without the key can guess a name, and the same result has the same name.
    """

    dir: Path
    key: bytes = field(repr=False)

    def keep(self, data: bytes, label: str) -> str | None:
        """Keep `data`; returns the file's path, or None when it could not be kept."""
        try:
            return self.store(data, label)
        except ArtifactError:
            return None

    def store(self, data: bytes, label: str) -> str:
        """Keep `data` and return the file's path.

        Raises ArtifactError when it is over 16 MiB, when the folder is a symbolic link or
        somebody else's, or when the disk refuses.
        """
        if len(data) > ARTIFACT_LIMIT:
            raise ArtifactError("it is over 16 MiB")
        digest = hmac.new(self.key, _DOMAIN + data, hashlib.sha256).hexdigest()
        prefix = re.sub(r"[^A-Za-z0-9_]+", "-", label).strip("-")[:48]
        name = f"{prefix}-{digest}.txt" if prefix else f"{digest}.txt"
        try:
            with _private_folder(self.dir) as folder:
                if not _holds(folder, name, data):
                    _write(folder, name, data)
        except OSError as error:
            raise ArtifactError(f"the artifact folder refused: {error.strerror}") from error
        return str(self.dir / name)

    def clean(self, max_age: float, max_bytes: int) -> int:
        """Remove artifacts unused for `max_age` seconds, then the oldest beyond `max_bytes`.

        Returns how many were removed. Files that are not artifacts are left alone. Raises
        ArtifactError when the folder cannot be trusted; a folder that is missing is clean.
        """
        if not os.path.lexists(self.dir):
            return 0
        try:
            with _private_folder(self.dir) as folder:
                return _clean(folder, time.time() - max_age, max_bytes)
        except OSError as error:
            raise ArtifactError(f"the artifact folder refused: {error.strerror}") from error


@contextmanager
def _private_folder(path: Path) -> Iterator[int]:
    # All further work is relative to this descriptor, so what was checked is what is used.
    _make(path)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        raise ArtifactError("its folder is a symbolic link or no folder") from error
    try:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid():
            raise ArtifactError("its folder belongs to another user")
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _make(path: Path) -> None:
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # another process was faster; it is checked as any other
            continue


def _holds(folder: int, name: str, data: bytes) -> bool:
    # Whether a file of that name is whole, ours and private. Anything else is replaced.
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        good = (
            stat.S_ISREG(found.st_mode)
            and found.st_uid == os.geteuid()
            and stat.S_IMODE(found.st_mode) == 0o600
            and found.st_nlink == 1
            and found.st_size == len(data)
        )
        if not good:
            return False
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(file, "rb") as stream:
        if stream.read() != data:
            return False
        os.utime(file)  # its age counts from its last use
        return True


def _write(folder: int, name: str, data: bytes) -> None:
    # Written aside and renamed: two processes at once each put the same whole file in place.
    part = f"{name[:-4]}.{os.urandom(8).hex()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(part, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(part, dir_fd=folder)
        raise


def _clean(folder: int, oldest: float, max_bytes: int) -> int:
    files = []
    for name in os.listdir(folder):
        if not _NAME.match(name):
            continue
        with suppress(FileNotFoundError):  # another process cleans as well
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            files.append((found.st_mtime, name, found.st_size))
    removed = total = 0
    for used, name, size in sorted(files, reverse=True):
        total += size
        if used < oldest or total > max_bytes:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
                removed += 1
    return removed
