"""`unipi sessions`: list, show and draw session files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unipi.session import Session, SessionError, SessionInfo, find_session, list_sessions

from ._output import fail, print_json
from .sessions_clean import clean
from .sessions_doctor import doctor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unipi_hookspecs import JSON, Entry, Message

_WIDTH = 100
"""Characters of an entry's text that a line shows."""


@click.group()
def sessions() -> None:
    """List, show, draw and clean up session files."""


sessions.add_command(clean)
sessions.add_command(doctor)


@sessions.command(name="list")
@click.option("--all", "everywhere", is_flag=True, help="Sessions of all working folders.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_command(*, everywhere: bool, as_json: bool) -> None:
    """List the sessions of this working folder, the last written first.

    Sessions of helpers and side threads stand below the session they were made for.
    """
    found = list_sessions(None if everywhere else Path.cwd())
    if as_json:
        print_json([_info(info) for info in found])
    elif found:
        # Lines, not a table: an id must stay whole, to be copied.
        for info in _under_parents(found):
            about = _printable(info.name or info.first)
            indent = "  " if info.side else ""
            when = info.modified[:16].replace("T", " ")
            click.echo(f"{indent}{_printable(info.id)}  {when}  {info.size:>10,} bytes  {about}")
    else:
        click.echo("no sessions here" + ("" if everywhere else "; --all looks everywhere"))


@sessions.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show(file: str, *, as_json: bool) -> None:
    """Show what the model sees of a session FILE (or session id), and what is left out."""
    session = _open(file)
    left_out, calls = session.left_out(), session.open_calls()
    if as_json:
        print_json(
            {
                **_head(session),
                "context": [
                    {
                        "entry": item.entry_id,
                        "role": item.message.role,
                        "synthesised": item.synthesised,
                        "text": _words(item.message),
                    }
                    for item in session.context()
                ],
                "left_out": left_out,
                "open_calls": [{"id": call.id, "name": call.name} for call in calls],
            }
        )
        return
    for key, value in _head(session).items():
        if key != "damages":
            click.echo(f"{key}: {'-' if value is None else _printable(str(value))}")
    for item in session.context():
        click.echo(f"{item.entry_id}  {item.message.role:<13} {_words(item.message)}")
    for line in left_out:
        click.echo(f"left out: {_printable(line)}")
    for call in calls:
        click.echo(f"open call: {_printable(call.name)} {_printable(call.id)}")
    for damage in session.damages:
        click.echo(_printable(str(damage)))


@sessions.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def tree(file: str, *, as_json: bool) -> None:
    """Draw the tree of a session FILE (or session id), an entry a line, indented at branches."""
    session = _open(file)
    drawn = _draw(session.entries())
    if as_json:
        rows: list[JSON] = [
            {
                "id": entry.id,
                "parent": entry.parent_id,
                "type": entry.type,
                "depth": depth,
                "timestamp": entry.timestamp,
                "text": _summary(entry),
                "leaf": entry.id == session.leaf_id,
            }
            for depth, entry in drawn
        ]
        print_json({**_head(session), "entries": rows})
        return
    for depth, entry in drawn:
        mark = "  <- leaf" if entry.id == session.leaf_id else ""
        click.echo(f"{'  ' * depth}{_printable(entry.id)}  {_summary(entry)}{mark}")


def _open(file: str) -> Session:
    try:
        return Session.open(find_session(file, Path.cwd()), read_only=True)
    except SessionError as error:
        fail(str(error), 2)


def _info(info: SessionInfo) -> dict[str, JSON]:
    return {
        "id": info.id,
        "path": str(info.path),
        "cwd": info.cwd,
        "name": info.name,
        "first": info.first,
        "created": info.created,
        "modified": info.modified,
        "size": info.size,
        "version": info.version,
        "parent": info.parent,
        "side": info.side,
    }


def _head(session: Session) -> dict[str, JSON]:
    return {
        "id": session.id,
        "path": str(session.path),
        "cwd": str(session.cwd),
        "name": session.name,
        "entries": len(session.entries()),
        "leaf": session.leaf_id,
        "damages": [
            {
                "offset": damage.offset,
                "reason": damage.reason,
                "moved_to": str(damage.moved_to) if damage.moved_to else None,
            }
            for damage in session.damages
        ],
    }


def _under_parents(found: list[SessionInfo]) -> Iterator[SessionInfo]:
    paths = {str(info.path) for info in found}
    sides: dict[str, list[SessionInfo]] = {}
    for info in found:
        if info.side and info.parent in paths:
            sides.setdefault(str(info.parent), []).append(info)
    pending = [info for info in found if not (info.side and info.parent in paths)]
    while pending:
        info = pending.pop(0)
        yield info
        pending[:0] = sides.pop(str(info.path), [])


def _draw(entries: list[Entry]) -> list[tuple[int, Entry]]:
    """Every entry with its depth: a line of only children stays at one depth."""
    known = {entry.id for entry in entries}
    children: dict[str | None, list[Entry]] = {}
    for entry in entries:
        parent = entry.parent_id if entry.parent_id in known else None
        children.setdefault(parent, []).append(entry)
    roots = children.get(None, [])
    drawn: list[tuple[int, Entry]] = []
    done: set[str] = set()
    stack = [(1 if len(roots) > 1 else 0, entry) for entry in reversed(roots)]
    while stack:
        depth, entry = stack.pop()
        if entry.id in done:  # an id that is used twice
            continue
        done.add(entry.id)
        drawn.append((depth, entry))
        below = children.get(entry.id, [])
        step = 1 if len(below) > 1 else 0
        stack.extend((depth + step, child) for child in reversed(below))
    return drawn


def _summary(entry: Entry) -> str:
    if entry.message is None:
        own = {k: v for k, v in entry.fields.items() if k not in _COMMON}
        return _printable(f"{entry.type} {own if own else ''}"[: 4 * _WIDTH])
    role = entry.message.role
    kind = entry.type if role == "summary" else role
    return f"{_printable(kind)} {_words(entry.message)}"


_COMMON = frozenset({"type", "id", "parentId", "timestamp"})


def _words(message: Message) -> str:
    if message.role == "summary":
        return _printable(message.summary)
    if message.role == "bashExecution":
        return _printable(f"! {message.command}")
    if isinstance(message.content, str):
        return _printable(message.content)
    parts: list[str] = []
    for block in message.content:
        if block.type == "text":
            parts.append(block.text[: 4 * _WIDTH])
        elif block.type == "thinking":
            parts.append("(thinking)")
        elif block.type == "toolCall":
            parts.append(f"[{block.name} {dict(block.arguments)}"[: 4 * _WIDTH] + "]")
        else:
            parts.append(f"({block.mime_type})")
    if message.role == "assistant" and message.stop_reason in ("error", "aborted"):
        parts.append(f"({message.stop_reason})")
    return _printable(" ".join(parts))


def _printable(text: str) -> str:
    """One line of visible characters: text from a session must not steer the terminal."""
    line = " ".join(text[: 8 * _WIDTH].split())
    line = "".join(char if char.isprintable() else "\ufffd" for char in line)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
