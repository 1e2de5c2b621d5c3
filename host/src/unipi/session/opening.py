"""Creating and opening session files: lock, scan, migration, what to do with a torn tail."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from .errors import Damage, SessionError, SessionWriteError
from .lines import Scan, encode, read_header, scan
from .lock import Lock, acquire
from .migrate import CURRENT, migrate, version_of
from .record import Record, Source, cut_off, record_of
from .store import Store, create_file, make_folder, open_file, set_aside, sync_folder, write_all
from .times import now_ms, to_iso, uuid7

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unipi_hookspecs import JSON

    Fields = dict[str, JSON]


@define
class Opened:
    """A session file as it was found, and the way to write to it.

    `store` is None in memory and read-only. `path` moves when the first append migrates the file.
    """

    path: Path | None
    header: Fields
    records: list[Record] = field(factory=list)
    read_only: bool = False
    damages: list[Damage] = field(factory=list)
    notice: str | None = None
    store: Store | None = None
    locks: list[Lock] = field(factory=list)

    def close(self) -> None:
        """Close the file and give back the locks."""
        if self.store is not None:
            self.store.close()
        for lock in self.locks:
            lock.release()


def new_header(cwd: Path, id: str | None = None) -> Fields:  # noqa: A002 - Pi's word
    """The header of a session that starts now."""
    return {
        "type": "session",
        "version": CURRENT,
        "id": id or uuid7(),
        "timestamp": to_iso(now_ms()),
        "cwd": str(cwd),
    }


def create_new(path: Path | None, header: Fields, entries: Sequence[Fields] = ()) -> Opened:
    """Start a session with a header and entries, on disk when this returns, or in memory."""
    if path is None:
        return Opened(None, header, [record_of(fields) for fields in entries])
    path = path.absolute()
    try:
        make_folder(path.parent)
    except OSError as error:
        raise SessionError(f"{path.parent}: {error.strerror or error}") from None
    if path.exists():
        raise SessionError(f"{path} exists already; open it, or choose another name")
    lock = acquire(path)
    try:
        _write_new(path, (encode(fields) for fields in (header, *entries)))
    except FileExistsError:
        lock.release()
        raise SessionError(f"{path} exists already; open it, or choose another name") from None
    except OSError as error:
        lock.release()
        raise SessionWriteError(path, error.strerror or str(error), 1 + len(entries)) from None
    store = Store(path, partial(open_file, path))
    records = [record_of(fields) for fields in entries]
    return Opened(path, header, records, store=store, locks=[lock])


def open_existing(path: Path, *, read_only: bool) -> Opened:
    """Open a session file; see `Session.open`."""
    path = path.absolute()
    _check_header(path)
    locks = [] if read_only else [acquire(path)]
    try:
        with _no_collection():
            entries = _Entries(path)
            found = scan(path, entries.take)
        if found.header is None:
            return _open_empty(path, found, locks, read_only=read_only)
        return _open_scanned(path, found.header, found, entries, locks, read_only=read_only)
    except BaseException:
        for lock in locks:
            lock.release()
        raise


def _check_header(path: Path) -> None:
    """Refuse what is no session before a lock file is made beside it."""
    try:
        with path.open("rb") as file:
            read_header(path, file)
    except FileNotFoundError:
        raise SessionError(f"{path}: no such file") from None
    except OSError as error:
        raise SessionError(f"{path}: {error.strerror or error}") from None


def _open_empty(path: Path, found: Scan, locks: list[Lock], *, read_only: bool) -> Opened:
    header = new_header(Path.cwd())
    opened = Opened(path, header, read_only=read_only, locks=locks)
    if not read_only:
        opened.store = Store(path, partial(open_file, path), open_line=found.open_line)
        opened.store.append(encode(header))
        opened.store.sync()
        opened.notice = f"{path} was empty; a new session was started in it"
    return opened


def _open_scanned(
    path: Path,
    header: Fields,
    found: Scan,
    entries: _Entries,
    locks: list[Lock],
    *,
    read_only: bool,
) -> Opened:
    old = version_of(header) < CURRENT
    moved = _deal_with_torn(path, found, keep=read_only or old)
    if old:
        header = entries.migrate(header)
    damages = sorted((*found.damages, *entries.damages), key=lambda damage: damage.offset)
    opened = Opened(
        path, header, entries.records, read_only=read_only, damages=damages, locks=locks
    )
    if moved is not None:
        opened.notice = f"{path}: a torn last line was set aside to {moved.name}"
    if read_only:
        return opened
    if old:
        _prepare_copy(opened, path)
    else:
        opened.store = Store(path, partial(open_file, path), open_line=found.open_line)
    return opened


def _deal_with_torn(path: Path, found: Scan, *, keep: bool) -> Path | None:
    if not found.torn:
        return None
    damage = Damage(found.size, f"the last line is torn ({len(found.torn)} bytes)")
    if not keep:
        try:
            damage = evolve(damage, moved_to=set_aside(path, found.size, found.torn))
        except OSError as error:
            raise SessionError(
                f"{path}: its torn last line (byte {found.size}) cannot be set aside: "
                f"{error.strerror or error}; open the session read-only"
            ) from None
    found.damages.append(damage)
    return damage.moved_to


class _Entries:
    """The entries of a file as they are read; those of an old version are kept as they came."""

    def __init__(self, path: Path) -> None:
        self.records: list[Record] = []
        self.damages: list[Damage] = []
        self._by_id: dict[str, Record] = {}
        self._old: list[tuple[Fields, int]] = []
        try:
            with path.open("rb") as file:
                header, _, _ = read_header(path, file)
            current = header is None or version_of(header) >= CURRENT
            self._source = Source(path) if current else None
        except OSError as error:
            raise SessionError(f"{path}: {error.strerror or error}") from None

    def take(self, fields: Fields, offset: int, /) -> None:
        if self._source is None:
            self._old.append((fields, offset))
            return
        record = self._add(fields, offset)
        if record is None:
            return
        if record.type == "compaction":
            cut_off(self._by_id, record)
        else:
            record.shrink()

    def migrate(self, header: Fields) -> Fields:
        """Take what is of an old version as version 3, in memory; returns the new header."""
        header, entries = migrate(header, [fields for fields, _ in self._old])
        for fields, (_, offset) in zip(entries, self._old, strict=True):
            self._add(fields, offset)
        self._old = []
        return header

    def _add(self, fields: Fields, offset: int) -> Record | None:
        entry_id = fields.get("id")
        if not isinstance(entry_id, str) or fields.get("type") == "session":
            self.damages.append(Damage(offset, "an object that is no entry was skipped"))
            return None
        if entry_id in self._by_id:
            self.damages.append(Damage(offset, f"the id {entry_id!s:.40} is used twice"))
        record = record_of(fields, self._source, offset)
        if self.records and record.parent_id == self.records[-1].id:
            record.parent_id = self.records[-1].id  # one text for both
        self._by_id[entry_id] = record
        self.records.append(record)
        return record


@contextmanager
def _no_collection() -> Iterator[None]:
    """Reading makes objects by the ten thousand and no garbage: looking for some takes half the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _prepare_copy(opened: Opened, old: Path) -> None:
    """Let the first append write a migrated copy beside the old file and go on there.

    Lines of version 3 in a file of version 1 would be read by nobody.
    """
    entries = [record.fields for record in opened.records]

    def open_target() -> int:
        target = _free_name(old)
        lock = acquire(target)
        try:
            lines = (encode(fields) for fields in (opened.header, *entries))
            _write_new(target, lines)
            fd = open_file(target)
        except BaseException:
            lock.release()
            raise
        opened.locks.append(lock)
        opened.path = store.path = target
        opened.notice = f"{old} is of an older version and stays as it is; {target} goes on from it"
        return fd

    store = opened.store = Store(old, open_target)
    opened.notice = f"{old} is of an older version; the first new entry goes to a migrated copy"
    copy = old.with_name(f"{old.stem}.v3.jsonl")
    if copy.exists():
        opened.notice += f". It has been gone on from before: {copy}"


def _free_name(old: Path) -> Path:
    target = old.with_name(f"{old.stem}.v3.jsonl")
    number = 1
    while target.exists():
        number += 1
        target = old.with_name(f"{old.stem}.v3-{number}.jsonl")
    return target


def _write_new(path: Path, lines: Iterable[bytes]) -> None:
    """Write a new file, on disk and whole when this returns, not there at all when it fails.

    Raises OSError, FileExistsError when there is one.
    """
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        fd = create_file(part)
        try:
            for line in lines:
                write_all(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)
        if path.exists():
            raise FileExistsError(path)
        part.rename(path)  # atomic, and nobody else makes it: we hold its lock
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
