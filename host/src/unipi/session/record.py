"""An entry as it is kept in memory: as little of it as is still needed.

What the model sees is kept as a message; the rest of a message's line is read from the file again
when somebody asks for it. What a compaction has cut off is read again altogether, so that a session
takes the memory of what is live in it, and not of all that was ever said.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from sys import intern
from typing import TYPE_CHECKING

from attrs import define

from unipi_hookspecs import Entry

from .entries import message_from_fields, message_to_fields
from .lines import decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unipi_hookspecs import JSON, Message

_SAYING = frozenset({"message", "custom_message"})
"""Types whose lines are large, and of which a message says all that is asked for every day."""


class Source:
    """A session file that is open to be read again, until nobody holds on to it any more."""

    def __init__(self, path: Path) -> None:
        file = path.open("rb")
        weakref.finalize(self, file.close)
        self._file = file
        self._one = threading.Lock()

    def line(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes. Raises OSError."""
        with self._one:
            self._file.seek(offset)
            return self._file.readline()


@define(eq=False)
class Record:
    """One entry. Of `own` (its line) and `said` (its message) one may be missing.

    `source` is where the line can be read again, at `offset` in bytes; None for what this process
    has appended.
    """

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    own: Mapping[str, JSON] | None
    said: Message | None = None
    read: bool = False
    source: Source | None = None
    offset: int = 0

    @property
    def fields(self) -> Mapping[str, JSON]:
        """The whole line."""
        if self.own is not None:
            return self.own
        return Line(self)

    @property
    def message(self) -> Message | None:
        """What the entry says to the model, or None."""
        if self.read or (self.own is None and self.said is not None):
            return self.said
        if self.own is None:
            return message_from_fields(self.load())  # cut off long ago: it is not kept
        self.said, self.read = message_from_fields(self.own), True
        return self.said

    def entry(self) -> Entry:
        """The entry as plugins see it."""
        return Entry(self.type, self.id, self.parent_id, self.timestamp, self.fields, self.message)

    def load(self) -> Mapping[str, JSON]:
        """The whole line as plain data, from the file if need be."""
        if self.own is not None:
            return self.own
        if self.source is not None:
            try:
                fields, _ = decode(self.source.line(self.offset))
            except (OSError, ValueError):
                fields = {}  # somebody else has written over it
            if fields.get("id") == self.id:
                return fields
        if self.said is None:
            return line_of(self.type, self.id, self.parent_id, self.timestamp, {})
        fields = message_to_fields(self.said)
        return line_of(self.type, self.id, self.parent_id, self.timestamp, fields)

    def shrink(self) -> None:
        """Keep the message and not the line, where the line can be read again."""
        if self.source is None or self.own is None or self.type not in _SAYING:
            return
        if self.message is not None:
            self.own = None

    def let_go(self) -> bool:
        """Keep neither, as a compaction has cut it off; False when that was done before."""
        if self.source is None or self.type not in _SAYING:
            return True
        gone = self.own is None and self.said is None
        self.own = self.said = None
        self.read = False
        return not gone


class Line(Mapping[str, "JSON"]):
    """A line's fields, read when they are looked at."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getitem__(self, key: str) -> JSON:
        return self._record.load()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.load())

    def __len__(self) -> int:
        return len(self._record.load())

    def __repr__(self) -> str:
        return repr(self._record.load())


def line_of(
    kind: str, entry_id: str, parent: str | None, when: str, fields: Mapping[str, JSON]
) -> dict[str, JSON]:
    """A line: what all entries have in front, and not to be overridden by `fields`."""
    common: dict[str, JSON] = {
        "type": kind,
        "id": entry_id,
        "parentId": parent,
        "timestamp": when,
    }
    return {**common, **fields, **common}


def record_of(fields: Mapping[str, JSON], source: Source | None = None, offset: int = 0) -> Record:
    """What was read from a line, or given as one."""
    parent = fields.get("parentId")
    return Record(
        intern(str(fields.get("type", ""))),
        str(fields["id"]),
        parent if isinstance(parent, str) else None,
        str(fields.get("timestamp", "")),
        fields,
        None,
        False,  # noqa: FBT003 - in a row, as this is done for every line of a file
        source,
        offset,
    )


def cut_off(records: Mapping[str, Record], compaction: Record) -> None:
    """Let go of what a compaction has cut off; `records` are those before it, by id."""
    first = compaction.fields.get("firstKeptEntryId")
    record, cut = records.get(compaction.parent_id or ""), False
    for _ in range(len(records)):
        if record is None or (cut and not record.let_go()):
            return
        cut = cut or record.id == first
        record = records.get(record.parent_id or "")
