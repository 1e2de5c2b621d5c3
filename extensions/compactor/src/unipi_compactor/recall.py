"""Searching what was said before: an index that is kept fresh, pages that hold still, bounded text."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from attrs import frozen

from . import index
from .history import last_cut
from .render import entry_text, page_text
from .search import Found, Scope, find_entry, load, search
from .settings import clamp
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unipi_hookspecs import Entry

DEFAULT: Final = 10
MOST: Final = 50
_FURTHEST: Final = 100_000
_SECONDS: Final = 3.0
"""What one call spends on other sessions' backlog; the next call goes on from there."""
_PAUSE: Final = 5.0
"""Seconds for which other sessions are not looked at again."""
_PAGES: Final = 32


@frozen
class Query:
    """A recall with every number brought into its range, whatever came."""

    text: str
    limit: int = DEFAULT
    offset: int = 0
    expand: bool = False
    entry: str = ""
    project: bool = True

    @classmethod
    def read(cls, given: object) -> Query:
        """From the arguments of a call, which validation may or may not have seen."""
        from collections.abc import Mapping

        values = given if isinstance(given, Mapping) else {}
        text, entry = values.get("query"), values.get("entry")
        return cls(
            text[:2_000] if isinstance(text, str) else "",
            clamp(values.get("limit"), DEFAULT, 1, MOST),
            clamp(values.get("offset"), 0, 0, _FURTHEST),
            values.get("expand") is True,
            entry.strip(" []#")[:128] if isinstance(entry, str) else "",
            values.get("scope") != "session",
        )


class Recall:
    """The recall of one session. Its methods block: call them in a worker thread.

    `path` is the session's file, None for one in memory. `from_file` says whether its entries are in
    that file as the session has them; else they are taken from `ask`.
    """

    def __init__(
        self, session: str, cwd: str, path: Path | None, *, from_file: bool = True
    ) -> None:
        self._session, self._cwd, self._path = session, cwd, path
        self._own_file = path if from_file else None
        self._source = str(self._own_file) if self._own_file else f"entries of {session}"
        self._store: Store | None = None
        self._looked = -_PAUSE
        self._pages: OrderedDict[tuple[str, bool], Found] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, query: Query, entries: Sequence[Entry], live: frozenset[str]) -> str:
        """Answer a query.

        An index that turns out to be broken is built again, once. Raises OSError or sqlite3.Error
        when there is none to be had.
        """
        with self._lock:
            scope = Scope(self._session, self._source, self._cwd, live, query.project)
            try:
                return self._ask(query, entries, scope)
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise
            except sqlite3.DatabaseError:
                pass
            self._pages.clear()
            self._looked = -_PAUSE
            self._opened().rebuild()
            return self._ask(query, entries, scope)

    def _ask(self, query: Query, entries: Sequence[Entry], scope: Scope) -> str:
        store = self._opened()
        waiting = self._fresh(store, entries)
        if query.entry:
            hit = find_entry(store, query.entry, scope)
            return entry_text(store, query.entry, hit, query.offset)
        found = self._found(store, query, scope)
        rows = found.rows[query.offset : query.offset + query.limit]
        hits = load(store, rows, self._session)
        return page_text(store, query, found, hits, waiting)

    def _found(self, store: Store, query: Query, scope: Scope) -> Found:
        """The hits of a query; behind the first page the order is the one that page was cut from."""
        key = (query.text, query.project)
        if query.offset and key in self._pages:
            self._pages.move_to_end(key)
            return self._pages[key]
        found = search(store, query.text, scope)
        self._pages[key] = found
        while len(self._pages) > _PAGES:
            self._pages.popitem(last=False)
        return found

    def _fresh(self, store: Store, entries: Sequence[Entry]) -> int:
        if self._own_file is not None:
            index.sync(store, [index.one_file(self._own_file)])
        else:
            index.sync_entries(store, self._source, self._session, entries)
        now = time.monotonic()
        if self._path is None or now < self._looked + _PAUSE:
            return 0
        until = now + _SECONDS
        listed = index.session_files(self._path.parent)
        others = [file for file in listed if file.path != self._path]
        waiting = index.sync(store, others, may_go_on=lambda: time.monotonic() < until)
        index.drop_missing(store, self._path.parent, listed)
        if not waiting:
            self._looked = now
        return waiting

    def _opened(self) -> Store:
        if self._store is None:
            place = None if self._path is None else self._path.parent / index.FILE_NAME
            self._store = Store(place)
        return self._store

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None


def live_ids(branch: Sequence[Entry]) -> frozenset[str]:
    """The entries of a branch that the model has before it: those since the last cut."""
    start, _ = last_cut(branch)
    return frozenset(entry.id for entry in branch[start:])
