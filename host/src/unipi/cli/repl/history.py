"""What was typed before, in a file of ours that only its owner can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.history import History

_LIMIT = 1 << 20
"""Bytes of history; above it the older half is let go."""


def open_history(path: Path) -> History:
    """The history in a file, made with mode 0600, or one in memory where it cannot be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            os.fchmod(fd, 0o600)
            if os.fstat(fd).st_size > _LIMIT:
                _shorten(path, file.read()[-_LIMIT // 2 :])
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _shorten(path: Path, data: bytes) -> None:
    start = data.find(b"\n# ")  # where an entry begins
    new = path.with_suffix(".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data[start:])
    new.replace(path)
