"""Keeping the index at what the session files say: new lines are added, changed files read again."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

from attrs import frozen

from .documents import decode, document
from .history import edit_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from unipi_hookspecs import JSON, Entry

    from .store import Store

FILE_NAME: Final = ".unipi-recall.sqlite3"
_BATCH: Final = 2_097_152
"""Bytes of a file that are indexed in one transaction, about."""
_ANCHOR: Final = 64
_FIRST: Final = 512
_HEADER: Final = 1_048_576


@frozen
class _Known:
    """What the index knows of a file."""

    id: int
    size: int
    mtime: int
    offset: int
    lines: int
    first: bytes
    anchor: bytes


@frozen
class SessionFile:
    """A session file as a folder lists it; `mtime` in nanoseconds."""

    path: Path
    size: int
    mtime: int


def session_files(folder: Path) -> list[SessionFile]:
    """The session files of a folder, the one written last first; what cannot be read is left out."""
    found: list[SessionFile] = []
    with os.scandir(folder) as listed:
        for item in listed:
            if not item.name.endswith(".jsonl"):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(SessionFile(folder / item.name, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda file: (-file.mtime, file.path.name))


def one_file(path: Path) -> SessionFile:
    """The same of one file. Raises OSError when there is none."""
    status = path.stat()
    return SessionFile(path, status.st_size, status.st_mtime_ns)


def sync(
    store: Store,
    files: Iterable[SessionFile],
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Bring the index up to date with these files; returns how many are not done yet.

    `may_go_on` is asked between transactions, `progress` told the bytes that were read. Files that
    cannot be read are passed over.
    """
    changed = [
        (name, file)
        for file in files
        if store.seen.get(name := str(file.path)) != (file.size, file.mtime)
    ]
    known = _known(store) if changed else {}
    waiting = 0
    for name, file in changed:
        before = known.get(name)
        done = before is not None and (before.size, before.mtime) == (file.size, file.mtime)
        if not done and may_go_on():
            try:
                done = _sync_file(store, file, before, may_go_on, progress)
            except OSError:
                continue
        if done:
            store.seen[name] = (file.size, file.mtime)
        waiting += not done
    return waiting


def drop_missing(store: Store, folder: Path, files: Iterable[SessionFile]) -> None:
    """Forget the files of a folder that are no longer among those it lists."""
    there = frozenset(str(file.path) for file in files)
    if there == store.listed:
        return
    begin = f"{folder}{os.sep}"
    for name, known in _known(store).items():
        if name.startswith(begin) and name not in there:
            _drop(store, known.id)
            store.seen.pop(name, None)
    store.listed = there


def has_ids(path: Path) -> bool:
    """Whether the entries of a session file have ids; those of version 1 have none."""
    with path.open("rb") as file:
        header = decode(file.readline(_HEADER))
    return header is not None and isinstance(header.get("version"), int) and header["version"] != 1


def sync_entries(store: Store, source: str, session: str, entries: Sequence[Entry]) -> None:
    """The same for a session whose file does not hold it as it is, or that has none."""
    with store.writing() as db:
        row = db.execute("SELECT id, lines FROM file WHERE path=?", (source,)).fetchone()
        if row is None:
            row = (_insert(db, source, session, "", side=False, first=b""), 0)
        calls: dict[str, tuple[str, str]] = {}
        for entry in entries[row[1] :]:
            _take(store, row[0], entry.fields, entry.id, calls)
        db.execute("UPDATE file SET lines=? WHERE id=?", (len(entries), row[0]))


def _known(store: Store) -> dict[str, _Known]:
    rows = store.db.execute("SELECT path, id, size, mtime, offset, lines, first, anchor FROM file")
    return {path: _Known(*rest) for path, *rest in rows}


def _sync_file(
    store: Store,
    listed: SessionFile,
    known: _Known | None,
    may_go_on: Callable[[], bool],
    progress: Callable[[int], None],
) -> bool:
    """Read what is new in a file; False when it was not read to its end."""
    with listed.path.open("rb") as file:
        if known is not None and not _continues(file, known):
            _drop(store, known.id)
            known = None
        if known is None:
            known = _begin(store, listed.path, file)
        while True:
            before = known.offset
            known = _batch(store, file, known)
            progress(known.offset - before)
            if known.offset == before:
                break
            if not may_go_on():
                return False
    with store.writing() as db:
        row = (listed.size, listed.mtime, known.id)
        db.execute("UPDATE file SET size=?, mtime=? WHERE id=?", row)
    return True


