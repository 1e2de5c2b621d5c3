"""`unipi local`: a GGUF file served on loopback, as a model like any other."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import fail

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from unipi_hookspecs import Model

PORT = 8080
CONTEXT = 32_768
"""Port and window that the provider `llamacpp` is taken to have when nothing else is said, so that
`unipi run --model llamacpp/NAME` finds a served model without any file."""

_STARTUP = 600.0
"""Seconds: a large file is read from disk first."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="MODEL.gguf")
@click.option("-p", "--prompt", help="Run this prompt, `-` from standard input, and end with it.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Where to listen.  [default: 8080; with -p: any]"
)
@click.option(
    "--context", default=CONTEXT, show_default=True, type=click.IntRange(512), metavar="TOKENS"
)
@click.option("--threads", type=click.IntRange(1), help="Of the processor.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="With -p: events, one JSON object a line.")
@click.option("--no-session", is_flag=True, help="With -p: keep the session in memory only.")
def local(
    *,
    file: Path,
    prompt: str | None,
    port: int | None,
    context: int,
    threads: int | None,
    as_json: bool,
    no_session: bool,
) -> None:
    """Serve MODEL.gguf on loopback until Ctrl-C, for `unipi run` and whoever else asks.

    With -p, run one prompt on it with the tools and plugins that load here, and end the server.
    The server listens on 127.0.0.1 alone. Needs the extra `unipi[local]`.

    Exit codes: 0 done, or served until it was stopped, 1 the engine or the model failed, 2 wrong
    use, 130 a prompt was interrupted.
    """
    from unipi.sim.engine import engine_available, start_engine

    if not file.is_file():
        fail(f"{file}: no such file; give the path of a GGUF file", 2)
    if reason := engine_available():
        fail(reason)
    if prompt is None and (as_json or no_session):
        fail("--json and --no-session go with -p; without it the model is only served", 2)
    port = port if port is not None else (0 if prompt is not None else PORT)
    _check_free(port)
    name = _name(file)
    engine = start_engine(
        file.resolve(),
        ctx=context,
        port=port,
        alias=name,
        threads=threads or os.cpu_count() or 2,
        startup=_STARTUP,
    )
    if prompt is None:
        _serve(engine, name, context)
    else:
        code = _prompt(engine, name, context, prompt, as_json=as_json, in_memory=no_session)
        raise SystemExit(code)


def _name(file: Path) -> str:
    """A model's id out of a file's name, fit for a command line."""
    kept = (c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in file.stem)
    return "".join(kept).strip("-") or "model"


def _check_free(port: int) -> None:
    import socket

    with socket.socket() as probe:
        # As the engine does: a port that was in use a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fail(f"port {port} cannot be had ({error.strerror}); choose another with --port", 2)


def _model(name: str, url: str, context: int) -> Model:
    from unipi_hookspecs import Model

    return Model(
        "local",
        name,
        "openai-chat-completions",
        f"{url}/v1",
        context_window=context,
        max_tokens=min(8_192, context // 4),
        min_cache_tokens=0,
        dialect="llamacpp",
    )


def _serve(engine: AbstractAsyncContextManager[str], name: str, context: int) -> None:
    import signal

    import anyio

    from unipi.sim.engine import EngineUnavailable

    async def main() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    async for _ in signals:
                        tasks.cancel_scope.cancel()
                        return

                tasks.start_soon(stop)
                async with engine as url:
                    sys.stdout.write(usage(name, url, context))
                    sys.stdout.flush()
                    await anyio.sleep_forever()

    failure: Exception | None = None
    try:
        anyio.run(main)
    except* EngineUnavailable as group:
        failure = _first(group)
    if failure is not None:
        fail(str(failure))


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, Exception)
    return found


def usage(name: str, url: str, context: int) -> str:
    """How a served model is used: by its name where the defaults hold, else by `models.json`."""
    lines = [f"{name} is served at {url} (Ctrl-C ends it)"]
    if url == f"http://127.0.0.1:{PORT}" and context == CONTEXT:
        lines.append(f'Use it: unipi run --model llamacpp/{name} -p "…"')
    else:
        provider = {"api": "openai-chat-completions", "base_url": f"{url}/v1"}
        document = {
            "providers": {"local": {**provider, "dialect": "llamacpp", "api_key_env": None}},
            "models": {f"local/{name}": {"context_window": context}},
        }
        lines.append(f'Use it: unipi run --model local/{name} -p "…", with this in models.json:')
        lines.append(json.dumps(document, indent=2))
    return "\n".join([*lines, ""])


def _prompt(
    engine: AbstractAsyncContextManager[str],
    name: str,
    context: int,
    prompt: str,
    *,
    as_json: bool,
    in_memory: bool,
) -> int:
    from anyio.from_thread import start_blocking_portal

    from unipi.sim.engine import EngineUnavailable

    prompt = sys.stdin.read() if prompt == "-" else prompt
    if not prompt.strip():
        fail("the prompt is empty; say what to do with -p", 2)
    try:
        # The run has an event loop of its own, so the server is kept by another.
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(engine) as url:
            return _run(_model(name, url, context), prompt, as_json=as_json, in_memory=in_memory)
    except EngineUnavailable as error:
        fail(str(error))


def _run(model: Model, prompt: str, *, as_json: bool, in_memory: bool) -> int:
    from unipi.agent import AgentOptions

    from ._load import compaction_options, load_host, prefix_policy
    from ._session import open_named
    from ._summary import JsonLines, PlainText, Summary
    from .run import _execute

    summary = Summary(JsonLines() if as_json else PlainText())
    cwd = Path.cwd()
    host, settings = load_host(cwd, report=summary.failed)
    for problem in host.problems:
        summary.problem(problem.message)
    session = open_named(cwd, None, go_on=False, fork=None, in_memory=in_memory)
    options = AgentOptions(
        policy=prefix_policy(settings), compaction=compaction_options(settings), wants_deltas=True
    )
    code = _execute(host, session, model, options, prompt, summary)
    summary.end(session, code, host.hooks.stats())
    return code
