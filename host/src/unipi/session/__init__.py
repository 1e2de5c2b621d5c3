"""Sessions: entries in a tree, kept in a file that Pi can read, made durable, and locked."""

from __future__ import annotations

from .entries import message_from_fields, message_to_fields
from .errors import Damage, SessionError, SessionLocked, SessionWriteError
from .listing import (
    SessionInfo,
    find_latest,
    find_session,
    list_sessions,
    new_session_path,
    session_dir,
)
from .session import Session
from .tree import ContextItem

__all__ = [
    "ContextItem",
    "Damage",
    "Session",
    "SessionError",
    "SessionInfo",
    "SessionLocked",
    "SessionWriteError",
    "find_latest",
    "find_session",
    "list_sessions",
    "message_from_fields",
    "message_to_fields",
    "new_session_path",
    "session_dir",
]
