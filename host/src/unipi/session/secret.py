"""A secret for each session, kept beside its file: what fingerprints are keyed with."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 32
"""Bytes: the block of HMAC-SHA-256's recommended key length (RFC 2104 §3)."""


def secret_path(path: Path) -> Path:
    """Where the secret of a session file is."""
    return path.with_suffix(".key")


def load_secret(path: Path, *, read_only: bool, default: bytes | None = None) -> bytes:
    """The secret of a session file, made when it is missing or of the wrong size.

    A new one is `default` or random. With `read_only`, or where it cannot be stored, the new one
    lives in memory alone. Raises nothing: without a stored secret a session only cannot compare
    itself with its past.
    """
    file = secret_path(path)
    try:
        stored = _read(file)
        if len(stored) == SIZE:
            return stored
        if not read_only:
            file.unlink()
    except OSError:
        pass
    new = default or os.urandom(SIZE)
    if not read_only:
        with contextlib.suppress(OSError):
            _create(file, new)
    return new


def _flags() -> int:
    return getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _read(file: Path) -> bytes:
    fd = os.open(file, os.O_RDONLY | _flags())
    try:
        if hasattr(os, "fchmod") and os.fstat(fd).st_mode & 0o077:
            os.fchmod(fd, 0o600)
        return os.read(fd, SIZE + 1)
    finally:
        os.close(fd)


def _create(file: Path, data: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags(), 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
