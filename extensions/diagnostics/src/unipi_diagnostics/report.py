"""The text of `/unipi:prefix-cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .envelope import shown
from .usage import reports_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unipi_hookspecs import ContextUsage, Prices

    from .lineage import Lineage
    from .session import BoundarySeen, SessionState
    from .usage import UsageLedger

SHOWN_BOUNDARIES = 8
"""How many of the latest boundaries the report lists."""

_NOT_REPORTED = "not reported"
_WORDS = {"hit": "read all they could", "first": "first", "not_reported": _NOT_REPORTED}
_FOOT = (
    "Fingerprints are keyed with a secret of this process, so they can be compared here and nowhere"
    " else, and nothing of a payload is kept. A prefix that was extended could be read from the"
    " provider's cache; whether it was, only the provider's own figures say."
)


def render(
    state: SessionState, prices: Prices | None = None, context: ContextUsage | None = None
) -> str:
    """The report of one session, for people; `prices` are those of the model in use."""
    rows = [*_shape(state), *_usage(state.usage), *_verdicts(state), *_context(context)]
    width = max(len(name) for name, _ in rows)
    lines = ["Prefix cache of this session", ""]
    lines += [f"{name:<{width}}  {value}" for name, value in rows]
    if misses := list(_misses(state)):
        lines += ["", *misses]
    if state.boundaries:
        lines += ["", *_boundaries(state)]
    if state.owners:
        lines += ["", *_owners(state, prices)]
    return "\n".join([*lines, "", _FOOT])


def _shape(state: SessionState) -> Iterator[tuple[str, str]]:
    turns = [lineage for (purpose, _, _), lineage in state.lineages.items() if purpose == "turn"]
    others = sum(lineage.requests for lineage in state.lineages.values())
    others -= sum(lineage.requests for lineage in turns)
    requests = f"{sum(lineage.requests for lineage in turns):,}"
    yield "Epoch", "not observed" if state.epoch is None else str(state.epoch)
    yield "Requests", requests + (f" (and {others:,} beside the conversation)" if others else "")
    yield "Prefix extensions", f"{sum(lineage.extensions for lineage in turns):,}"
    retries = f"{sum(lineage.retries for lineage in turns):,}"
    resent = sum(lineage.resent for lineage in turns)
    yield "Identical retries", retries + (f" ({resent:,} resent by the host)" if resent else "")
    yield "Boundaries", f"{state.boundary_count:,}"
    yield "Last transition", _last(state.current)
    envelope = state.current.envelope if state.current else None
    yield "Route", envelope.route if envelope else "unknown"
    yield "Request fingerprint", shown(state.fingerprint) if state.fingerprint else "-"
    yield "Envelope fingerprint", shown(envelope.digest) if envelope else "-"


def _context(context: ContextUsage | None) -> Iterator[tuple[str, str]]:
    if context is None or not context.window:
        return
    told = f"about {context.tokens:,} of {context.window:,} tokens"
    if context.off_by is not None:
        told += f"; estimates of what was new were off by {context.off_by:.0%}"
    yield "Context", told


def _last(lineage: Lineage | None) -> str:
    if lineage is None or lineage.change is None:
        return "none"
    change = lineage.change
    notes = [change.where] if change.where else []
    if lineage.survived is not None:
        notes.append("the old prefix survived" if lineage.survived else "the old prefix is gone")
    if change.transition == "history_rewritten" and change.survived is not None:
        notes.append(f"{change.survived:,} bytes before it survived")
    return change.transition + (f" ({'; '.join(notes)})" if notes else "")


def _usage(usage: UsageLedger) -> Iterator[tuple[str, str]]:
    silent = usage.reporting == 0
    yield "Cache read", _NOT_REPORTED if silent else _tokens(usage.read)
    yield "Cache write", _NOT_REPORTED if usage.written is None else _tokens(usage.written)
    yield "Fresh input", _tokens(usage.fresh) if usage.answers else _NOT_REPORTED
    if silent:
        yield "Read share", _NOT_REPORTED
    else:
        share = 100 * usage.read / usage.prompt
        yield (
            "Read share",
            f"{share:.1f}% over {usage.reporting:,} of {usage.answers:,} answers",
        )
    yield "Last answer", _last_answer(usage)
    if usage.unsuccessful:
        yield "Failed or aborted", f"{usage.unsuccessful:,} answers, their usage is counted"
    if usage.cost is not None:
        yield "Cost", f"${usage.cost:.6f}"


def _last_answer(usage: UsageLedger) -> str:
    last = usage.last
    if last is None:
        return _NOT_REPORTED
    prompt = f"prompt {_tokens(last.prompt)}"
    if not reports_reads(last):
        return f"{_NOT_REPORTED}, {prompt}"
    return f"{100 * (last.cache_read or 0) / last.prompt:.2f}% read, {prompt}"


def _tokens(count: int) -> str:
    return f"{count:,} tokens"


def _verdicts(state: SessionState) -> Iterator[tuple[str, str]]:
    told = [f"{count:,} {_WORDS.get(word, word)}" for word, count in state.verdict_counts.items()]
    yield "Verdicts", ", ".join(told) or "none yet"


def _misses(state: SessionState) -> Iterator[str]:
    """The latest answers that read less than they could, with the reason."""
    found = [v for v in state.verdicts if v.kind in ("partial", "miss")][-SHOWN_BOUNDARIES:]
    if found:
        yield "Read less than could be"
    for verdict in found:
        read = f"{verdict.read:,} of {_tokens(verdict.expected)}"
        yield f"  request {verdict.number}: read {read}: {verdict.reason}"


def _owners(state: SessionState, prices: Prices | None) -> Iterator[str]:
    """Who has cost what, the dearest first."""
    yield "Boundaries by owner"
    totals = sorted(state.owners.items(), key=lambda item: (-item[1].tokens_lost, item[0]))
    for owner, total in totals:
        price = f", ${total.price:.4f}" if total.price is not None else ""
        avoidable = f", {total.avoidable:,} of them avoidable" if total.avoidable else ""
        noun = "boundary" if total.boundaries == 1 else "boundaries"
        counted = f"{total.boundaries:,} {noun}{avoidable}"
        saved = ""
        if total.tokens_saved:
            worth = ""
            if prices is not None:
                worth = f", worth ${total.tokens_saved * prices.cache_read / 1e6:.4f}"
            saved = f"; {_tokens(total.tokens_saved)} fewer to read since{worth}"
        yield f"  {owner}: {counted}; {_tokens(total.tokens_lost)} lost{price}{saved}"


def _boundaries(state: SessionState) -> Iterator[str]:
    latest = list(state.boundaries)[-SHOWN_BOUNDARIES:]
    hidden = state.boundary_count - len(latest)
    yield "Boundaries" + (f" (the last {len(latest)}; {hidden:,} earlier)" if hidden else "")
    for seen in latest:
        yield f"  {seen.cause} by {seen.owner}" + _notes(seen)


def _notes(seen: BoundarySeen) -> str:
    notes = []
    if not seen.recorded:
        notes.append("not recorded by the host")
    if seen.avoidable:
        notes.append("avoidable")
    if seen.tokens_lost:
        notes.append(f"{_tokens(seen.tokens_lost)} lost")
    if seen.price is not None:
        notes.append(f"${seen.price:.4f}")
    if seen.detail:
        notes.append(seen.detail)
    return f": {'; '.join(notes)}" if notes else ""
