"""The interactive prompt from its options to its end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from attrs import frozen

from unipi.agent import AgentOptions, KeepWarm
from unipi.cli._load import (
    cache_ttl,
    choose_model,
    compaction_options,
    keep_warm_pings,
    load_host,
    prefix_policy,
)
from unipi.cli._session import open_named
from unipi.redaction import scrub

from .choice import model_of, thinking_of
from .shell import FAILURES, Shell, Start
from .unused import is_unused, remove_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskStatus

    from unipi.agent import Host
    from unipi.hooks import Failure
    from unipi.loader.settings import Settings
    from unipi.session import Session
    from unipi_hookspecs import Model

    from .console import Console


@frozen
class Wish:
    """The options of the command line; None leaves the choice to the session or the settings."""

    model_name: str | None = None
    session_path: Path | None = None
    go_on: bool = False
    fork: str | None = None
    no_session: bool = False
    paths: Sequence[Path] = ()
    deny: Sequence[str] = ()
    strict: bool = False
    policy: str | None = None
    thinking: str | None = None
    fresh_head: bool = False
    plain: bool = False


def start(wish: Wish) -> int:
    """Open the prompt and work until the user leaves; returns the exit code."""
    cwd = Path.cwd()
    console = _console(plain=wish.plain)

    def report(failure: Failure) -> None:
        console.write(str(failure), "warning")

    host, settings = load_host(
        cwd, paths=wish.paths, deny=wish.deny, strict=wish.strict, report=report
    )
    for problem in host.problems:
        console.write(problem.message, "warning")
    pings = keep_warm_pings(settings)
    options = AgentOptions(
        policy=wish.policy or prefix_policy(settings),  # type: ignore[arg-type]  # click.Choice has checked it
        fresh_head=wish.fresh_head,
        compaction=compaction_options(settings),
        cache_ttl=cache_ttl(settings),
        keep_warm=KeepWarm(pings),
        wants_deltas=True,
    )
    session = open_named(
        cwd, wish.session_path, go_on=wish.go_on, fork=wish.fork, in_memory=wish.no_session
    )
    model = _model(wish, session, host, settings)
    thinking = wish.thinking or thinking_of(session) or "off"
    first = Start(session, model, thinking)  # type: ignore[arg-type]  # click.Choice has checked it
    return anyio.run(_work, Shell(host, options, console), first)


def _model(wish: Wish, session: Session, host: Host, settings: Settings) -> Model:
    """The model that was asked for, else the session's own, else the settings'; or exit."""
    known = None if wish.model_name else model_of(session, host.models)
    if known is not None:
        return known
    try:
        return choose_model(host, settings, wish.model_name)
    except SystemExit:
        session.close()
        if is_unused(session):
            remove_file(session)
        raise


def _console(*, plain: bool) -> Console:
    dumb = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown")
    if plain or dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from .plain import Plain

        return Plain()
    from unipi.loader.paths import state_dir

    from .history import open_history
    from .terminal import Terminal

    return Terminal(open_history(state_dir() / "history"))


async def _work(shell: Shell, first: Start) -> int:
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(shell.console.serve, shell)
        await tasks.start(_listen_for_signals, shell)
        try:
            await shell.work(first)
        except FAILURES as error:
            failure = error
        await shell.console.close()
        tasks.cancel_scope.cancel()
    if failure is not None:
        sys.stderr.write(f"unipi: {scrub(str(failure))}\n")
        return 1
    return 0


async def _listen_for_signals(shell: Shell, *, task_status: TaskStatus[None]) -> None:
    """A polite kill, or a terminal that is gone, ends the work in order. So does Ctrl-C where
    nothing runs; a terminal in raw mode sends it as a key, and answers for it itself.
    """
    wanted = [signal.SIGTERM, signal.SIGHUP]
    if not shell.console.live:
        wanted.append(signal.SIGINT)
    with anyio.open_signal_receiver(*wanted) as signals:
        task_status.started()
        async for number in signals:
            stopped = shell.interrupt()
            if number != signal.SIGINT or not stopped:
                shell.console.leave()
