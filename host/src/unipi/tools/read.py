"""The read tool: a part of a text file, or a picture."""

from __future__ import annotations

import stat
from typing import IO, TYPE_CHECKING

import anyio.to_thread
from attrs import frozen

from unipi_hookspecs import Image, Text, ToolOutput

from .args import int_arg, text_arg
from .images import ENCODED_LIMIT, SIDE_LIMIT, longest_side, mime_type
from .paths import os_error, resolve, shown
from .text import BYTE_LIMIT, LINE_LIMIT, ToolError, count_lines, decode, head_lines

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import Call, Context

_SNIFF = 8_000  # bytes in which a NUL makes a file binary; git looks at as many
_BLOCK = 1 << 20
_BOM = "\ufeff"


@frozen
class _Part:
    """Lines of a file from `first` (1-based) on; `lines` is how many the whole file has.

    `data` holds the wanted lines up to a little over what is shown at most; `first_size` is the
    length of the first of them in bytes.
    """

    data: bytes
    first: int
    lines: int
    first_size: int


async def read(call: Call, ctx: Context) -> str | ToolOutput:
    """Read a file; paths are not confined. Raises ToolError for one that cannot be read."""
    given = text_arg(call, "path")
    path = resolve(given, ctx.cwd)
    name = shown(path, ctx.cwd)
    first = int_arg(call, "offset", 1)
    limit = int_arg(call, "limit", LINE_LIMIT) if "limit" in call.input else None
    if first < 1 or (limit is not None and limit < 1):
        raise ToolError("offset and limit count from 1")
    try:
        # A thread that hangs on a dead network drive is left behind when the call is cancelled.
        found = await anyio.to_thread.run_sync(
            _load, path, first, limit or LINE_LIMIT, abandon_on_cancel=True
        )
    except OSError as error:
        raise os_error(error, name) from error
    if isinstance(found, _Part):
        return ctx.bound_output(_show(found, name, limit), label="read").text
    if isinstance(found, ToolOutput) and ctx.model and "image" not in ctx.model.input:
        return f"[{name} is a picture, not shown: {ctx.model.name} takes none.]"
    return found


def _load(path: Path, first: int, limit: int) -> _Part | ToolOutput | str:
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise ToolError("the path is a folder; use the ls tool")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError("the path is no regular file")
    with path.open("rb") as stream:
        start = stream.read(_SNIFF)
        stream.seek(0)
        mime = mime_type(start)
        if mime is not None:
            return _picture(stream, mime, found.st_size)
        if b"\0" in start:
            return (
                f"[A binary file of {found.st_size} bytes, not shown. "
                "Look into it with bash, for example with file, xxd or strings.]"
            )
        return _part(stream, first, limit)


def _picture(stream: IO[bytes], mime: str, size: int) -> ToolOutput | str:
    about = f"{mime}, {size} bytes"
    if (size + 2) // 3 * 4 > ENCODED_LIMIT:
        return f"[A picture ({about}), not shown: base64 would be over {ENCODED_LIMIT} bytes.]"
    data = stream.read()
    side = longest_side(data, mime)
    if side is not None and side > SIDE_LIMIT:
        return f"[A picture ({about}), not shown: {side} pixels, over {SIDE_LIMIT}.]"
    import base64

    return ToolOutput([Text(f"[A picture: {about}]"), Image(base64.b64encode(data).decode(), mime)])


def _part(stream: IO[bytes], first: int, limit: int) -> _Part:
    # Block by block, so that a huge file costs time but no memory.
    skip, want = first - 1, limit
    room = BYTE_LIMIT + 4  # one more character shows that the limit was passed
    kept = bytearray()
    newlines = first_size = 0
    last = b""
    while block := stream.read(_BLOCK):
        newlines += block.count(b"\n")
        last = block
        at = 0
        while skip and (end := block.find(b"\n", at)) >= 0:
            skip, at = skip - 1, end + 1
        if skip:
            continue
        while want and at < len(block):
            end = block.find(b"\n", at) + 1 or len(block)
            if want == limit:
                first_size += end - at
            kept += block[at : min(end, at + max(0, room - len(kept)))]
            want -= block[end - 1] == 0x0A
            at = end
    lines = newlines + (bool(last) and not last.endswith(b"\n"))
    return _Part(bytes(kept), first, lines, first_size)


def _show(part: _Part, name: str, limit: int | None) -> str:
    if not part.lines:
        return "[The file is empty.]"
    if part.first > part.lines:
        raise ToolError(f"offset {part.first} is past the end: {name} has {part.lines} lines")
    text = decode(part.data)
    if part.first == 1:
        text = text.removeprefix(_BOM)
    kept = head_lines(text)
    if not kept:
        return (
            f"[Line {part.first} of {name} is {part.first_size} bytes long, over the limit of "
            f"{BYTE_LIMIT}. Read it in pieces with bash: "
            f"sed -n '{part.first}p' FILE | cut -b 1-{BYTE_LIMIT}]"
        )
    last = part.first + count_lines(kept) - 1
    if last == part.lines:
        return kept
    kept = kept.removesuffix("\n")
    if limit is not None and count_lines(kept) == limit:
        return f"{kept}\n\n[{part.lines - last} more lines. Go on with offset={last + 1}.]"
    return (
        f"{kept}\n\n[Lines {part.first} to {last} of {part.lines}. Go on with offset={last + 1}.]"
    )
