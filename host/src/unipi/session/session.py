"""The session: a tree of entries, appended to, in a file or in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from unipi.redaction import scrub_bytes
from unipi_hookspecs import CustomMessage, Entry, SummaryMessage

from .entries import message_to_fields
from .errors import SessionError
from .lines import decode, encode
from .opening import Opened, create_new, new_header, open_existing
from .record import Record, cut_off, line_of, record_of
from .secret import SIZE, load_secret
from .times import now_ms, to_iso, uuid7
from .tree import ContextItem, Projection, not_run, path_to, project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from unipi_hookspecs import JSON, Message, ToolCall

    from .errors import Damage


class Session:
    """One session, with one leaf at which it grows.

    It satisfies `unipi_hookspecs.SessionView`. Made by `create` and `open`; closed by `close` or
    by the end of a `with` block.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._store = opened.store
        self._records: list[Record] = []
        self._by_id: dict[str, Record] = {}
        self._leaf: str | None = None
        self._name: str | None = None
        self._secret: bytes | None = None
        self._closed = False
        for record in opened.records:
            self._keep(record)
        opened.records = []

    @classmethod
    def create(
        cls,
        path: Path | None,
        *,
        cwd: Path,
        id: str | None = None,  # noqa: A002 - Pi's word
        parent: Path | None = None,
    ) -> Session:
        """Start a session in a new file, or in memory when `path` is None.

        The header is on disk when this returns. `parent` is the session file that this one was
        made for (a helper's, a side thread's). Raises SessionError when the file exists or cannot
        be created, SessionLocked when another process is creating it.
        """
        header = new_header(cwd.absolute(), id)
        if parent is not None:
            header["parentSession"] = str(parent.absolute())
        return cls(create_new(path, header))

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Session:
        """Open a session file; the leaf is its last entry.

        Opening changes no byte of it, but for a torn tail, which is set aside when the session is
        opened for writing. A file of version 1 or 2 stays as it is: the first append goes to a
        migrated copy next to it, and `notice` says so. Raises SessionError for what is no session,
        SessionLocked when another process writes it.
        """
        return cls(open_existing(Path(path), read_only=read_only))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def header(self) -> Mapping[str, JSON]:
        """The first line's object, as version 3."""
        return self._opened.header

    @property
    def id(self) -> str:
        return str(self.header["id"])

    @property
    def path(self) -> Path | None:
        """The session file; None in memory. Changes once when an old version is first appended to."""
        return self._opened.path

    @property
    def cwd(self) -> Path:
        return Path(str(self.header.get("cwd") or "."))

    @property
    def name(self) -> str | None:
        """The name that the user last gave; an empty one clears it."""
        return self._name

    @property
    def leaf_id(self) -> str | None:
        return self._leaf

    @property
    def read_only(self) -> bool:
        return self._opened.read_only

    @property
    def damages(self) -> tuple[Damage, ...]:
        """What could not be used of the file."""
        return tuple(self._opened.damages)

    @property
    def notice(self) -> str | None:
        """Something about the file that the user should be told, or None."""
        if self._store is not None and self._store.foreign_bytes:
            return f"{self.path}: another program writes to this file as well and takes no lock"
        return self._opened.notice

    @property
    def unsaved(self) -> int:
        """How many entries are not on disk; 0 in memory."""
        return self._store.unsaved if self._store is not None else 0

    @property
    def stuck(self) -> bool:
        """Whether an entry could not even be handed to the system; `sync` says why, or mends it."""
        return self._store is not None and self._store.stuck

    def entries(self) -> list[Entry]:
        """All entries, in file order."""
        return [record.entry() for record in self._records]

    def branch(self) -> list[Entry]:
        """From the root to the current leaf."""
        return [record.entry() for record in path_to(self._by_id, self._leaf)]

    def context(self, *, repair: bool = False) -> list[ContextItem]:
        """What the model sees of the current branch, compactions applied; see `tree.project`.

        With `repair`, calls without a result get one that says so, in memory alone.
        """
        return self._project(repair=repair).items

    def messages(self) -> list[Message]:
        """The messages of `context`."""
        return [item.message for item in self.context()]

    def left_out(self) -> list[str]:
        """What `context` leaves out, a line each: entry id, kind, reason."""
        return self._project().left_out

    def open_calls(self) -> list[ToolCall]:
        """Calls of the branch's last answer that have no result yet, in source order."""
        return self._project().open_calls

    def _project(self, *, repair: bool = False) -> Projection:
        return project(path_to(self._by_id, self._leaf), repair=repair)

    def close_open_calls(self, reason: str) -> list[Entry]:
        """Append a result `not run: {reason}` for every open call; returns the new entries."""
        now = now_ms()
        return [self.append_message(not_run(call, reason, now)) for call in self.open_calls()]

    def append_message(self, message: Message) -> Entry:
        """Append what somebody said at the leaf; a timestamp of 0 becomes the time of now.

        Constant time. The entry is handed to the operating system at once; `sync` puts it on
        disk. Raises SessionError when the session is read-only or closed, TypeError for a
        summary.
        """
        if isinstance(message, SummaryMessage):
            raise TypeError(
                "a summary is appended with append('compaction', …) or append('branch_summary', …)"
            )
        if message.timestamp <= 0:
            message = evolve(message, timestamp=now_ms())
        fields = message_to_fields(message)
        # A custom message's time is its entry's, to the millisecond, so that it reads back equal.
        when = str(fields["timestamp"]) if isinstance(message, CustomMessage) else to_iso(now_ms())
        kind, new, parent = str(fields["type"]), self._new_id(), self._leaf
        line: dict[str, JSON] = {"type": kind, "id": new, "parentId": parent, "timestamp": when}
        line.update(fields)
        self._write(line)
        self._keep(Record(kind, new, parent, when, None, message))
        return Entry(kind, new, parent, when, line, message)

    def append(self, type: str, fields: Mapping[str, JSON]) -> Entry:  # noqa: A002 - Pi's word
        """Append an entry of any type at the leaf, such as `compaction`, `label`, `model_change`.

        `fields` are those of its own, in Pi's spelling; id, parent and time are added. Raises
        SessionError when the session is read-only or closed, or for what JSON cannot carry.
        """
        line = line_of(type, self._new_id(), self._leaf, to_iso(now_ms()), fields)
        data = self._write(line)
        # Read back, so that what we hold equals what a later process reads, and stays so when the
        # caller changes its own copy.
        record = record_of(decode(data)[0])
        self._keep(record)
        return record.entry()

    def append_custom(self, custom_type: str, data: JSON = None) -> Entry:
        """Keep `data` in the session, out of the model's sight."""
        fields: dict[str, JSON] = {"customType": custom_type}
        if data is not None:
            fields["data"] = data
        return self.append("custom", fields)

    def custom(self, custom_type: str) -> JSON:
        """The data of the branch's last custom entry of this type, or None."""
        record = self._by_id.get(self._leaf or "")
        seen = 0
        while record is not None and seen <= len(self._records):
            fields = record.fields
            if record.type == "custom" and fields.get("customType") == custom_type:
                return fields.get("data")
            record = self._by_id.get(record.parent_id or "")
            seen += 1
        return None

    def sync(self) -> None:
        """Put everything on disk; nothing is done when it is there already.

        Raises SessionWriteError when that fails (a full disk …). The entries stay pending and
        another call tries again.
        """
        if self._store is not None:
            self._store.sync()

    def move_leaf(self, entry_id: str | None) -> None:
        """Let the session go on from another entry, or from the very start (None).

        In memory alone: a move that nothing is appended to is not remembered, as in Pi.
        """
        if entry_id is not None and entry_id not in self._by_id:
            raise SessionError(f"{self._where()} has no entry {entry_id}")
        self._leaf = entry_id

    def fork(self, path: Path | None, entry_id: str | None) -> Session:
        """Start a new session that holds the branch up to an entry (Pi's rule).

        Entries keep ids, times and content; labels are taken out of the chain and set again at
        its end. The header names this file as the parent, and the entry in `forkedFrom`, which
        tells a fork from a helper's session. The fork inherits the secret, so that it can prove
        that its requests go on where this session's ended. Raises SessionError as `create` does.
        """
        if entry_id is not None and entry_id not in self._by_id:
            raise SessionError(f"{self._where()} has no entry {entry_id}")
        header = new_header(self.cwd)
        header["forkedFrom"] = entry_id
        if self.path is not None:
            header["parentSession"] = str(self.path)
        forked = Session(create_new(path, header, self._fork_lines(entry_id)))
        forked._secret = self.secret()
        if path is not None:
            load_secret(path, read_only=False, default=forked._secret)
        return forked

    def _fork_lines(self, entry_id: str | None) -> list[dict[str, JSON]]:
        lines: list[dict[str, JSON]] = []
        parent: str | None = None
        for record in path_to(self._by_id, entry_id):
            if record.type == "label":
                continue
            lines.append({**record.fields, "parentId": parent})
            parent = record.id
        kept = {str(line["id"]) for line in lines}
        for target, label in self._labels().items():
            if target in kept:
                new = self._new_id()
                own: dict[str, JSON] = {"targetId": target, "label": label}
                lines.append(line_of("label", new, parent, to_iso(now_ms()), own))
                parent = new
        return lines

    def _labels(self) -> dict[str, str]:
        labels: dict[str, str] = {}
        for record in self._records:
            if record.type == "label":
                target, label = str(record.fields.get("targetId")), record.fields.get("label")
                labels.pop(target, None)
                if isinstance(label, str) and label:
                    labels[target] = label
        return labels

    def secret(self) -> bytes:
        """32 bytes that only this session knows, kept beside its file (`.key`, mode 0600).

        Random, and of this process alone, for a session in memory or read-only without one.
        """
        if self._secret is None:
            if self.path is None:
                self._secret = os.urandom(SIZE)
            else:
                self._secret = load_secret(self.path, read_only=self.read_only)
        return self._secret

    def close(self) -> None:
        """Put everything on disk and give the lock back; more than once does no harm.

        Raises SessionWriteError, after closing, when entries could not be saved.
        """
        if self._closed:
            return
        try:
            self.sync()
        finally:
            self._closed = True
            self._opened.close()

    def _write(self, line: Mapping[str, JSON]) -> bytes:
        if self._closed:
            raise SessionError(f"{self._where()} is closed")
        if self.read_only:
            raise SessionError(f"{self._where()} is open read-only; fork it to go on")
        data = encode(line)
        if line["type"] == "custom":  # messages were looked through at their own doors
            data = scrub_bytes(data)
        if self._store is None:
            return data
        before = self.path
        self._store.append(data)
        if before != self.path and self._secret is not None and self.path is not None:
            load_secret(self.path, read_only=False, default=self._secret)
        return data

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        self._by_id[record.id] = record
        self._leaf = record.id
        if record.type == "compaction":
            cut_off(self._by_id, record)
        if record.type == "session_info":
            name = record.fields.get("name")
            self._name = (name.strip() or None) if isinstance(name, str) else None

    def _new_id(self) -> str:
        for _ in range(100):
            new = os.urandom(4).hex()
            if new not in self._by_id:
                return new
        return uuid7()

    def _where(self) -> str:
        return str(self.path) if self.path is not None else "the session in memory"
