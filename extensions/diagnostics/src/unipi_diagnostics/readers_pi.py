"""Sessions of Pi (versions 1 to 3) and of UniPi, which writes the same format.

UniPi's ledger lies in `custom` entries of the type `unipi.epoch`; Pi has none, and what explains
a miss there is a change of the model or of thinking, a compaction, a pause, or a failed answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from .audit_records import Answer, Mark, Place, count, milliseconds, obj, reported, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .audit_records import Record

LEDGER: Final = "unipi.epoch"
_WORDS: Final = {"thinking": "thinking_level"}
"""The ledger's words that Pi's entries have another name for."""


class Pi:
    """Reads the lines of one session file, its header first."""

    def __init__(self) -> None:
        self._line = -1
        self._seed: str | None = None  # of the ids of version 1, whose entries have none

    def take(self, fields: Mapping[str, object]) -> Iterator[Record]:
        if self._line < 0 and fields.get("type") == "session":
            self._line = 0
            session = text(fields.get("id"))
            if not isinstance(fields.get("version"), int):
                self._seed = session
            yield Place(text(fields.get("cwd")), session)
            return
        record = self._record(fields)
        self._line += 1
        if record is not None:
            yield record

    def end(self) -> Iterator[Record]:
        return iter(())

    def _record(self, fields: Mapping[str, object]) -> Record | None:
        kind = fields.get("type")
        if kind == "message":
            message = obj(fields.get("message"))
            role = message.get("role")
            if role == "assistant":
                return self._answer(fields, message)
            return Mark("prompt", self._line) if role == "user" else None
        when = milliseconds(fields.get("timestamp"))
        if kind == "compaction":
            return Mark("compaction", self._line, when)
        if kind == "thinking_level_change":
            return Mark("thinking_level", self._line, when)
        if kind == "custom" and fields.get("customType") == LEDGER:
            return _boundary(obj(fields.get("data")), self._line, when)
        return None

    def _answer(self, fields: Mapping[str, object], message: Mapping[str, object]) -> Answer:
        usage = message.get("usage")
        numbers = obj(usage)
        silent = numbers.get("unreported")
        unreported = silent if isinstance(silent, list) else []
        stop = message.get("stopReason")
        ended: Literal["ok", "error", "aborted"] = "ok"
        if stop == "error":
            ended = "error"
        elif stop == "aborted":
            ended = "aborted"
        return Answer(
            line=self._line,
            entry=text(fields.get("id")) or self._made_id(fields),
            time=count(message.get("timestamp")) or milliseconds(fields.get("timestamp")),
            provider=text(message.get("provider")),
            model=text(message.get("model")),
            api=text(message.get("api")),
            fresh=count(numbers.get("input")),
            read=None if "cacheRead" in unreported else reported(numbers.get("cacheRead")),
            written=None if "cacheWrite" in unreported else reported(numbers.get("cacheWrite")),
            written_1h=count(numbers.get("cacheWrite1h")),
            output=count(numbers.get("output")),
            cost=_costs(numbers.get("cost")),
            stop=ended,
            key=text(message.get("responseId")),
            reported=isinstance(usage, dict),
        )

    def _made_id(self, fields: Mapping[str, object]) -> str:
        """The id that the host gives to an entry of version 1: a digest of where and what it is."""
        if self._seed is None:
            return ""
        import hashlib

        import orjson

        seed = self._seed.encode("utf-8", "surrogatepass")
        try:
            line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError:
            return f"line {self._line}"
        return hashlib.sha256(b"%s\n%d\n%s" % (seed, self._line, line)).hexdigest()[:8]


def _boundary(data: Mapping[str, object], line: int, when: int) -> Mark:
    cause = text(data.get("cause"))
    price = data.get("price")
    return Mark(
        _WORDS.get(cause, cause) or "unexplained",
        line,
        when,
        recorded=True,
        owner=text(data.get("owner")) or "host",
        avoidable=data.get("avoidable") is True,
        tokens=count(data.get("tokensLost")),
        price=_money(price) if isinstance(price, int | float) else None,
        detail=text(data.get("detail")),
    )


def _costs(value: object) -> Mapping[str, float] | None:
    costs = obj(value)
    if not costs:
        return None
    return {
        "input": _money(costs.get("input")),
        "output": _money(costs.get("output")),
        "read": _money(costs.get("cacheRead")),
        "write": _money(costs.get("cacheWrite")),
    }


def _money(value: object) -> float:
    """US dollars; what is no number, or below nothing, is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return 0.0
    return float(value)
