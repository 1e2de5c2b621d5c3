"""`unipi run`: one prompt to its end, as text or as JSON events."""

from __future__ import annotations

import gc
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unipi.cli._output import fail
from unipi.cli._session import LEVELS, fresh_head_option, open_named, shared_options
from unipi.redaction import scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskStatus

    from unipi.agent import Agent, AgentOptions, Host
    from unipi.session import Session
    from unipi_hookspecs import Model

    from ._summary import Summary


@click.command()
@click.option("-p", "--prompt", required=True, help="What to do; `-` reads it from standard input.")
@shared_options
@click.option("--json", "as_json", is_flag=True, help="Events, one JSON object a line.")
@click.option(
    "--thinking",
    default="off",
    show_default=True,
    type=click.Choice(LEVELS),
)
@click.option("--max-turns", default=200, show_default=True, type=click.IntRange(1))
@click.option(
    "--save-wait",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long a full disk may pause the work before it ends.",
)
@fresh_head_option
def run(
    prompt: str,
    model_name: str | None,
    as_json: bool,
    session_path: Path | None,
    go_on: bool,
    fork: str | None,
    no_session: bool,
    paths: Sequence[Path],
    deny: Sequence[str],
    strict: bool,
    policy: str | None,
    thinking: str,
    max_turns: int,
    save_wait: float,
    fresh_head: bool,
) -> None:
    """Run one prompt until nothing automatic is left to do.

    Exit codes: 0 done, 1 the provider or the disk failed, 2 wrong use, 130 interrupted.
    """
    # Starting makes objects by the ten thousand and no garbage: looking for some takes a tenth of it.
    gc.disable()
    from unipi.agent import AgentOptions
    from unipi.cli._load import (
        cache_ttl,
        choose_model,
        compaction_options,
        load_host,
        prefix_policy,
    )
    from unipi.cli._summary import JsonLines, PlainText, Summary

    if prompt == "-":
        prompt = sys.stdin.read()
    if not prompt.strip():
        fail("the prompt is empty; say what to do with -p", 2)
    summary = Summary(JsonLines() if as_json else PlainText())
    cwd = Path.cwd()
    host, settings = load_host(cwd, paths=paths, deny=deny, strict=strict, report=summary.failed)
    for problem in host.problems:
        summary.problem(problem.message)
    model = choose_model(host, settings, model_name)
    session = open_named(cwd, session_path, go_on=go_on, fork=fork, in_memory=no_session)
    options = AgentOptions(
        thinking=thinking,  # type: ignore[arg-type]  # click.Choice has checked it
        policy=policy or prefix_policy(settings),  # type: ignore[arg-type]  # click.Choice has checked it
        max_turns=max_turns,
        save_wait=save_wait,
        fresh_head=fresh_head,
        compaction=compaction_options(settings),
        cache_ttl=cache_ttl(settings),
        wants_deltas=True,
    )
    gc.freeze()
    gc.enable()
    # A turn makes some thousand objects and hardly a cycle; the default of 700 looks ten times a turn.
    gc.set_threshold(50_000, 20, 50)
    code = _execute(host, session, model, options, prompt, summary)
    summary.end(session, code, host.hooks.stats())
    raise SystemExit(code)


def _execute(
    host: Host,
    session: Session,
    model: Model,
    options: AgentOptions,
    prompt: str,
    summary: Summary,
) -> int:
    import anyio

    from unipi.agent import AgentError, RunFailedError, open_agent
    from unipi.providers import SecretError
    from unipi.session import SessionWriteError

    failures = (AgentError, RunFailedError, SecretError, SessionWriteError)

    async def main() -> int:
        async with open_agent(host, session, model, options, observer=summary) as agent:
            failure: Exception | None = None
            async with anyio.create_task_group() as tasks:
                await tasks.start(_listen_for_signals, agent)
                try:
                    reply = await agent.prompt(prompt)
                except failures as error:
                    failure = error
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure  # here, so that it does not come in a group
            if reply:
                summary.reply(reply)
            return 130 if agent.cancelled else 0

    summary.begin(session, model)
    try:
        return anyio.run(main, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except failures as error:
        sys.stderr.write(f"unipi: {scrub(str(error))}\n")
        return 1


async def _listen_for_signals(agent: Agent, *, task_status: TaskStatus[None]) -> None:
    """Ctrl-C and a polite kill stop the turn; the session stays valid."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            agent.abort()
