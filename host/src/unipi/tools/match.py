"""Finding the text that an edit replaces: exactly, or with spaces and quotes evened out."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from attrs import frozen

from .text import ToolError

# One character for one character, so that places keep their distance within a line.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **{chr(code): " " for code in range(0x2000, 0x200B)},
    }
)


@frozen
class Edit:
    """One replacement that was asked for, with line ends as `\\n`."""

    old: str
    new: str


@frozen
class Span:
    """Where an edit applies: `start` to `end` of the text are replaced by `new`."""

    start: int
    end: int
    new: str
    loose: bool = False


@frozen
class _Even:
    """A text evened out line by line, and where each of its lines begins in both texts."""

    text: str
    starts: list[int]
    sources: list[int]

    def source(self, place: int) -> int:
        """The place in the source of a place in the evened text."""
        line = bisect_right(self.starts, place) - 1
        return self.sources[line] + place - self.starts[line]


def find_spans(text: str, edits: list[Edit], name: str) -> list[Span]:
    """Place every edit in `text`, each where it matches exactly once; in order of place.

    Line ends of the text count as `\\n`. An edit that matches nowhere as it is may match once with
    spaces at line ends, kinds of spaces, quotes and dashes evened out. Raises ToolError, naming
    the edit by its number, when one matches nowhere or in several places, or when two overlap.
    """
    strict = _even(text, loose=False)
    spans = [_find(text, strict, edit, number, name) for number, edit in enumerate(edits, 1)]
    order = sorted(range(len(spans)), key=lambda i: spans[i].start)
    for before, after in pairwise(order):
        if spans[before].end > spans[after].start:
            one, two = sorted((before + 1, after + 1))
            raise ToolError(f"edits {one} and {two} of {name} overlap; make them one")
    return [spans[i] for i in order]


def _find(text: str, strict: _Even, edit: Edit, number: int, name: str) -> Span:
    if not edit.old:
        raise ToolError(f"oldText of edit {number} is empty")
    span = _once(strict, edit, edit.old, number, name, loose=False)
    if span is None:
        even = _even(text, loose=True)
        span = _once(even, edit, _even(edit.old, loose=True).text, number, name, loose=True)
    if span is None:
        raise ToolError(
            f"oldText of edit {number} is not in {name}; it must match the file, spaces included"
        )
    return span


def _once(even: _Even, edit: Edit, old: str, number: int, name: str, *, loose: bool) -> Span | None:
    at = even.text.find(old)
    # What was evened out to nothing but space would match anywhere.
    if at < 0 or (loose and not old.strip()):
        return None
    if even.text.find(old, at + 1) >= 0:
        count = _count(even.text, old)
        raise ToolError(
            f"oldText of edit {number} matches {count} places in {name}; "
            "add lines around it until it matches one"
        )
    return Span(even.source(at), even.source(at + len(old)), edit.new, loose)


def _count(text: str, old: str) -> int:
    count, at = 0, text.find(old)
    while at >= 0:
        count, at = count + 1, text.find(old, at + 1)
    return count


def _even(text: str, *, loose: bool) -> _Even:
    lines, starts, sources = [], [], []
    start = source = 0
    for line in text.split("\n"):
        even = line.rstrip().translate(_PLAIN) if loose else line.removesuffix("\r")
        lines.append(even)
        starts.append(start)
        sources.append(source)
        start += len(even) + 1
        source += len(line) + 1
    return _Even("\n".join(lines), starts, sources)
