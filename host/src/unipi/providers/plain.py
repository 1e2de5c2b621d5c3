"""Messages that are no provider's: how a summary and a shell command read as user text.

The wording is part of the bytes of every session that has one: a change here is a cache miss for
all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unipi_hookspecs import BashMessage, Image, Model, SummaryMessage

_INTRO = {
    "compaction": "The earlier part of this conversation was replaced by this summary:",
    "branch": "Another branch of this conversation was left. What happened there, in short:",
}
_TICKS = re.compile("`{3,}")


def summary_text(message: SummaryMessage) -> str:
    """What a compaction or branch summary says to the model."""
    return f"{_INTRO[message.kind]}\n\n<summary>\n{message.summary}\n</summary>"


def bash_text(message: BashMessage) -> str:
    """What a command that the user ran says to the model: command, fenced output, how it ended."""
    ticks = max((len(run) for run in _TICKS.findall(message.output)), default=2)
    fence = "`" * (ticks + 1)
    parts = [f"I ran this command:\n$ {message.command}"]
    if message.output:
        end = "" if message.output.endswith("\n") else "\n"
        parts.append(f"{fence}\n{message.output}{end}{fence}")
    else:
        parts.append("It printed nothing.")
    if message.truncated:
        where = f" The whole is in {message.full_output_path}." if message.full_output_path else ""
        parts.append(f"The output above is truncated.{where}")
    if message.cancelled:
        parts.append("It was cancelled.")
    elif message.exit_code:
        parts.append(f"It exited with code {message.exit_code}.")
    return "\n".join(parts)


def takes_images(model: Model) -> bool:
    """Whether a model's input list names images."""
    return "image" in model.input


def image_note(image: Image) -> str:
    """What stands in for a picture where the model or the API takes none."""
    return f"[a picture ({image.mime_type}) that cannot be shown here]"
