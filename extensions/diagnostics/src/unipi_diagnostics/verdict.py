"""What the provider should have read of a request, what it says it read, and why it was less.

Eligible is what the last request of the lineage had and this one still begins with. What a provider
does not report is never called a miss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import define, frozen

if TYPE_CHECKING:
    from unipi_hookspecs import CacheState, Usage

    from .session import BoundarySeen

Kind: TypeAlias = Literal["first", "hit", "partial", "miss", "not_reported"]

LOOK_BACK: Final = 20
"""Blocks that Anthropic tries before a marker ("Prompt caching", 2026-08-22)."""

_GRAIN: Final = 256
"""Tokens that a provider's own grain may leave unread: OpenAI reads in steps of 128 before GPT-5.6,
the paged caches of engines in blocks of 16 to 256 ("Prompt caching"; vLLM and SGLang documents)."""

_SHARE: Final = 0.02


@define
class Expectation:
    """What can be said of a request when it is sent.

    `tokens` could be read; None when nothing was sent before it on this lineage, or nobody counted.
    `whole`: that is all of the last prompt.
    `blocks` are new since the last request (Anthropic's), `marked` whether a marker stands among
    them. `boundary` is the one that it crosses, if any, and `where` the place of a change.
    """

    number: int
    tokens: int | None
    boundary: BoundarySeen | None = None
    where: str = ""
    whole: bool = True
    blocks: int = 0
    marked: bool = False


@frozen
class Verdict:
    """The outcome of one answered request; `reason` says why it was no hit, where that is known."""

    number: int
    kind: Kind
    expected: int = 0
    read: int = 0
    reason: str = ""
    explained: bool = True


def judge(expected: Expectation, usage: Usage | None, cache: CacheState | None) -> Verdict:
    """The verdict over one answered request; `cache` as it was when the answer came."""
    number = expected.number
    if usage is None or usage.cache_read is None or usage.prompt <= 0:
        return Verdict(number, "not_reported")
    read = usage.cache_read
    if expected.tokens is None:
        return Verdict(number, "first", read=read)
    slack = max(_GRAIN, round(expected.tokens * _SHARE))
    if expected.whole and read >= expected.tokens - slack:
        return Verdict(number, "hit", expected.tokens, read)
    kind: Kind = "partial" if read else "miss"
    reason, explained = _reason(expected, usage, cache)
    return Verdict(number, kind, expected.tokens, read, reason, explained)


def _reason(expected: Expectation, usage: Usage, cache: CacheState | None) -> tuple[str, bool]:
    said = f"the provider says {usage.miss_reason}" if usage.miss_reason else ""
    own = _own_reason(expected, cache)
    if own:
        return f"{own}; {said}" if said else own, True
    if said and usage.miss_reason not in ("unavailable", "previous_message_not_found"):
        return said, True
    note = f" ({said})" if said else ""
    return f"nothing that was sent explains it: evicted, or routed to another server{note}", False


def _own_reason(expected: Expectation, cache: CacheState | None) -> str:
    if expected.boundary is not None or expected.where:
        return _crossed(expected)
    if cache is not None and cache.why == "minimum":
        return "below the shortest prompt that the provider keeps"
    if cache is not None and cache.kept_seconds is not None and cache.seconds_left is not None:
        idle = cache.kept_seconds - cache.seconds_left
        if cache.seconds_left <= 0:
            return f"idle {span(idle)}, past the {span(cache.kept_seconds)} that it is kept"
    if expected.blocks > LOOK_BACK and not expected.marked:
        return f"look-back exceeded: {expected.blocks} blocks were added and none is marked"
    return ""


def _crossed(expected: Expectation) -> str:
    seen = expected.boundary
    if seen is None:
        return f"changed without a boundary: {expected.where}"
    return f"boundary: {seen.cause} by {seen.owner}"


def span(seconds: float) -> str:
    """A time for people: `7 m 12 s`, `1 h`."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"
