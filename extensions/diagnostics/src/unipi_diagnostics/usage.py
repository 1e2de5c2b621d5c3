"""What the providers reported, each answer counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, field

if TYPE_CHECKING:
    from unipi_hookspecs import ProviderResponseEndEvent, Usage


@define
class UsageLedger:
    """Totals over the answers of one session, in tokens; `cost` is in US dollars.

    An answer is known by its response id, else by its request id and attempt. Aborted and failed
    answers count too: they are billed. `read` and `prompt` cover only the answers whose provider
    reports cache reads and whose prompt was not empty, so that a silent provider does not drag
    the share down.
    """

    answers: int = 0
    reporting: int = 0
    unsuccessful: int = 0
    repeated_attempts: int = 0
    fresh: int = 0
    read: int = 0
    prompt: int = 0
    written: int | None = None
    output: int = 0
    cost: float | None = None
    last: Usage | None = None
    _seen: set[tuple[str, int]] = field(default=Factory(set), repr=False)

    def add(self, event: ProviderResponseEndEvent) -> None:
        """Count an answer, unless it was counted before."""
        key = (event.response_id, -1) if event.response_id else _attempt(event)
        if key in self._seen:
            return
        self._seen.add(key)
        self.answers += 1
        self.unsuccessful += event.stop_reason in ("error", "aborted")
        self.repeated_attempts += event.info.attempt > 0
        self.last = event.usage
        if event.usage is not None:
            self._count(event.usage)

    def _count(self, usage: Usage) -> None:
        self.fresh += usage.input
        self.output += usage.output
        if usage.cache_write is not None:
            self.written = (self.written or 0) + usage.cache_write
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost.total
        if reports_reads(usage):
            self.reporting += 1
            self.read += usage.cache_read or 0
            self.prompt += usage.prompt


def reports_reads(usage: Usage | None) -> bool:
    """Whether a share of tokens read from the cache can be told from this usage."""
    return usage is not None and usage.cache_read is not None and usage.prompt > 0


def _attempt(event: ProviderResponseEndEvent) -> tuple[str, int]:
    return event.info.request_id, event.info.attempt
