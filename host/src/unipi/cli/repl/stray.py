"""What a plugin prints by itself: shown above the input, as everything else, and never as it came."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Stray(io.TextIOBase):
    """Stands for standard output and error while a terminal is drawn on.

    `show` gets whole lines, in whatever thread they were written.
    """

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._rest = ""
        self._one = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._one:
            *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._show(line)
        return len(text)

    def end(self, then: Callable[[str], object]) -> None:
        """Show a last line that nobody has ended; whoever still holds on to this writes to `then`."""
        if self._rest:
            self.write("\n")
        self._show = then
