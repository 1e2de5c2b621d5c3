"""A unified diff of edits whose places are known; its cost is that of the lines it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .match import Span

_CONTEXT = 3


@frozen
class _Change:
    """Lines `first` to `end` (0-based, end exclusive) of the old text become `new`."""

    first: int
    end: int
    new: list[str]


def unified(text: str, spans: Sequence[Span]) -> tuple[str, int]:
    """The hunks that turn `text` into the edited text, and the first changed line, from 1.

    `spans` are in order and do not overlap.
    """
    lines = text.split("\n")
    changes = _changes(text, lines, spans)
    out: list[str] = []
    shift = 0
    hunk: list[_Change] = []
    for change in changes:
        if hunk and change.first - hunk[-1].end > 2 * _CONTEXT:
            shift = _emit(out, lines, hunk, shift)
            hunk = []
        hunk.append(change)
    if hunk:
        _emit(out, lines, hunk, shift)
    return "\n".join(out), changes[0].first + 1 if changes else 1


def _changes(text: str, lines: list[str], spans: Sequence[Span]) -> list[_Change]:
    changes: list[_Change] = []
    i = 0
    line = start = 0  # the line that the last place is in, and where it begins
    while i < len(spans):
        line, start = _line_of(lines, line, start, spans[i].start)
        first, piece, at = line, [], start
        while True:
            span = spans[i]
            piece += [text[at : span.start], span.new]
            at, i = span.end, i + 1
            line, start = _line_of(lines, line, start, at)
            if i == len(spans) or spans[i].start > start + len(lines[line]):
                break
        piece.append(text[at : start + len(lines[line])])
        change = _trim(lines, first, line + 1, "".join(piece).split("\n"))
        if change.first < change.end or change.new:
            changes.append(change)
    return changes


def _line_of(lines: list[str], line: int, start: int, place: int) -> tuple[int, int]:
    while place > start + len(lines[line]):
        start += len(lines[line]) + 1
        line += 1
    return line, start


def _trim(lines: list[str], first: int, end: int, new: list[str]) -> _Change:
    low, high = 0, len(new)
    while first < end and low < high and lines[first] == new[low]:
        first, low = first + 1, low + 1
    while first < end and low < high and lines[end - 1] == new[high - 1]:
        end, high = end - 1, high - 1
    return _Change(first, end, new[low:high])


def _emit(out: list[str], lines: list[str], hunk: list[_Change], shift: int) -> int:
    first = max(0, hunk[0].first - _CONTEXT)
    end = min(len(lines), hunk[-1].end + _CONTEXT)
    grown = sum(len(c.new) - (c.end - c.first) for c in hunk)
    size = end - first
    out.append(f"@@ -{first + 1},{size} +{first + 1 + shift},{size + grown} @@")
    at = first
    for change in hunk:
        out += [f" {line}" for line in lines[at : change.first]]
        out += [f"-{line}" for line in lines[change.first : change.end]]
        out += [f"+{line}" for line in change.new]
        at = change.end
    out += [f" {line}" for line in lines[at:end]]
    return shift + grown
