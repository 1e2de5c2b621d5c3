"""The prompt without a terminal: a line in, text out, and no escape sequence.

Answers go to standard output, all else to standard error. A line is worked on to its end before the
next is read. Questions are asked where a person sits at standard input; a file or a pipe holds prompts,
and none of them is taken for an answer.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import anyio

from unipi.cli._summary import printable

from .console import Line

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from .console import Driver, Kind

_CHUNK = 65_536


class Plain:
    """Implements `Console` on standard input, output and error."""

    live = False

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._waits = not stat.S_ISREG(os.fstat(self._fd).st_mode)  # a file is always ready
        self._read = b""
        self._over = False
        self._scope: anyio.CancelScope | None = None
        self._open_line = False
        self._prefilled = ""

    @property
    def interactive(self) -> bool:
        return os.isatty(self._fd)

    async def serve(self, driver: Driver, *, task_status: TaskStatus[None]) -> None:
        """Nothing runs beside."""
        task_status.started()

    async def close(self) -> None:
        self.end_stream()

    def leave(self) -> None:
        self._over = True
        if self._scope is not None:
            self._scope.cancel()

    def write(self, text: str, kind: Kind = "aside") -> None:
        self.end_stream()
        if kind == "user":
            return  # whoever sent it has it
        mark = f"{kind}: " if kind in ("warning", "error") else ""
        stream = sys.stdout if kind == "answer" else sys.stderr
        stream.write(f"{mark}{_safe(text)}\n")
        stream.flush()

    def stream(self, delta: str) -> None:
        text = _safe(delta)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open_line = not text.endswith("\n")

    def end_stream(self) -> None:
        if self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open_line = False

    def prefill(self, text: str) -> None:
        if text:
            self.write(f"it said: {text}")

    def refresh(self) -> None:
        """Nothing stays on the screen."""

    async def line(self) -> Line | None:
        if self.interactive:
            sys.stderr.write("> ")
            sys.stderr.flush()
        text = await self._next()
        return None if text is None else Line(text)

    async def ask(self, question: str, *, default: str = "") -> str | None:
        if not self.interactive:
            return None
        self.end_stream()
        hint = f" ({default})" if default else ""
        sys.stderr.write(f"{_safe(question)}{_safe(hint)} ")
        sys.stderr.flush()
        return await self._next()

    async def _next(self) -> str | None:
        """A line of standard input, without its end; None when it is over."""
        with anyio.CancelScope() as self._scope:
            while not self._over and b"\n" not in self._read:
                if self._waits:
                    await anyio.wait_readable(self._fd)
                data = os.read(self._fd, _CHUNK)
                self._over = not data
                self._read += data
        self._scope = None
        line, _, self._read = self._read.partition(b"\n")
        return None if self._over and not line else line.decode("utf-8", "replace").rstrip("\r")


def _safe(text: str) -> str:
    return printable(text.replace("\r\n", "\n"))
