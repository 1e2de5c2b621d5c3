"""The ls tool: what is in a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio.to_thread

from .args import int_arg, text_arg
from .paths import os_error, resolve, shown
from .text import BYTE_LIMIT, ToolError, decode, head_lines, utf16_key

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import Call, Context

_LIMIT = 500


async def ls(call: Call, ctx: Context) -> str:
    """List a folder in code-unit order; raises ToolError for one that cannot be read."""
    path = resolve(text_arg(call, "path", "."), ctx.cwd)
    limit = int_arg(call, "limit", _LIMIT)
    if limit < 1:
        raise ToolError("limit must be at least 1")
    try:
        names = await anyio.to_thread.run_sync(_names, path, abandon_on_cancel=True)
    except OSError as error:
        raise os_error(error, shown(path, ctx.cwd)) from error
    if not names:
        return "[The folder is empty.]"
    kept = head_lines("\n".join(names[:limit]), limit, BYTE_LIMIT)
    count = kept.count("\n") + (not kept.endswith("\n"))
    text = kept.rstrip("\n")
    if count < len(names):
        why = "raise limit for more" if count == limit else f"the limit is {BYTE_LIMIT} bytes"
        text += f"\n\n[Shown are {count} of {len(names)} entries; {why}.]"
    return ctx.bound_output(text, label="ls").text


def _names(path: Path) -> list[str]:
    with os.scandir(os.fsencode(path)) as entries:
        found = [(decode(e.name), e.name, "/" if e.is_dir() else "") for e in entries]
    found.sort(key=lambda entry: (utf16_key(entry[0]), entry[1]))
    return [f"{name}{mark}" for name, _, mark in found]
