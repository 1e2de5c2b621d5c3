"""Child processes that always come to an end, with their output bounded.

A command's end is the end of its process, not of its pipes: what it leaves in the background may
hold those for ever. Each command is the leader of a new session, so that its whole group can be
signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING

import anyio
from attrs import define, field, frozen

from unipi_hookspecs import ProcessResult

from .text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import Process

BASE_ENV = (
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
"""Variables of the host that every child gets, with those that begin with `LC_`."""

CAPTURE_LIMIT = 16 * 1024 * 1024
"""Bytes kept from the beginning of a stream; the same as an artifact holds."""
TAIL_LIMIT = 65_536
"""Bytes kept from the end of a stream that is longer."""

_CHUNK = 65_536
_IDLE = 0.2  # seconds without output after which background processes are no longer waited for
_SETTLE = 0.7  # seconds after a command's end in which its pipes must be at their end
_POLL = 0.02


@define
class Capture:
    """One stream of a child: all of it up to 16 MiB, beyond that its head and its last 64 KiB."""

    head: bytearray = field(factory=bytearray)
    tail: bytearray = field(factory=bytearray)
    total: int = 0
    newlines: int = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self.newlines += chunk.count(b"\n")
        room = CAPTURE_LIMIT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        if len(self.tail) > 2 * TAIL_LIMIT:
            del self.tail[:-TAIL_LIMIT]

    @property
    def dropped(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.total - len(self.head) - min(len(self.tail), TAIL_LIMIT)

    def data(self) -> bytes:
        """What was kept, with a line in place of what was not."""
        gap = f"\n[... {self.dropped} bytes not kept ...]\n".encode() if self.dropped else b""
        return bytes(self.head) + gap + bytes(self.tail[-TAIL_LIMIT:])


@frozen
class Captured:
    """How a child process ended, with the raw bytes of its streams; see `ProcessResult`."""

    exit_code: int | None
    stdout: Capture
    stderr: Capture
    timed_out: bool
    survivors: bool


@define
class _Stream:
    """The read end of a pipe to the child."""

    file: IO[bytes]
    capture: Capture
    on_output: Callable[[bytes], None] | None
    ended: anyio.Event = field(factory=anyio.Event)

    def take(self) -> bool:
        """Read once without waiting; whether there was something."""
        try:
            chunk = os.read(self.file.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self.ended.set()
            return False
        self.capture.add(chunk)
        if self.on_output:
            self.on_output(chunk)
        return True

    def sweep(self) -> None:
        """Read what is in the pipe now, and no more, should somebody go on writing."""
        for _ in range(64):
            if not self.take():
                return

    async def pump(self) -> None:
        while not self.ended.is_set():
            await anyio.wait_readable(self.file)
            self.take()


def child_env(
    extra: Mapping[str, str] | None = None, base: Collection[str] = BASE_ENV
) -> dict[str, str]:
    """The environment of a child: the host's variables named in `base`, and `extra`."""
    own = {k: v for k, v in os.environ.items() if k in base or k.startswith("LC_")}
    return {**own, **(extra or {})}


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    base_env: Collection[str] = BASE_ENV,
    on_output: Callable[[bytes], None] | None = None,
    grace: float = 2.0,
) -> ProcessResult:
    """Run a child process without a shell, to its end or for `timeout` seconds.

    The child gets the variables of `base_env` and `env`, an empty standard input unless `stdin` is
    given, and a session of its own. `on_output` is told each piece as it arrives. On time-out and
    cancellation the whole process group gets SIGTERM, and after `grace` seconds SIGKILL; `exit_code`
    is then None. Background processes that outlive the command and hold its output are left alone
    and reported by `survivors`. Of a stream over 16 MiB the middle is dropped.

    Raises OSError when the program or the folder is not there or may not be used.
    """
    done = await capture_process(
        argv,
        cwd=cwd,
        timeout=timeout,
        env=child_env(env, base_env),
        stdin=stdin,
        on_output=on_output,
        grace=grace,
    )
    return ProcessResult(
        exit_code=done.exit_code,
        stdout=decode(done.stdout.data()),
        stderr=decode(done.stderr.data()),
        timed_out=done.timed_out,
        survivors=done.survivors,
    )


