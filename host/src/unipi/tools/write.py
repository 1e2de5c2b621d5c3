"""The write tool: a whole file at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread

from .args import text_arg
from .paths import file_lock, os_error, replace_file, resolve, shown, writable_target
from .text import repair

if TYPE_CHECKING:
    from unipi_hookspecs import Call, Context


async def write(call: Call, ctx: Context) -> str:
    """Write a file in one step, making folders as needed; it may be replaced.

    Raises ToolError as `writable_target` does, and when the system refuses.
    """
    given, content = text_arg(call, "path"), text_arg(call, "content")
    path = resolve(given, ctx.cwd)
    name = shown(path, ctx.cwd)
    data = repair(content).encode()
    try:
        target = writable_target(given, path, ctx.cwd)
        async with file_lock(target):
            await anyio.to_thread.run_sync(replace_file, target, data)
    except OSError as error:
        raise os_error(error, name) from error
    return ctx.bound_output(f"Wrote {len(data)} bytes to {name}", label="write").text