def _continues(file: BinaryIO, known: _Known) -> bool:
    """Whether a file is the one that was read, with nothing but more behind it."""
    first = file.read(_FIRST)
    if not known.lines:
        return False  # there was no header yet
    if not first.startswith(known.first) or os.fstat(file.fileno()).st_size < known.offset:
        return False
    return _anchor(file, known.offset) == known.anchor


def _anchor(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - _ANCHOR)
    file.seek(start)
    return hashlib.sha256(file.read(offset - start)).digest()


def _begin(store: Store, path: Path, file: BinaryIO) -> _Known:
    """Enter a file: its header says which session it is, and of which project."""
    file.seek(0)
    line = file.readline(_HEADER)
    header = decode(line) or {}
    usable = line.endswith(b"\n") and header.get("type") == "session"
    side = not usable or _is_side(header, file.readline(_HEADER))
    first = line[:_FIRST] if usable else b""
    with store.writing() as db:
        if (other := _known(store).get(str(path))) is not None:
            return other  # another process has entered it meanwhile
        session, cwd = str(header.get("id") or ""), str(header.get("cwd") or "")
        row = _insert(db, str(path), session, cwd, side=side, first=first)
        anchor = _anchor(file, len(line) if usable else 0)
        offset, lines = (len(line), 1) if usable else (0, 0)
        db.execute(
            "UPDATE file SET offset=?, lines=?, anchor=? WHERE id=?", (offset, lines, anchor, row)
        )
    return _Known(row, -1, -1, offset, lines, first, anchor)


def _insert(
    db: sqlite3.Connection, path: str, session: str, cwd: str, *, side: bool, first: bytes
) -> int:
    cursor = db.execute(
        "INSERT INTO file(path, session, cwd, side, size, mtime, offset, lines, first, anchor) "
        "VALUES(?,?,?,?,-1,-1,0,0,?,x'')",
        (path, session, cwd, side, first),
    )
    assert cursor.lastrowid is not None, "a row was inserted"
    return cursor.lastrowid


def _is_side(header: dict[str, JSON] | object, second: bytes) -> bool:
    """Whether a helper or a side thread wrote the file: what was said there stays there.

    A fork has a parent too: ours say where they were forked, Pi's begin with an entry that is older
    than their header.
    """
    if not isinstance(header, dict) or not isinstance(header.get("parentSession"), str):
        return False
    if "forkedFrom" in header:
        return False
    entry = decode(second) or {}
    made, began = entry.get("timestamp"), header.get("timestamp")
    return not (isinstance(made, str) and isinstance(began, str) and made < began)


def _batch(store: Store, file: BinaryIO, known: _Known) -> _Known:
    """Index whole lines from where the last batch ended, in one transaction."""
    file.seek(known.offset)
    with store.writing() as db:
        # Another process may have been here since this one looked.
        row = db.execute("SELECT offset, lines, side FROM file WHERE id=?", (known.id,)).fetchone()
        if row is None or row[0] != known.offset:
            offset, lines = (row[0], row[1]) if row else (known.offset, known.lines)
            return _Known(
                known.id, known.size, known.mtime, offset, lines, known.first, known.anchor
            )
        offset, lines, side = row
        if side:
            return known
        calls: dict[str, tuple[str, str]] = {}
        while offset - known.offset < _BATCH:
            line = file.readline()
            if not line.endswith(b"\n"):
                break  # nothing more, or a line that is still being written
            offset += len(line)
            fields = decode(line)
            if fields is not None:
                entry = fields.get("id")
                _take(
                    store, known.id, fields, entry if isinstance(entry, str) else f"L{lines}", calls
                )
            lines += 1
        anchor = _anchor(file, offset)
        values = (offset, lines, anchor, known.id)
        db.execute("UPDATE file SET offset=?, lines=?, anchor=? WHERE id=?", values)
    return _Known(known.id, known.size, known.mtime, offset, lines, known.first, anchor)


def _take(
    store: Store, file: int, fields: object, entry: str, calls: dict[str, tuple[str, str]]
) -> None:
    from collections.abc import Mapping

    if not isinstance(fields, Mapping):
        return
    edit = edit_in(str(fields.get("type")), fields)
    if edit is not None:
        store.forget(file, edit[0])
        return
    found = document(fields, entry, calls)
    if found is not None:
        store.add(file, found)


def _drop(store: Store, file: int) -> None:
    with store.writing() as db:
        store.forget(file)
        db.execute("DELETE FROM file WHERE id=?", (file,))
