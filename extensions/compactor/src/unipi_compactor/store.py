"""The SQLite file of the index: its tables, its rights, and beginning again when it is broken."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from .tokens import TOKENIZER, extras

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .documents import Document

VERSION: Final = 1
"""Of the tables and of how words are made; an index of another version is built again."""
_WAIT_MS: Final = 4_000
_CACHE_KIB: Final = 65_536
"""Of the file in memory, at most: with the usual 2 MiB a search of 2 GB takes three times as long."""
_TABLES: Final = f"""
CREATE TABLE file(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, session TEXT NOT NULL, cwd TEXT NOT NULL,
  side INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, offset INTEGER NOT NULL,
  lines INTEGER NOT NULL, first BLOB NOT NULL, anchor BLOB NOT NULL);
CREATE TABLE chunk(
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL, entry TEXT NOT NULL, part INTEGER NOT NULL,
  kind TEXT NOT NULL, stamp TEXT NOT NULL, digest INTEGER NOT NULL);
CREATE TABLE body(id INTEGER PRIMARY KEY, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunk_entry ON chunk(file, entry, part);
CREATE INDEX chunk_by_entry ON chunk(entry);
CREATE VIRTUAL TABLE words USING fts5(title, body, content='', tokenize="{TOKENIZER}");
INSERT INTO words(words, rank) VALUES('rank', 'bm25(2.0, 1.0)');
PRAGMA user_version = {VERSION};
"""


class Store:
    """An open index; `path` None keeps it in memory. One thread at a time.

    `seen` are the files that this process has found to be indexed, with size and time of change, and
    `listed` the folder as it was last looked at: while both stand, nothing needs to be asked.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.seen: dict[str, tuple[int, int]] = {}
        self.listed: frozenset[str] = frozenset()
        self.db = self._open()

    def _open(self) -> sqlite3.Connection:
        """Open the file; one that is broken or of another version is made anew."""
        try:
            return self._connected()
        except sqlite3.OperationalError:
            raise  # locked or unreadable: not broken
        except sqlite3.DatabaseError:
            self._remove()
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        if self.path is not None:
            _create_private(self.path)
        name = ":memory:" if self.path is None else str(self.path)
        db = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
        try:
            db.execute(f"PRAGMA busy_timeout={_WAIT_MS}")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            self._set_up(db)
        except BaseException:
            db.close()
            raise
        return db

    def _set_up(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError(f"an index of version {version}")
            if version == 0:
                for statement in _TABLES.split(";\n"):
                    if statement.strip():
                        db.execute(statement)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise

    def _remove(self) -> None:
        if self.path is not None:
            for end in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + end).unlink()

    def rebuild(self) -> None:
        """Begin again with an empty index."""
        self.close()
        self.seen.clear()
        self.listed = frozenset()
        self._remove()
        self.db = self._connected()

    def close(self) -> None:
        """Close the file; more than once does no harm."""
        self.db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of what is written, or, when the process dies in it, nothing."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def add(self, file: int, found: Document) -> None:
        """Index a document; inside `writing`."""
        for part, text in enumerate(found.chunks()):
            row = (file, found.entry, part, found.kind, found.stamp, _digest(text))
            cursor = self.db.execute(
                "INSERT INTO chunk(file, entry, part, kind, stamp, digest) VALUES(?,?,?,?,?,?)", row
            )
            self.db.execute("INSERT INTO body VALUES(?,?,?)", (cursor.lastrowid, found.title, text))
            self.db.execute(
                "INSERT INTO words(rowid, title, body) VALUES(?,?,?)",
                (cursor.lastrowid, *_indexed(found.title, text)),
            )

    def forget(self, file: int, entry: str | None = None) -> None:
        """Take an entry of a file, or all of them, out of the index; inside `writing`."""
        where, values = (
            ("file=?", [file]) if entry is None else ("file=? AND entry=?", [file, entry])
        )
        rows = self.db.execute(
            f"SELECT id, title, text FROM chunk JOIN body USING (id) WHERE {where}",  # noqa: S608 - two texts of ours
            values,
        ).fetchall()
        for row, title, text in rows:
            # A table without content of its own is told the words that go.
            self.db.execute(
                "INSERT INTO words(words, rowid, title, body) VALUES('delete',?,?,?)",
                (row, *_indexed(title, text)),
            )
            self.db.execute("DELETE FROM body WHERE id=?", (row,))
        self.db.execute(f"DELETE FROM chunk WHERE {where}", values)  # noqa: S608 - two texts of ours


def _indexed(title: str, text: str) -> tuple[str, str]:
    more = extras(text)
    return f"{title} {extras(title)}", f"{text}\n{more}" if more else text


def _digest(text: str) -> int:
    """Eight bytes that tell texts apart, as the signed number that SQLite keeps."""
    found = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return int.from_bytes(found[:8], "big", signed=True)


def _create_private(path: Path) -> None:
    """Make the file with mode 0600, or give one that is there these rights.

    Raises OSError for a symbolic link: what is written must not end up elsewhere.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if hasattr(os, "fchmod") and os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
