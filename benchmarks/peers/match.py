"""Rebuilds that a peer found, set beside ours: by session and by tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class Rebuild:
    """A rebuild that a tool found: the file's session, and the tokens that it names."""

    session: str
    tokens: int


@frozen
class Known:
    """A rebuild of a peer's that ours does not name so, and why; one of each is explained."""

    rebuild: Rebuild
    why: str


KNOWN = (
    Known(
        Rebuild("agents", 30_004),
        "the first request of a sub-agent, which had no prompt before it to rebuild",
    ),
    Known(
        Rebuild("rebuilds", 9_004),
        "a compaction by what was sent anew; ours names the 54,304 that were lost",
    ),
)
"""What is known of the transcripts that the extension's tests write."""


def unmatched(theirs: Sequence[Rebuild], ours: Sequence[Rebuild], within: int) -> list[Rebuild]:
    """Theirs that are not in ours: the same session, and tokens that differ by `within` at most.

    Each of ours answers for one of theirs, the nearest pairs first.
    """
    pairs = sorted(
        (abs(their.tokens - our.tokens), number, place)
        for number, their in enumerate(theirs)
        for place, our in enumerate(ours)
        if their.session == our.session and abs(their.tokens - our.tokens) <= within
    )
    found: set[int] = set()
    used: set[int] = set()
    for _, number, place in pairs:
        if number not in found and place not in used:
            found.add(number)
            used.add(place)
    return [their for number, their in enumerate(theirs) if number not in found]


def explained(
    alone: Sequence[Rebuild], within: int, known: Sequence[Known] = KNOWN
) -> tuple[list[tuple[Rebuild, str]], list[Rebuild]]:
    """Those of a peer's that are known, each with its reason, and those that are not."""
    left = list(known)
    told: list[tuple[Rebuild, str]] = []
    missed: list[Rebuild] = []
    for each in alone:
        for one in left:
            if not unmatched([each], [one.rebuild], within):
                left.remove(one)
                told.append((each, one.why))
                break
        else:
            missed.append(each)
    return told, missed
