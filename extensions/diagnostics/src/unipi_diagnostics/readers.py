"""Recorded sessions of several programs, read as one stream of answers and marks.

A reader sees one line at a time and keeps only what it needs of the lines before, so that memory
does not grow with a session's size. What was said is never kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from .audit_records import obj, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .audit_records import Record

_HEAD_LINES: Final = 50
"""Lines in which a file must show what it is: some begin with summaries or snapshots of files."""


class NotASessionError(Exception):
    """A file that none of the readers knows. The text names it."""


class Reader(Protocol):
    """Turns the objects of a file into records."""

    def take(self, fields: Mapping[str, object]) -> Iterator[Record]:
        """The records that a line completes."""

    def end(self) -> Iterator[Record]:
        """What was still held back when the file ended."""


def read(path: Path, size: Callable[[int], None] | None = None) -> tuple[str, Iterator[Record]]:
    """The format of a file (`pi`, `claude-code`, `codex`) and its records, read lazily.

    `size` is told the length of each line in bytes, for a progress bar. Lines that are no JSON
    objects, such as one torn by a crash, are passed over.

    Raises NotASessionError for a file of another kind, and OSError.
    """
    lines = _objects(path, size)
    head: list[dict[str, object]] = []
    for fields in lines:
        head.append(fields)
        name = kind_of(fields)
        if name:
            return name, _records(make_reader(name), head, lines)
        if len(head) >= _HEAD_LINES:
            break
    raise NotASessionError(
        f"{path} is not a session: none of its first lines is one of UniPi, Pi, Claude Code or Codex"
    )


def kind_of(fields: Mapping[str, object]) -> str:
    """Which program wrote a line, or an empty text where it does not tell."""
    kind = fields.get("type")
    if kind == "session" and isinstance(fields.get("id"), str):
        return "pi"
    if kind == "session_meta" and isinstance(fields.get("payload"), dict):
        return "codex"
    if kind in ("user", "assistant", "system") and ("sessionId" in fields or "uuid" in fields):
        return "claude-code"
    if kind in ("event_msg", "response_item", "turn_context") and "payload" in fields:
        return "codex"
    return ""


def make_reader(name: str) -> Reader:
    """The reader of a format that `kind_of` names."""
    if name == "codex":
        from .readers_codex import Codex

        return Codex()
    if name == "claude-code":
        from .readers_claude import ClaudeCode

        return ClaudeCode()
    from .readers_pi import Pi

    return Pi()


def decode(line: bytes) -> dict[str, object] | None:
    """The object of a line, or None where it is none."""
    import orjson

    if not line.strip():
        return None
    try:
        value = orjson.loads(line)
    except ValueError:
        value = _patiently(line)
    return value if isinstance(value, dict) else None


def _patiently(line: bytes) -> object:
    """Lone surrogates and numbers beyond 64 bits are JSON too; orjson refuses them."""
    import json

    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _objects(path: Path, size: Callable[[int], None] | None) -> Iterator[dict[str, object]]:
    with path.open("rb") as file:
        for line in file:
            if size is not None:
                size(len(line))
            fields = decode(line)
            if fields is not None:
                yield fields


def _records(
    reader: Reader, head: list[dict[str, object]], lines: Iterator[dict[str, object]]
) -> Iterator[Record]:
    for fields in head:
        yield from reader.take(fields)
    head.clear()
    for fields in lines:
        yield from reader.take(fields)
    yield from reader.end()


def said_in(fields: Mapping[str, object]) -> Mapping[str, object]:
    """The `message` object of a line, empty where there is none."""
    return obj(fields.get("message"))


def role_of(fields: Mapping[str, object]) -> str:
    return text(said_in(fields).get("role"))
