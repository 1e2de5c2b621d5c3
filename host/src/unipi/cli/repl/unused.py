"""A session that was opened and left without a word is no session: its file goes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from unipi.session.cleaning import Old, remove
from unipi.session.listing import sessions_root

if TYPE_CHECKING:
    from unipi.session import Session


def is_unused(session: Session) -> bool:
    """Whether nobody said anything in it or named it, and its file is one that the host named."""
    path = session.path
    if path is None or session.name or path.resolve().parent.parent != sessions_root().resolve():
        return False
    return not any(entry.message is not None for entry in session.entries())


def remove_file(session: Session) -> None:
    """Remove the file of a closed session; one that somebody has opened meanwhile stays."""
    if session.path is not None:
        with contextlib.suppress(OSError):
            remove(Old(session.path, 0, 0.0))
