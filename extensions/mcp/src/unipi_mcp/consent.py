"""Which entries of a project's file have been approved, kept outside the project.

To trust a project is to approve its `.mcp.json` as it stands then. An entry that is added or
changed later, by a pull for instance, starts nothing before it is approved too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from . import store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unipi_hookspecs import JSON

FILE: Final = "mcp-projects.json"

Told = tuple[str, tuple[str, ...]]


class ConsentError(Exception):
    """The record cannot be read or written; the text names the file and the way out."""


def withheld(
    user_dir: Path, project: Path, entries: Mapping[str, JSON]
) -> tuple[frozenset[str], list[Told]]:
    """The names of entries that wait for approval, and what to say of each, with its key.

    The first time that a trusted project is met, its entries are approved as they are. Where the
    record cannot be read every entry waits.
    """
    now = {name: entry_digest(entry) for name, entry in entries.items()}
    try:
        record = _read(user_dir)
        approved = record.get(_key(project))
        if approved is None:
            _write(user_dir, {**record, _key(project): dict(now)})
            return frozenset(), []
    except ConsentError as error:
        return frozenset(entries), [(str(error), ())] if entries else []
    waiting = [name for name, digest in now.items() if approved.get(name) != digest]
    told: list[Told] = []
    for name in waiting:
        how = "changed" if name in approved else "is new"
        text = f"{how} since this project was approved, and is not started; see `unipi mcp approve`"
        told.append((text, (name,)))
    return frozenset(waiting), told


def approve(user_dir: Path, project: Path, entries: Mapping[str, JSON]) -> None:
    """Approve these entries as they are; the project's others stay as they were.

    Raises `ConsentError`.
    """
    record = _read(user_dir)
    own = dict(record.get(_key(project), {}))
    own |= {name: entry_digest(entry) for name, entry in entries.items()}
    _write(user_dir, {**record, _key(project): own})


def entry_digest(entry: JSON) -> str:
    """A digest of an entry as it is written, whatever the order of its keys; in hex."""
    return store.digest(entry)


def _key(project: Path) -> str:
    return str(project.resolve())


def _read(user_dir: Path) -> dict[str, Mapping[str, JSON]]:
    path = user_dir / FILE
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _unusable(path) from error
    if not isinstance(value, dict) or not all(isinstance(own, dict) for own in value.values()):
        raise _unusable(path)
    return value


def _write(user_dir: Path, record: Mapping[str, JSON]) -> None:
    path = user_dir / FILE
    try:
        store.write_private(path, store.encode(record, indent=2))
    except OSError as error:
        raise ConsentError(f"{path} cannot be written: {error.strerror}") from error


def _unusable(path: Path) -> ConsentError:
    return ConsentError(
        f"{path} cannot be read, so no server of a project is started; "
        "correct it, or remove it to approve projects anew"
    )
