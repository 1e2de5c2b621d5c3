"""Instruction files: the user's own, then those of the project's folders, the outermost first.

In each folder `AGENTS.md` is read, else `CLAUDE.md`. The order, the bounds and the text depend on
nothing but the files: no clock, no locale, no order of a file system.
"""

from __future__ import annotations

import hashlib
import stat
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAMES: Final = ("AGENTS.md", "CLAUDE.md")
"""What such a file may be called, the first that is there counts (agents.md; Claude Code's docs)."""

FILE_LIMIT: Final = 32 * 1024
TOTAL_LIMIT: Final = 64 * 1024
"""Bytes of one file and of all together that enter the prompt: every request carries them."""


@frozen
class ContextFile:
    """A file as the model is shown it; `cut` says that it was longer. `digest` is of its text."""

    path: Path
    text: str = field(repr=False)
    cut: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def shown(self) -> str:
        """The file under its name, as it stands in the prompt."""
        end = (
            f"\n[cut after {FILE_LIMIT // 1024} KiB; read the file for the rest]"
            if self.cut
            else ""
        )
        return f"# Instructions of {self.path}\n\n{self.text.strip()}{end}"


def context_files(cwd: Path, user_folder: Path) -> list[ContextFile]:
    """The files for a working folder. What cannot be read, or is no regular file, is left out.

    When together they are too long, the innermost stay: they know most of what is worked on.
    """
    found = [file for folder in (user_folder, *_upward(cwd)) for file in _first_of(folder)]
    kept: list[ContextFile] = []
    room = TOTAL_LIMIT
    for file in reversed(found):
        size = len(file.text.encode("utf-8", "surrogatepass"))
        if size > room:
            break
        room -= size
        kept.append(file)
    return kept[::-1]


def _upward(cwd: Path) -> Sequence[Path]:
    """The folders from the file system's root down to `cwd`."""
    return [*reversed(cwd.parents), cwd]


def _first_of(folder: Path) -> Iterator[ContextFile]:
    for name in NAMES:
        path = folder / name
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                continue  # to open a pipe could take for ever
            with path.open("rb") as stream:
                data = stream.read(FILE_LIMIT + 1)
        except OSError:
            continue
        text = data[:FILE_LIMIT].decode("utf-8", "ignore" if len(data) > FILE_LIMIT else "replace")
        if text.strip():
            yield ContextFile(path, text.replace("\r\n", "\n"), cut=len(data) > FILE_LIMIT)
        return
