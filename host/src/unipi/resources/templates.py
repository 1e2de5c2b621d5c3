"""Prompt templates: `/name words` becomes the text of `prompts/name.md`, with the words in it.

`$ARGUMENTS` is all of them, `$1` to `$9` one each, by the rules of a shell; where a template names
neither, they stand at its end.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS: Final = (".unipi/prompts", ".claude/commands")
"""Where a project keeps its templates; the user's own are in the user's folder, `prompts`."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FRONT: Final = re.compile(r"---\n.*?\n---\n?", re.DOTALL)
_PLACE: Final = re.compile(r"\$(ARGUMENTS|@|[1-9])")
_LIMIT: Final = 256 * 1024


def find_template(name: str, cwd: Path, user_folder: Path) -> Path | None:
    """The file of a template, the project's before the user's; None when there is none."""
    if not _NAME.fullmatch(name):
        return None
    folders = (*(cwd / folder for folder in FOLDERS), user_folder / "prompts")
    return next((p for p in (each / f"{name}.md" for each in folders) if p.is_file()), None)


def expand(path: Path, words: str) -> str:
    """The text of a template with the words put in. Raises OSError."""
    with path.open("rb") as stream:
        text = stream.read(_LIMIT).decode("utf-8", "replace").replace("\r\n", "\n")
    text = _FRONT.sub("", text, count=1).strip() if text.startswith("---\n") else text.strip()
    if not _PLACE.search(text):
        return f"{text}\n\n{words}" if words else text
    try:
        parts = shlex.split(words)
    except ValueError:
        parts = words.split()  # an open quote is a quote
    return _PLACE.sub(lambda match: _filled(match[1], words, parts), text)


def _filled(place: str, words: str, parts: list[str]) -> str:
    if place in ("ARGUMENTS", "@"):
        return words
    number = int(place)
    return parts[number - 1] if number <= len(parts) else ""
