"""What Tab offers: commands behind a slash, their arguments, and names of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .console import Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST = 100
"""Completions that are offered at once."""


def choices(
    before: str,
    cwd: Path,
    commands: Callable[[], Mapping[str, str]],
    arguments: Mapping[str, Callable[[], Sequence[str]]],
) -> list[Choice]:
    """The completions behind `before`, the text up to the cursor.

    A slash at the very start is a command, and what follows some commands one of their `arguments`.
    Any other last word is the start of a path; `@` in front of it is kept.
    """
    if before.startswith("/") and "\n" not in before:
        name, space, rest = before[1:].partition(" ")
        if not space and "/" not in name:
            found = commands()
            names = sorted(each for each in found if each.startswith(name))
            return [Choice(f"/{each}", len(before), found[each]) for each in names[:MOST]]
        if name in arguments and " " not in rest:
            fitting = [each for each in arguments[name]() if rest in each]
            return [Choice(each, len(rest)) for each in fitting[:MOST]]
    words = before.split()
    word = words[-1] if words and not before[-1].isspace() else ""
    return _paths(word, cwd) if word else []


def _paths(word: str, cwd: Path) -> list[Choice]:
    at, path = ("@", word[1:]) if word.startswith("@") else ("", word)
    folder, _, start = path.rpartition("/")
    inside = f"{folder}/" if "/" in path else ""
    try:
        with os.scandir(cwd / Path(inside).expanduser()) as found:
            entries = sorted((each.name, each.is_dir()) for each in found)
    except (OSError, ValueError, RuntimeError):
        return []
    return [
        Choice(f"{at}{inside}{name}{'/' if is_dir else ''}", len(word))
        for name, is_dir in entries
        # A name that could steer the terminal, or be read as two words, is left to be typed.
        if name.startswith(start) and name.isprintable() and " " not in name
        if start.startswith(".") or not name.startswith(".")
    ][:MOST]
