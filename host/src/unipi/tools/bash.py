"""The bash tool: a shell command, its two streams merged, and the end of what they say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
from attrs import define, field

from .args import text_arg
from .cut import tail_start
from .process import CAPTURE_LIMIT, Captured, capture_process, child_env
from .specs import PASS_ENV
from .text import BYTE_LIMIT, LINE_LIMIT, ToolError, count_lines, decode, repair, tail_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON, Call, Context

    from .process import Capture

"""The setting that lists further variables of the host that commands get."""

_UPDATE_SECONDS = 0.1


@define
class _Live:
    """What a running command has said last, for the user's eyes."""

    said: bytearray = field(factory=bytearray)
    changed: anyio.Event = field(factory=anyio.Event)

    def feed(self, chunk: bytes) -> None:
        self.said += chunk
        del self.said[:-BYTE_LIMIT]
        self.changed.set()

    async def show(self, call: Call) -> None:
        while True:
            await self.changed.wait()
            self.changed = anyio.Event()
            await call.update(tail_lines(decode(bytes(self.said))))
            await anyio.sleep(_UPDATE_SECONDS)


async def bash(call: Call, ctx: Context) -> str:
    """Run the command in the working folder.

    A non-zero exit or a time-out raises ToolError with the output. Output over 2,000 lines or
    51,200 bytes is cut to its end, if the whole is kept where the model can read it or if it is
    over the bound that no result may pass.
    """
    command, timeout = repair(text_arg(call, "command")), _timeout(call.input.get("timeout"))
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no shell takes")
    import shutil

    shell = shutil.which("bash") or "sh"
    live = _Live()
    done: Captured | OSError
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.show, call)
        try:
            done = await capture_process(
                [shell, "-c", command],
                env=_env(ctx.settings),
                cwd=ctx.cwd,
                timeout=timeout,
                merge=True,
                on_output=live.feed,
            )
        except OSError as error:
            done = error
        tasks.cancel_scope.cancel()
    if isinstance(done, OSError):
        raise ToolError(f"the command could not be started: {done}") from done
    text = _result(done, timeout, _visible(done.stdout, ctx))
    text = ctx.bound_output(text, label="bash").text  # the notes may have led over the bound
    if done.timed_out or done.exit_code:
        raise ToolError(text)
    return text


def _timeout(value: JSON) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ToolError("timeout must be a number of seconds above 0")
    return float(value)


def _env(settings: Mapping[str, JSON]) -> dict[str, str]:
    named = settings.get(PASS_ENV)
    names = [n for n in named if isinstance(n, str)] if isinstance(named, list | tuple) else []
    return child_env({name: os.environ[name] for name in names if name in os.environ})


def _result(done: Captured, timeout: float | None, output: str) -> str:
    notes = []
    if done.survivors:
        notes.append("[Background processes that the command started are still running.]")
    if done.timed_out:
        notes.append(f"Command timed out after {timeout:g} seconds")
    elif done.exit_code:
        notes.append(f"Command exited with code {_shell_code(done.exit_code)}")
    return "\n\n".join([output.rstrip("\n") or "(no output)", *notes])


def _shell_code(code: int) -> int:
    # A shell says 128 + n of a command that signal n ended; Python says -n.
    return 128 - code if code < 0 else code


def _visible(capture: Capture, ctx: Context) -> str:
    raw = capture.data()
    if capture.dropped:
        return _tail(decode(bytes(capture.tail)), capture, None)
    text = decode(raw)
    if len(text.encode()) <= BYTE_LIMIT and count_lines(text) <= LINE_LIMIT:
        return text
    bounded = ctx.bound_output(raw, label="bash")
    if not bounded.truncated:
        return bounded.text  # too little to be kept elsewhere, so nothing of it is taken away
    return _tail(text, capture, bounded.artifact)


def _tail(text: str, capture: Capture, artifact: str | None) -> str:
    kept = tail_lines(text)
    if not kept:  # the last line alone is too long
        data = text.encode()
        kept = data[tail_start(data, len(data) - BYTE_LIMIT) :].decode()
    shown = f"the last {len(kept.encode())} bytes in {count_lines(kept)} lines"
    total = f"{capture.total} bytes in {capture.newlines + (not text.endswith(chr(10)))} lines"
    if artifact is not None:
        where = f"Full output: {artifact} - read it with the read tool and its offset and limit."
    elif capture.total > CAPTURE_LIMIT:
        where = "The full output was not kept: it is over 16 MiB."
    else:
        where = "The full output could not be kept."
    return f"{kept.rstrip(chr(10))}\n\n[Shown are {shown}, of {total}. {where}]"
