"""Paths that a model names, what may be written, and how a file is replaced."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar

from .text import ToolError, decode, repair

_ODD_SPACE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_locks: RunVar[WeakValueDictionary[str, anyio.Lock]] = RunVar("unipi_tools_file_locks")


def resolve(path: str, cwd: Path) -> Path:
    """The absolute path, without `.` and `..`, that a model means by `path`.

    A leading `@` goes unless a file or top folder has that name, `~` is expanded, and spaces of
    other kinds become plain ones if there is no such file otherwise. Raises ToolError for a path
    that no file can have.
    """
    if not path or "\0" in path:
        raise ToolError(f"not a path: {repair(path)!r}")
    try:
        os.fsencode(path)
        if path.startswith("@") and os.path.lexists(cwd / path.split("/")[0]):
            return _absolute(path, cwd)
        path = path.removeprefix("@")
        literal, plain = _absolute(path, cwd), _absolute(_ODD_SPACE.sub(" ", path), cwd)
        return literal if os.path.lexists(literal) else plain
    except (UnicodeEncodeError, RuntimeError) as error:
        raise ToolError(f"not a path: {repair(path)!r}") from error


def _absolute(path: str, cwd: Path) -> Path:
    return Path(os.path.normpath(cwd / Path(path).expanduser()))


def shown(path: Path, cwd: Path) -> str:
    """`path` as the model sees it: relative to `cwd` inside it, otherwise absolute."""
    inside = path.is_relative_to(cwd)
    return decode(os.fsencode(path.relative_to(cwd) if inside else path))


def writable_target(given: str, path: Path, cwd: Path) -> Path:
    """The real file behind `path` that write and edit may replace.

    A file outside the working folder is written only when its absolute path was given: neither a
    relative path nor a symbolic link leads out. Raises ToolError for what may not be written.
    """
    target, home = Path(os.path.realpath(path)), Path(os.path.realpath(cwd))
    explicit = given.removeprefix("@").startswith(("/", "~")) and not path.is_relative_to(cwd)
    if not explicit and not target.is_relative_to(home):
        raise ToolError(
            f"{repair(given)} leads out of the working folder, to {repair(str(target))}; "
            "give that absolute path if you mean it"
        )
    try:
        found = target.stat()
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{repair(given)} is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{repair(given)} is no regular file")
    if not os.access(target, os.W_OK):
        raise ToolError(f"{repair(given)} is write-protected")
    return target


def file_lock(target: Path) -> anyio.Lock:
    """The lock of one real file, shared by all tools and sessions of this event loop."""
    locks = _locks.get(None)
    if locks is None:
        locks = WeakValueDictionary()
        _locks.set(locks)
    key = str(target)
    lock = locks.get(key)
    if lock is None:
        lock = locks[key] = anyio.Lock()
    return lock


def replace_file(target: Path, data: bytes) -> None:
    """Put `data` in the place of `target` in one step, its mode and owner kept.

    Raises OSError, and the old file is then untouched.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.parent / f".unipi-{os.urandom(8).hex()}.tmp"
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(part, flags, 0o666 if old is None else 0o600)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            if old is not None:
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file, old.st_uid, old.st_gid)
                os.fchmod(file, stat.S_IMODE(old.st_mode))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def os_error(error: OSError, name: str) -> ToolError:
    """The error that the model reads for a refusal of the system."""
    return ToolError(f"{name}: {error.strerror or error}")
