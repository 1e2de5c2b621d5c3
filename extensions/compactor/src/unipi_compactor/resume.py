"""The resume context: one hidden message at the tail of a new epoch, that says where work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from unipi_hookspecs import CustomMessage, UserMessage

from .extract import extract
from .history import RECALL, is_ours
from .text import both_ends, head, one_line, plain, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import Entry

    from .extract import Facts

TYPE: Final = "unipi-compactor-resume"
_REQUEST: Final = 600
_MOST_FILES: Final = 8
_MOST_ERRORS: Final = 4


def render(branch: Sequence[Entry], most: int) -> str:
    """What to go on with, from a branch (root to leaf); at most `most` bytes of UTF-8.

    It holds no clock and no path of its own making: the same entries give the same bytes.
    """
    facts = extract(branch)
    text = "\n".join(
        [
            "Older messages of this session were just replaced by the summary at its beginning. "
            "Go on where the work stands; do not start over and do not ask again for what was said. "
            f"What the summary lacks, {RECALL} finds.",
            *_request(branch),
            *_files(facts),
            *_errors(facts),
            *_open(facts),
        ]
    )
    if size(text) <= most:
        return text
    return head(text, most - 3).rstrip() + "…"


def is_due(branch: Sequence[Entry]) -> bool:
    """Whether the branch's last compaction is ours and its resume context was never stored.

    That is so when the process ended between the two.
    """
    for entry in reversed(branch):
        if isinstance(entry.message, CustomMessage) and entry.message.custom_type == TYPE:
            return False
        if entry.type == "compaction":
            return is_ours(entry)
    return False


def _request(branch: Sequence[Entry]) -> list[str]:
    for entry in reversed(branch):
        if isinstance(entry.message, UserMessage):
            text = plain(entry.message.content).strip()
            note = f"[… {{bytes}} bytes more: {RECALL} with entry {entry.id} …]"
            return [f"The last request [{entry.id}]:", both_ends(text, _REQUEST, note)]
    return []


def _files(facts: Facts) -> list[str]:
    paths = [one_line(path, 120) for path, _ in facts.changed[-_MOST_FILES:]]
    return ["Files changed last: " + ", ".join(paths)] if paths else []


def _errors(facts: Facts) -> list[str]:
    still = [failure for failure in facts.failures if not failure.fixed][-_MOST_ERRORS:]
    if not still:
        return []
    return ["Failures still open:", *(f"- {one_line(f'{f.what}: {f.said}', 200)}" for f in still)]


def _open(facts: Facts) -> list[str]:
    found = facts.open_lines[:_MOST_ERRORS]
    return (
        ["Said to be open:", *(f"- {one_line(line.text, 200)}" for line in found)] if found else []
    )
