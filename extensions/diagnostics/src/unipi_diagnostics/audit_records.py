"""What an audit keeps of a recorded session: numbers, names and times, none of what was said.

Every reader turns its format into these two values, in the order of the file.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN: Final = "main"
"""The lane of the conversation itself; a sub-agent's requests run in a lane of their own."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Answer:
    """One answer of a model and what its provider reported, in tokens.

    `fresh` counts prompt tokens that were neither read nor written. `read` and `written` are None
    where the provider does not report them. `time` is in Unix milliseconds, `cost` in US dollars
    as recorded, by kind (`input`, `output`, `read`, `write`). `key` is the provider's own id, so
    that a copy of the answer in another file is known again. `line` counts the file's entries
    from 0, its header aside. `reason` is one of the audit's causes, where the provider itself said
    why it missed.
    """

    line: int
    entry: str
    time: int
    provider: str = ""
    model: str = ""
    api: str = ""
    fresh: int = 0
    read: int | None = None
    written: int | None = None
    written_1h: int = 0
    output: int = 0
    cost: Mapping[str, float] | None = None
    stop: Literal["ok", "error", "aborted"] = "ok"
    lane: str = MAIN
    key: str = ""
    reported: bool = True
    reason: str = ""

    @property
    def prompt(self) -> int:
        """All prompt tokens: fresh, read and written."""
        return self.fresh + (self.read or 0) + (self.written or 0)


@frozen
class Mark:
    """Something between two answers that may explain a miss.

    `cause` is one of the audit's causes, or `prompt` for a user's new message, which explains
    nothing and says where a miss stands. `recorded` marks a boundary of the host's own ledger:
    then owner, price and whether it was avoidable are known. `lane` None means every lane.
    """

    cause: str
    line: int = 0
    time: int = 0
    lane: str | None = MAIN
    recorded: bool = False
    owner: str = ""
    avoidable: bool = False
    tokens: int = 0
    price: float | None = None
    detail: str = ""


@frozen
class Place:
    """Where a session ran: `project` is its working folder; `session` its id."""

    project: str = ""
    session: str = ""


Record: TypeAlias = Answer | Mark | Place


def milliseconds(value: object) -> int:
    """Unix milliseconds of an ISO time; 0 for what is none."""
    if not isinstance(value, str):
        return 0
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - _EPOCH
    return max(0, (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000)


def day(time: int) -> str:
    """The day of a time in UTC, `2026-11-30`; `unknown` where none was recorded."""
    if time <= 0:
        return "unknown"
    try:
        return datetime.fromtimestamp(time / 1000, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return "unknown"


def iso(time: int) -> str:
    """A time as `2026-11-30T10:00:00.000Z`; empty where none was recorded."""
    if time <= 0:
        return ""
    try:
        moment = datetime.fromtimestamp(time // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time % 1000:03d}Z"


def obj(value: object) -> Mapping[str, object]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A number of tokens: what is none, or below nothing, is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**53:
        return 0
    return int(value)


def reported(value: object) -> int | None:
    """A number of tokens, or None where there is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return count(value)