async def capture_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    timeout: float | None = None,
    stdin: bytes | None = None,
    merge: bool = False,
    on_output: Callable[[bytes], None] | None = None,
    grace: float = 2.0,
) -> Captured:
    """Like `run_process`, with exactly the environment `env` and raw streams.

    With `merge` standard error goes into `stdout`, in the order in which it was written.
    """
    _check(argv, cwd)
    out, err = Capture(), Capture()
    with ExitStack() as stack:
        reader, writer = _pipe(stack)
        streams, writers = [_Stream(reader, out, on_output)], [writer]
        if not merge:
            reader, writer = _pipe(stack)
            streams.append(_Stream(reader, err, on_output))
            writers.append(writer)
        process = await anyio.open_process(
            list(argv),
            stdin=_source(stack, stdin),
            stdout=writers[0],
            stderr=subprocess.STDOUT if merge else writers[1],
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        for writer in writers:
            writer.close()  # the child's copies are now the only ones, so that its end shows
        ended = False
        try:
            ended = await _watch(process, streams, timeout)
        finally:
            with anyio.CancelScope(shield=True):
                if not ended:
                    await _end_group(process, streams, grace)
                await process.aclose()
    survivors = ended and not all(stream.ended.is_set() for stream in streams)
    return Captured(process.returncode if ended else None, out, err, not ended, survivors)


def _check(argv: Sequence[str], cwd: Path | None) -> None:
    if isinstance(argv, str):
        raise TypeError("argv must be a sequence of strings, not one string")
    if cwd is not None and not cwd.is_dir():
        raise NotADirectoryError(f"the working folder {cwd} is not there, or is no folder")


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    # Our own pipes and not asyncio's: with those, waiting for the process can mean waiting for
    # whoever holds its pipes.
    read, write = os.pipe()
    os.set_blocking(read, False)
    reader = stack.enter_context(os.fdopen(read, "rb", buffering=0))
    return reader, stack.enter_context(os.fdopen(write, "wb", buffering=0))


def _source(stack: ExitStack, stdin: bytes | None) -> IO[bytes] | int:
    if stdin is None:
        return subprocess.DEVNULL
    import tempfile

    # A file, so that a child that does not read cannot block us.
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    file.write(stdin)
    file.seek(0)
    return file


async def _watch(process: Process, streams: list[_Stream], timeout: float | None) -> bool:
    # Whether the process ended by itself.
    async with anyio.create_task_group() as tasks:
        for stream in streams:
            tasks.start_soon(stream.pump)
        with anyio.move_on_after(timeout) as scope:
            await process.wait()
        ended = not scope.cancelled_caught
        if ended:
            await _settle(streams)
        tasks.cancel_scope.cancel()
    return ended


async def _settle(streams: list[_Stream]) -> None:
    # The process is gone; what it wrote is in the pipes. Wait for their end while output comes.
    with anyio.move_on_after(_SETTLE):
        seen = -1
        while (total := sum(stream.capture.total for stream in streams)) != seen:
            seen = total
            with anyio.move_on_after(_IDLE):
                for stream in streams:
                    await stream.ended.wait()
                return
    for stream in streams:
        stream.sweep()


async def _end_group(process: Process, streams: list[_Stream], grace: float) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    with anyio.move_on_after(grace):
        while True:
            for stream in streams:
                stream.sweep()
            quiet = all(stream.ended.is_set() for stream in streams)
            if process.returncode is not None and (quiet or not _signal_group(process.pid, 0)):
                break
            await anyio.sleep(_POLL)
    # Also when the leader went in time: what it started may have not.
    _signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    for stream in streams:
        stream.sweep()


def _signal_group(group: int, number: int) -> bool:
    # PermissionError: on macOS, a group of which only zombies are left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False
