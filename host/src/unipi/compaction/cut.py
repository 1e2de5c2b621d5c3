"""Where a compaction cuts: what is kept as it is, and what the summary must stand for.

The budget of what is kept is counted backwards from the newest entry. The cut then is the start of
the turn in which the budget ends, as long as that keeps at most twice the budget; of a longer turn
the beginning is cut off too, at the first answer or message behind the budget's end (Pi cuts at any
of them; at a turn's start a summary need not explain half a turn). A result never parts from its
call, and nothing that an earlier compaction kept is lost: the span to be summarised begins there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    SummaryMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

from .estimate import Calibration, message_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import Entry

KEEP: Final = 20_000
"""Tokens that stay as they are (Pi's default)."""
_LONG_TURN: Final = 2
_FAILED: Final = ("error", "aborted")


class NothingToCompactError(Exception):
    """There is nothing to cut off; the text says why."""


@frozen
class Cut:
    """A cut through a branch.

    `summarised` are the entries whose messages the summary stands for, oldest first; of them the
    `turn_prefix` last ones begin the turn whose rest is kept. `tokens_before` is the size of the
    context, `tokens_kept` of what stays, both estimated from what was reported.
    """

    first_kept_entry_id: str
    summarised: Sequence[Entry]
    turn_prefix: int
    previous_summary: str | None
    tokens_before: int
    tokens_kept: int


def find_cut(
    branch: Sequence[Entry], keep: int = KEEP, calibration: Calibration | None = None
) -> Cut:
    """Choose the cut of a branch (root to leaf); `keep` is in tokens.

    Raises `NothingToCompactError`.
    """
    live, previous = live_entries(branch)
    if not live:
        raise NothingToCompactError("there is no message to summarise")
    if _last_is_compaction(branch):
        raise NothingToCompactError("nothing was said since the last compaction")
    sizes = _positions(live, branch, calibration or Calibration())
    total = sizes[-1]
    kept = [total - position for position in sizes]
    place = _choose(live, kept, keep)
    if place is None:
        raise NothingToCompactError(
            f"all that could be cut off lies within the {keep:,} tokens that are kept"
        )
    start = _turn_start(live, place)
    return Cut(
        live[_over_silent(live, place)].id,
        live[:place],
        0 if start == place else place - start,
        previous,
        total,
        kept[place],
    )


def live_entries(branch: Sequence[Entry]) -> tuple[Sequence[Entry], str | None]:
    """The entries behind the last compaction's boundary, itself left out, and its summary."""
    at = next((i for i in reversed(range(len(branch))) if branch[i].type == "compaction"), None)
    if at is None:
        return branch, None
    first = branch[at].fields.get("firstKeptEntryId")
    start = next((i for i in range(at) if branch[i].id == first), at)
    summary = branch[at].message
    text = summary.summary if isinstance(summary, SummaryMessage) else None
    before = [entry for entry in branch[start:at] if entry.type != "compaction"]
    return [*before, *branch[at + 1 :]], text


def reaches_model(entry: Entry) -> bool:
    """Whether an entry says something to the model."""
    message = entry.message
    if isinstance(message, BashMessage):
        return not message.exclude_from_context
    if isinstance(message, AssistantMessage):
        return message.stop_reason not in _FAILED
    return message is not None


def _last_is_compaction(branch: Sequence[Entry]) -> bool:
    said = (e for e in reversed(branch) if e.type == "compaction" or reaches_model(e))
    return next(said).type == "compaction"


def _positions(
    live: Sequence[Entry], branch: Sequence[Entry], calibration: Calibration
) -> list[int]:
    """How many tokens of the context stand before each entry, and at last before nothing.

    A reported usage counts where it is about this very context; what lies between two reports, or
    before the first, is estimated.
    """
    at = next((i for i in reversed(range(len(branch))) if branch[i].type == "compaction"), -1)
    current = {entry.id for entry in branch[at + 1 :]}
    position = 0
    positions = [0]
    told = False
    for entry in live:
        message = entry.message
        if message is not None and reaches_model(entry):
            position += round(calibration.ratio * message_tokens(message))
            if isinstance(message, AssistantMessage) and entry.id in current and message.usage:
                reported = message.usage.prompt + message.usage.output
                if not told and reported > position:
                    # The head, and a summary before it all, stand in front of the first entry.
                    positions = [place + reported - position for place in positions]
                told = True
                position = max(reported, positions[-1])
        positions.append(position)
    return positions


def _choose(live: Sequence[Entry], kept: Sequence[int], keep: int) -> int | None:
    """The place of the first entry that stays; None: there is nothing to cut off."""
    possible = [i for i, entry in enumerate(live) if _may_begin(entry)]
    end = next((i for i in reversed(range(len(live))) if kept[i] >= keep), None)
    if end is None or not possible:
        return None
    first = possible[0]
    starts = [i for i in possible if i <= end and isinstance(live[i].message, UserMessage)]
    if starts and starts[-1] > first and kept[starts[-1]] <= _LONG_TURN * keep:
        return starts[-1]
    later = [i for i in possible if i >= end]
    # A result that fills the budget alone has no cut behind it: then the call before it stays too.
    place = later[0] if later else possible[-1]
    if place == first and kept[first] > _LONG_TURN * keep:
        # One message fills the context: it goes, if anything can begin behind it.
        place = next((i for i in possible if i > first and kept[i] <= keep), first)
    return place if place > first else None


def _may_begin(entry: Entry) -> bool:
    return reaches_model(entry) and not isinstance(entry.message, ToolResultMessage)


def _turn_start(live: Sequence[Entry], place: int) -> int:
    """Where the turn begins that the entry at `place` belongs to."""
    for i in range(place, -1, -1):
        if isinstance(live[i].message, UserMessage) and i <= place:
            return i
    return 0


def _over_silent(live: Sequence[Entry], place: int) -> int:
    """Back over entries that reach no model, such as a change of model, as they go with the cut."""
    while place > 0 and live[place - 1].message is None:
        place -= 1
    return place


def open_calls(branch: Sequence[Entry]) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result yet: while there are, nothing is cut."""
    answered: set[str] = set()
    for entry in reversed(branch):
        message = entry.message
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage) and reaches_model(entry):
            calls = (block for block in message.content if isinstance(block, ToolCall))
            return tuple(call for call in calls if call.id not in answered)
        elif message is not None:
            return ()
    return ()
