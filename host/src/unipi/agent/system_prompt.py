"""The base system prompt: built once an epoch, from the session's folder and its tools.

It holds no clock, no random value and nothing of the surface that asks, so the same session has
the same head wherever it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from unipi_hookspecs import Tool

_OPENING = (
    "You are a coding agent. You work in the user's project with the tools below, "
    "read before you change, check what you changed, and say plainly what you did."
)


def base_prompt(cwd: Path, tools: Iterable[Tool], instructions: Sequence[str]) -> str:
    """The base prompt of an epoch; `tools` in the order in which the model sees them."""
    lines = [_OPENING, "", "Tools:"]
    lines += [f"- {tool.name}: {_first_sentence(tool.description)}" for tool in tools]
    for text in instructions:
        lines += ["", text]
    lines += ["", f"Working directory: {cwd}"]
    return "\n".join(lines)


def moved_edit(given: str, returned: str, base: str) -> str:
    """A plugin's edit of the prompt it was `given`, made again on `base`.

    A text that contains what it was given is an addition around it; any other replaces the whole.
    """
    if given and given in returned:
        before, _, after = returned.partition(given)
        return before + base + after
    return returned


def addition(given: str, returned: str) -> str | None:
    """What a plugin added around the prompt it was given; None when it replaced it."""
    if not given or given not in returned:
        return None
    before, _, after = returned.partition(given)
    return "\n".join(part for part in (before.strip(), after.strip()) if part)


def _first_sentence(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return line.split(". ", 1)[0].rstrip(".")
