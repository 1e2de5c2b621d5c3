"""What the provider's cache did in a recorded session, from the usage it reported.

A miss is an answered assistant message whose cache read is under 90 % of the prompt of the
answered one before it: most of what the provider had seen was paid for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import define, field, frozen

from unipi_hookspecs import AssistantMessage

from .times import from_iso

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unipi_hookspecs import JSON, Entry, Usage

Cause: TypeAlias = Literal[
    "compaction", "model", "thinking_level", "idle", "after_abort", "after_error", "unexplained"
]
CAUSES: Final[tuple[Cause, ...]] = (
    "compaction",
    "model",
    "thinking_level",
    "idle",
    "after_abort",
    "after_error",
    "unexplained",
)
"""In the order in which they are looked for: the first that holds is the cause of a miss."""

DEFAULT_TTL: Final = 300
"""Seconds for which a provider keeps a prompt (Anthropic's default, reference docs 2025)."""

_SHARE: Final = 0.9


@frozen
class Miss:
    """One miss: `index` counts the answered messages from 0, `line` the entries from 0."""

    index: int
    line: int
    entry_id: str
    timestamp: str
    seconds: float
    tokens: int
    cause: Cause


@frozen
class AuditReport:
    """The cache's record over a session.

    `unreported` counts answered messages whose provider said nothing about its cache; they are
    no misses. `recorded_share` is read / (read + written + input), from 0 to 1, over every usage
    that was recorded: failed and aborted answers are paid for too.
    """

    answered: int
    recorded_share: float
    rows: tuple[Miss, ...]
    unreported: int = 0

    @property
    def tokens_paid_again(self) -> int:
        return sum(row.tokens for row in self.rows)

    def to_json(self) -> dict[str, JSON]:
        """The report as `unipi cache audit --json` prints it."""
        causes = [cause for cause in CAUSES if any(row.cause == cause for row in self.rows)]
        return {
            "answered": self.answered,
            "misses": len(self.rows),
            "tokens_paid_again": self.tokens_paid_again,
            "recorded_share": round(self.recorded_share, 6),
            "by_cause": {cause: self._total(cause) for cause in causes},
            "rows": [
                {
                    "index": row.index,
                    "line": row.line,
                    "entry": row.entry_id,
                    "timestamp": row.timestamp,
                    "seconds": row.seconds,
                    "tokens": row.tokens,
                    "cause": row.cause,
                }
                for row in self.rows
            ],
            "unreported": self.unreported,
        }

    def _total(self, cause: Cause) -> dict[str, JSON]:
        rows = [row for row in self.rows if row.cause == cause]
        return {"misses": len(rows), "tokens": sum(row.tokens for row in rows)}


@define
class _Since:
    """What happened since the last answered message."""

    seen: set[Cause] = field(factory=set)

    def note(self, entry: Entry) -> None:
        if entry.type == "compaction":
            self.seen.add("compaction")
        elif entry.type == "thinking_level_change":
            self.seen.add("thinking_level")
        elif isinstance(entry.message, AssistantMessage):
            failed = entry.message.stop_reason == "error"
            self.seen.add("after_error" if failed else "after_abort")


def audit(entries: Iterable[Entry], ttl_seconds: float = DEFAULT_TTL) -> AuditReport:
    """Find the misses among entries in file order, all lines counted, and their causes.

    `idle` is a pause of more than `ttl_seconds` between two answers.
    """
    rows: list[Miss] = []
    since = _Since()
    previous: AssistantMessage | None = None
    before = 0
    answered = unreported = read = prompt = 0
    for line, entry in enumerate(entries):
        message = entry.message
        if isinstance(message, AssistantMessage) and message.usage is not None:
            read += message.usage.cache_read or 0
            prompt += message.usage.prompt
        if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
            since.note(entry)
            continue
        usage = message.usage
        when = message.timestamp or from_iso(entry.timestamp)
        if usage is not None and usage.cache_read is not None:
            seconds = max(0, when - before) / 1000
            paid_again = _paid_again(previous.usage if previous else None, usage.cache_read)
            if previous is not None and paid_again:
                if seconds > ttl_seconds:
                    since.seen.add("idle")
                if (previous.provider, previous.model) != (message.provider, message.model):
                    since.seen.add("model")
                cause: Cause = next((c for c in CAUSES if c in since.seen), "unexplained")
                rows.append(
                    Miss(answered, line, entry.id, entry.timestamp, seconds, paid_again, cause)
                )
        else:
            unreported += 1
        answered += 1
        previous, before, since = message, when, _Since()
    return AuditReport(answered, read / prompt if prompt else 0.0, tuple(rows), unreported)


def _paid_again(previous: Usage | None, cache_read: int) -> int:
    """Tokens of the previous prompt that were not read back, or 0 when it is no miss."""
    if previous is None or cache_read >= _SHARE * previous.prompt:
        return 0
    return previous.prompt - cache_read
