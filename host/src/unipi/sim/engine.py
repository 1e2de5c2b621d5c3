"""A real inference engine on loopback: llama.cpp's server, with a model of hand-set weights.

The server lives in a child process that ends when its standard input closes. The parent's death
closes it too, whatever killed the parent, so that no server is left behind.

As a command: `python -m unipi.sim.engine MODEL.gguf [CONTEXT [SLOTS [KEEP_MIB [PORT [ALIAS [THREADS]]]]]]`
prints the address.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from unipi.sim.tiny_model import EngineUnavailable as EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from os import PathLike

    from anyio.abc import ByteReceiveStream, Process

_STARTUP_SECONDS = 30.0
"""Seen: 0.1 to 0.4 s on two quiet cores, 3.5 times that on busy ones."""
_ENDING_SECONDS = 5.0
_PROMPT_CACHE_MIB = 256
"""The server's own default of 8 GiB of host memory is not for a demo."""
_PASSED_ON = frozenset(
    ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR")
)
"""The environment of the server: it never needs a key, so it gets none."""


def engine_available() -> str | None:
    """None if the engine's parts are installed, else the reason why it cannot run."""
    missing = [name for name in ("xllamacpp", "gguf", "numpy") if find_spec(name) is None]
    if missing:
        return f"the local engine needs {', '.join(missing)}: pip install 'unipi[local]'"
    return None


@asynccontextmanager
async def start_engine(
    model_path: str | PathLike[str],
    ctx: int = 65_536,
    slots: int = 1,
    *,
    keep_mib: int = _PROMPT_CACHE_MIB,
    port: int = 0,
    alias: str = "scripted",
    threads: int = 2,
    startup: float = _STARTUP_SECONDS,
) -> AsyncIterator[str]:
    """Run the engine for the length of a `with` block; gives its base URL, `http://127.0.0.1:PORT`.

    Args:
        model_path: a GGUF file, such as `write_model` makes.
        ctx: tokens of context over all slots.
        slots: sequences decoded at once. Each has a prefix cache of its own, and a free slot does
            not copy its neighbour's, so 1 is what gives exact figures.
        keep_mib: host memory for prompts that a slot no longer holds; with 0 a slot knows only
            the last one.
        port: where it listens on loopback; 0 takes a free port.
        alias: what it calls the model.
        threads: of the processor, for prompts and for answers.
        startup: seconds that loading may take.

    Raises:
        EngineUnavailable: it is not installed, cannot load the model, or does not come up in time.
    """
    import anyio

    if reason := engine_available():
        raise EngineUnavailable(reason)
    process = await anyio.open_process(
        [
            *(sys.executable, "-P", "-m", __name__),
            *map(str, (model_path, ctx, slots, keep_mib, port, alias, threads)),
        ],
        env={name: value for name, value in os.environ.items() if name.upper() in _PASSED_ON},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Its own group: Ctrl-C is for the agent, which then closes the pipe in its own time.
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        with anyio.move_on_after(startup) as limit:
            address = await _first_line(process.stdout)
        if limit.cancelled_caught:
            raise EngineUnavailable(f"the local engine was not up in {startup:.0f} s")
        if not address.startswith("http://127.0.0.1:"):
            raise EngineUnavailable(f"the local engine could not load {model_path}")
        yield address
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _first_line(stream: ByteReceiveStream) -> str:
    """The text up to the first line end, or up to the end of the stream."""
    from anyio import EndOfStream

    text = b""
    while b"\n" not in text:
        try:
            text += await stream.receive()
        except EndOfStream:
            break
    return text.partition(b"\n")[0].decode(errors="replace").strip()


async def _end(process: Process) -> None:
    """Close the child's input, which is its sign to end; kill it if it does not."""
    import anyio

    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(_ENDING_SECONDS):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


def serve(
    model_path: str, ctx: int, slots: int, keep_mib: int, port: int, alias: str, threads: int
) -> None:
    """Serve the model on loopback, print the address, end when stdin closes."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model_path
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = ctx
    params.n_parallel = slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = keep_mib
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    # Nobody reads on: a log line to a full pipe would stop the server.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stdin.buffer.read()
    # Not by way of the server's destructor: called before its queue has started, it waits for ever.
    os._exit(0)


if __name__ == "__main__":
    _defaults = ("", "65536", "1", str(_PROMPT_CACHE_MIB), "0", "scripted", "2")
    _path, _ctx, _slots, _keep, _port, _alias, _threads = (
        *sys.argv[1:],
        *_defaults[len(sys.argv) - 1 :],
    )
    serve(_path, int(_ctx), int(_slots), int(_keep), int(_port), _alias, int(_threads))
