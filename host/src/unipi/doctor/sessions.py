"""The session folder: who may read it, what a crash left in it, and who holds its locks."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from attrs import Factory, define

from unipi.session.lines import decode
from unipi.session.listing import sessions_root
from unipi_hookspecs import Check, CheckResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NEWEST = 500
"""Session files whose end is looked at, the newest first: a crash leaves its mark there."""

_TAIL = 1 << 16
"""Bytes in which the last line's beginning is looked for."""

_SHOWN = 3


def checks() -> Sequence[Check]:
    """Modes, last lines, locks and artifact folders of all sessions."""
    root = sessions_root()
    return [
        Check("session folder", lambda: _modes(root), timeout=10.0),
        Check("session files", lambda: _tails(root), timeout=10.0),
        Check("session locks", lambda: _locks(root), timeout=10.0),
        Check("artifact folders", lambda: _artifacts(root), timeout=10.0),
    ]


@define
class _Bad:
    """Paths that something is wrong with, of which the first few are named."""

    paths: list[str] = Factory(list)

    def __bool__(self) -> bool:
        return bool(self.paths)

    def told(self) -> str:
        more = len(self.paths) - _SHOWN
        return ", ".join(self.paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _modes(root: Path) -> CheckResult:
    """Folders must be 0700 and files 0600: they hold all that was said, and keys to compare by."""
    if not root.exists():
        return CheckResult("ok", f"{root} is not there yet")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return CheckResult("failed", f"{root} cannot be written", f"chmod u+rwx {root}")
    open_, count = _Bad(), 0
    for path in (root, *_folders(root), *_files(root, "*.jsonl"), *_files(root, "*.key")):
        count += path.suffix == ".jsonl"
        if _loose(path):
            open_.paths.append(str(path))
    if open_:
        return CheckResult(
            "warning",
            f"open to other users: {open_.told()}",
            f"chmod -R go-rwx {root}",
        )
    return CheckResult("ok", f"{root}: {count:,} session files, private")


def _tails(root: Path) -> CheckResult:
    files = sorted(_files(root, "*.jsonl"), key=_age, reverse=True)
    torn, odd = _Bad(), _Bad()
    for path in files[:NEWEST]:
        try:
            state = _end_of(path)
        except OSError:
            odd.paths.append(str(path))
            continue
        if state != "whole":
            (torn if state == "torn" else odd).paths.append(str(path))
    if odd:
        return CheckResult(
            "failed", f"unreadable: {odd.told()}", "`unipi sessions show FILE` says what is wrong"
        )
    if torn:
        return CheckResult(
            "warning",
            f"a torn last line: {torn.told()}",
            "go on with the session: the line is set aside then, and the rest is whole",
        )
    return CheckResult("ok", f"{len(files[:NEWEST]):,} looked at, all end with a whole line")


def _end_of(path: Path) -> str:
    """`whole`, `torn` (no line end and no entry), or `odd` (a line that is no entry)."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        data = file.read()
    ended = data.endswith(b"\n")
    line = data.rstrip(b"\n").rpartition(b"\n")
    if not data.strip() or (not line[1] and size > _TAIL):
        return "whole" if ended or not data.strip() else "torn"
    try:
        decode(line[2])
    except ValueError:
        return "odd" if ended else "torn"
    return "whole"


def _locks(root: Path) -> CheckResult:
    """A lock lies about after its owner has ended, free: the system takes it back."""
    held, ended, stuck = 0, 0, _Bad()
    for path in _files(root, "*.jsonl.lock"):
        pid = _holder(path)
        if pid is not None and _alive(pid):
            held += _is_held(path)
        elif _is_held(path):
            stuck.paths.append(str(path))
        else:
            ended += 1
    if stuck:
        return CheckResult(
            "warning",
            f"held though the process that took it has ended: {stuck.told()}",
            "end the program that it has started and that still runs",
        )
    return CheckResult("ok", f"{held} held by running processes, {ended} left by ended ones, free")


def _holder(path: Path) -> int | None:
    import orjson

    try:
        return int(orjson.loads(path.read_bytes())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_held(path: Path) -> bool:
    """Whether somebody holds a lock. It is tried as a reader, and given back at once."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _artifacts(root: Path) -> CheckResult:
    """They must be real folders of ours, 0700, with files of 0600 (design, section 4.5)."""
    wrong, loose, count = _Bad(), _Bad(), 0
    for folder in _files(root, "*.artifacts"):
        count += 1
        if folder.is_symlink() or not folder.is_dir() or not _ours(folder):
            wrong.paths.append(str(folder))
        elif _loose(folder) or any(_loose(file) for file in folder.iterdir()):
            loose.paths.append(str(folder))
    if wrong:
        return CheckResult(
            "failed",
            f"a link, no folder, or somebody else's: {wrong.told()}",
            "remove it: output that is too long is not kept there",
        )
    if loose:
        return CheckResult(
            "warning", f"open to other users: {loose.told()}", f"chmod -R go-rwx {root}"
        )
    return CheckResult("ok", f"{count} folders, private")


def _ours(path: Path) -> bool:
    return os.name != "posix" or path.lstat().st_uid == os.geteuid()


def _loose(path: Path) -> bool:
    """Whether others may look into it; a file that has just gone is no trouble."""
    if os.name != "posix":
        return False
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:
        return False


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _folders(root: Path) -> Iterator[Path]:
    return (path for path in root.glob("*") if path.is_dir())


def _files(root: Path, pattern: str) -> Iterator[Path]:
    return root.glob(f"*/{pattern}")
