"""Files and folders of sessions, one after another, in an order that does not depend on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .audit import Auditor
from .audit_records import Answer
from .readers import NotASessionError, decode, kind_of, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .audit_money import Spending


def session_files(paths: Iterable[Path]) -> list[Path]:
    """The files that paths name, and every `.jsonl` below those that are folders, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            for folder, names, files in os.walk(path):
                names.sort()
                for name in sorted(files):
                    if name.endswith(".jsonl"):
                        found[Path(folder) / name] = None
        else:
            found[path] = None
    return list(found)


def newest(root: Path, project: str) -> Path | None:
    """The session file under `root` written last: of `project` where it has any, else of all.

    Only first lines are read. Files that vanish meanwhile are passed over.
    """
    best: tuple[bool, float, str] | None = None
    for path in session_files([root]) if root.is_dir() else ():
        try:
            written = path.stat().st_mtime
            with path.open("rb") as file:
                header = decode(file.readline(1 << 20)) or {}
        except OSError:
            continue
        if kind_of(header) == "pi":
            rank = (header.get("cwd") == project, written, str(path))
            best = rank if best is None else max(best, rank)
    return Path(best[2]) if best else None


def spend(
    spending: Spending,
    files: Iterable[Path],
    ttl: float | None,
    step: Callable[[int], None] | None = None,
) -> None:
    """Add up files. What is no session, or cannot be read, is counted and passed over."""
    for path in files:
        one = spending.start(path)
        auditor = Auditor(ttl)
        try:
            _, records = read(path, step)
            for record in records:
                judged = auditor.take(record)
                if judged is not None:
                    one.judged(judged, auditor.place.project)
                elif isinstance(record, Answer):
                    one.failed(record, auditor.place.project)
        except NotASessionError as error:
            spending.skip(str(error))
            continue
        except OSError as error:
            spending.skip(f"{path}: {error.strerror or error}")
            continue
        one.end(auditor)
