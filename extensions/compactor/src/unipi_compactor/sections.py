"""The sections of a summary: each a heading and what stands under it, within its own cap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from .history import RECALL
from .text import both_ends, one_line, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .extract import Facts, Failure, Line, Request, Step
    from .settings import Options

T = TypeVar("T")

_EARLIER: Final = 8_192
_BRANCH: Final = 1_024
_LAST_SAID: Final = 1_500
_OPEN_LINES: Final = 12
_NAMED: Final = 20
"""Ids of requests that are named when their words had no room."""


def requests(facts: Facts, options: Options, most: int) -> str:
    """Every request in the user's own words, oldest first, as far as `most` bytes go.

    The first one and the newest have the first claim; a text that is longer than a message may be
    is cut in the middle, and what has no room is named by its id.
    """
    shown = [(request, _request(request, options)) for request in facts.requests]
    if not shown:
        return ""
    room = most - size(shown[0][1])
    kept = {0}
    for place in range(len(shown) - 1, 0, -1):
        room -= size(shown[place][1]) + 1
        if room < 0:
            break
        kept.add(place)
    parts: list[str] = []
    missing: list[str] = []
    for place, (request, text) in enumerate(shown):
        if place not in kept:
            missing.append(request.entry_id)
            continue
        if missing:
            parts.append(_left_out(missing))
            missing = []
        parts.append(text)
    return "## What the user asked, word for word\n\n" + "\n".join(parts)


def _request(request: Request, options: Options) -> str:
    note = f"[… {{bytes}} bytes more: {RECALL} with entry {request.entry_id} …]"
    text = both_ends(request.text, options.message_bytes, note)
    again = f", said {request.times} times, last at {request.last_id}" if request.times > 1 else ""
    return f"[{request.entry_id}{again}]\n{text}\n"


def _left_out(ids: Sequence[str]) -> str:
    named = ", ".join(ids[-_NAMED:])
    more = "…, " if len(ids) > _NAMED else ""
    return f"({len(ids):,} requests had no room: {more}{named}. {RECALL} finds them.)\n"


def constraints(facts: Facts, options: Options) -> str:
    """What the user bound the work to; the newest lines, and a quarter from the beginning."""
    return _lines("## Constraints, as the user put them", facts.constraints, options.constraints)


def decisions(facts: Facts, options: Options) -> str:
    """Lines that say what was decided, by the user or by the assistant."""
    return _lines("## Decisions", facts.decisions, options.decisions, who=True)


def _lines(heading: str, lines: Sequence[Line], most: int, *, who: bool = False) -> str:
    kept, dropped = _ends(lines, most)
    if not kept:
        return ""
    rows = [f"- {line.who + ': ' if who else ''}{line.text} [{line.entry_id}]" for line in kept]
    return "\n".join([heading, "", *rows, *_more(dropped)])


def files(facts: Facts, options: Options) -> str:
    """Files that were changed, then those that were only read; the last touched come last."""
    parts: list[str] = []
    for heading, paths in (("Changed", facts.changed), ("Read", facts.read)):
        kept = paths[-options.files :] if options.files else ()
        if kept:
            rows = [f"- {one_line(path, 300)}{_times(count)}" for path, count in kept]
            parts += [f"{heading}:", *rows, *_more(len(paths) - len(kept))]
    if facts.skills:
        rows = [f"- {one_line(path, 300)}" for path in facts.skills[-options.files :]]
        parts += ["Skills that were loaded (read the file to have one again):", *rows]
    return "\n".join(["## Files", "", *parts]) if parts else ""


def commits(facts: Facts, options: Options) -> str:
    """Commits that were made, as git said; the newest last."""
    kept = facts.commits[-options.commits :] if options.commits else ()
    if not kept:
        return ""
    rows = [f"- {sha}: {title}" for sha, title in kept]
    return "\n".join(["## Commits", "", *rows, *_more(len(facts.commits) - len(kept))])


def errors(facts: Facts, options: Options) -> str:
    """Failures that are still open, then those that were put right, with what was changed for it."""
    still = [f for f in facts.failures if not f.fixed]
    fixed = [f for f in facts.failures if f.fixed]
    parts: list[str] = []
    for heading, found in (("Still open:", still), ("Put right:", fixed)):
        kept = found[-options.errors :] if options.errors else []
        if kept:
            parts += [heading, *map(_failure, kept), *_more(len(found) - len(kept))]
    return "\n".join(["## Errors", "", *parts]) if parts else ""


def _failure(failure: Failure) -> str:
    line = f"- {failure.what}{_times(failure.times)}: {failure.said} [{failure.entry_id}]"
    if failure.fixed:
        line += f" → works since {', '.join(failure.by)} changed" if failure.by else " → works now"
    return line


def open_work(facts: Facts, bound: int, turn_prefix: str = "") -> str:
    """What was said to be left to do, and where the work stood.

    Of the last words at most an eighth of the summary's `bound` in bytes is quoted.
    """
    parts: list[str] = []
    kept, dropped = _ends(facts.open_lines, _OPEN_LINES)
    if kept:
        parts += [*(f"- {line.text} [{line.entry_id}]" for line in kept), *_more(dropped)]
    if facts.last_said is not None:
        said = facts.last_said
        note = f"[… {{bytes}} bytes more: {RECALL} with entry {said.entry_id} …]"
        text = both_ends(said.text, min(_LAST_SAID, bound // 8), note)
        parts.append(f"The assistant's last words before the cut [{said.entry_id}]:\n{text}")
    if turn_prefix:
        parts.append(f"What follows goes on with the work on request [{turn_prefix}].")
    return "\n".join(["## Open work", "", *parts]) if parts else ""


def earlier(facts: Facts) -> str:
    """The newest summary that somebody else wrote, and those of branches that were left."""
    parts: list[str] = []
    note = f"[… {{bytes}} bytes more: {RECALL} finds them …]"
    if facts.earlier:
        parts += ["## Earlier summary", "", both_ends(facts.earlier, _EARLIER, note)]
    for text in facts.branches[-3:]:
        parts += ["## A branch that was left", "", both_ends(text, _BRANCH, note)]
    return "\n".join(parts)


def transcript(facts: Facts, options: Options, most: int) -> str:
    """What was done, a line a step, equal neighbours counted; the newest within `most` bytes."""
    heading = "## Steps, the newest last"
    if not options.transcript:
        return ""
    rows: list[str] = []
    room = most - size(heading) - 60
    for line in _folded(facts.steps[-4 * options.transcript :]):
        room -= size(line) + 3
        if room < 0 or len(rows) >= options.transcript:
            break
        rows.append(f"- {line}")
    rows.reverse()
    return "\n".join([heading, "", *rows]) if rows else ""


def _folded(steps: Sequence[Step]) -> list[str]:
    """Newest first; a step that was repeated at once stands there once, with its count."""
    folded: list[tuple[str, int]] = []
    for step in (one.line() for one in reversed(steps)):
        if folded and folded[-1][0] == step:
            folded[-1] = (step, folded[-1][1] + 1)
        else:
            folded.append((step, 1))
    return [f"{step}{_times(count)}" for step, count in folded]


def _ends(items: Sequence[T], most: int) -> tuple[list[T], int]:
    """At most so many: a quarter from the beginning, the rest from the end."""
    if len(items) <= most:
        return list(items), 0
    first = most // 4
    last = most - first
    kept = [*items[:first], *(items[-last:] if last else ())]
    return kept, len(items) - len(kept)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _more(count: int) -> list[str]:
    return [f"- (and {count:,} more; {RECALL} finds them)"] if count > 0 else []
