"""Request bodies from a log, each compared with the one that it goes on from.

A log may hold several conversations, taken turns about: an agent and its sub-agents. A body goes on
from the one of which it keeps the most; one that shares no message with any begins a conversation.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from attrs import frozen

from .compare import Finding, compare
from .structure import SEQUENCES, parse
from .transition import BREAKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from .structure import Structure

CONVERSATIONS: Final = 16
"""The conversations whose last request is kept; the one that was silent longest is forgotten."""

_WRAPPED: Final = ("body", "request", "payload")
_NAMES: Final = ("session", "session_id", "conversation")


@frozen
class Row:
    """One request: `index` counts from 0, `line` from 1; `conversation` is a number from 0."""

    index: int
    line: int
    conversation: int
    finding: Finding

    @property
    def broke(self) -> bool:
        return self.finding.transition in BREAKS

    def to_json(self) -> dict[str, object]:
        """The row as `unipi cache audit --requests --json` prints it."""
        from .cli_text import plain

        finding = self.finding
        return {
            "index": self.index,
            "transition": finding.transition,
            "location": plain(finding.location, 400),
            "kind": finding.kind,
            "detail": plain(finding.detail),
            "surviving_bytes": finding.surviving_bytes,
            "marker_only": finding.marker_only,
            "conversation": self.conversation,
            "line": self.line,
        }


@frozen
class Skipped:
    """A line that holds no request body."""

    line: int


class Conversations:
    """Finds the request that another goes on from."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._last: dict[int, tuple[Structure, str]] = {}
        self._begun = 0

    def take(self, body: bytes, name: str = "") -> tuple[int, Finding]:
        """The conversation's number, and what changed since its last request.

        `name` is what the log calls the conversation, where it does: then nothing is guessed.
        Raises ValueError when the body is no JSON object.
        """
        current = parse(body, self._key)
        number, finding = self._match(current, name)
        if number < 0:
            number, self._begun = self._begun, self._begun + 1
        self._last.pop(number, None)
        self._last[number] = (current, name)
        if len(self._last) > CONVERSATIONS:
            del self._last[next(iter(self._last))]
        return number, finding

    def _match(self, current: Structure, name: str) -> tuple[int, Finding]:
        """The conversation that keeps most, the latest first of equals; -1 for a new one."""
        best = (-1, Finding("first_request"))
        rank = (False, -1)
        said = {item.rendered for item in current.messages}
        for number, (structure, known) in reversed(self._last.items()):
            if known != name:
                continue
            related = not structure.messages or not said or bool(name)
            if not related and said.isdisjoint(item.rendered for item in structure.messages):
                continue
            finding = compare(structure, current)
            here = (finding.transition not in BREAKS, finding.surviving_bytes)
            if here > rank:
                best, rank = (number, finding), here
        return best


def compare_file(path: Path) -> Iterator[Row | Skipped]:
    """The requests of a JSONL file: bare bodies, or objects with one as `body` or `request`.

    A body that stands in an object as text is taken as it is; one that is an object itself is
    written anew, so that its white space and escapes are not those of the wire. An object may
    name its conversation as `session`. Raises OSError.
    """
    with path.open("rb") as file:
        yield from compare_lines(file)


def compare_lines(lines: Iterable[bytes]) -> Iterator[Row | Skipped]:
    """As `compare_file`, from lines that are already read."""
    conversations, index = Conversations(), 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _body(line)
        if found is None:
            yield Skipped(number)
            continue
        try:
            conversation, finding = conversations.take(*found)
        except ValueError:
            yield Skipped(number)
            continue
        yield Row(index, number, conversation, finding)
        index += 1


def summary(rows: Iterable[Row | Skipped]) -> dict[str, int]:
    """How many requests there were, how many broke a prefix, and how many lines were none."""
    found = [row for row in rows if isinstance(row, Row)]
    return {
        "requests": len(found),
        "breaks": sum(row.broke for row in found),
        "conversations": len({row.conversation for row in found}),
    }


def _body(line: bytes) -> tuple[bytes, str] | None:
    """The request body of a line and the name of its conversation; None when it has none."""
    from .readers import decode

    fields = decode(line)
    if fields is None:
        return None
    if any(name in fields for name in SEQUENCES):
        return line.strip(), ""
    name = next((str(fields[key]) for key in _NAMES if isinstance(fields.get(key), str)), "")
    for key in _WRAPPED:
        inner = fields.get(key)
        if isinstance(inner, str):
            found = decode(inner.encode("utf-8", "surrogatepass"))
            if found is not None and any(known in found for known in SEQUENCES):
                return inner.encode("utf-8", "surrogatepass"), name
        elif isinstance(inner, dict) and any(known in inner for known in SEQUENCES):
            return _written(inner), name
    return None


def _written(value: Mapping[str, object]) -> bytes:
    import json

    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
