"""The last of what a server writes to its standard error, for when it fails."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TextIO

import anyio
from attrs import define

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_KEPT: Final = 8_192
"""Bytes that are kept."""
_CHUNK: Final = 65_536


@define
class Tail:
    """What is kept."""

    data: bytes = b""

    def last_line(self) -> str:
        """The last line that says something, at most 300 characters of it."""
        lines = self.data.decode("utf-8", "replace").split("\n")
        line = next((each.strip() for each in reversed(lines) if each.strip()), "")
        return "".join(c if c.isprintable() else "\ufffd" for c in line[:300])


@asynccontextmanager
async def listening(tail: Tail, ended: Callable[[], None]) -> AsyncIterator[TextIO]:
    """A file for a child's standard error; what comes is read as it comes, so that nobody waits.

    Once the caller has closed the file, `ended` is called when the child and all that it began have
    ended.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    async def read() -> None:
        while True:
            await anyio.wait_readable(reading)
            try:
                data = os.read(reading, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                ended()
                return
            tail.data = (tail.data + data)[-_KEPT:]

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                yield file
            tasks.cancel_scope.cancel()
    finally:
        os.close(reading)
