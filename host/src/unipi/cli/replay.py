"""`unipi replay`: a recorded session sent again, recorded against attained."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ._output import console, fail, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unipi.replay import ReplayReport
    from unipi.session import Session

# `unipi.replay.APIS`, written out so that `--help` need not import the host.
_APIS = ("anthropic-messages", "openai-chat-completions", "openai-responses")


@click.command()
@click.argument("file")
@click.option(
    "--api",
    type=click.Choice(_APIS),
    help="Send over this wire API; by default the recording's own, where it is one of them.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def replay(file: str, *, api: str | None, as_json: bool) -> None:
    """Send a recorded session FILE (or session id) again, to a simulated provider.

    Every request that stood before a recorded answer is rebuilt and sent through the host's own
    request path over loopback, at its recorded time. No tool is run, no key is needed, and the
    file is not touched.
    """
    from pathlib import Path

    import anyio

    from unipi.replay import ReplayError, replay as run_replay
    from unipi.session import Session, SessionError, find_session

    try:
        with Session.open(find_session(file, Path.cwd()), read_only=True) as session:
            for damage in session.damages:
                click.echo(f"unipi: {session.path}: {damage}", err=True)
            with _progress(session) as progress:
                report = anyio.run(lambda: run_replay(session, api, progress=progress))
    except SessionError as error:
        fail(str(error), 2)
    except ReplayError as error:
        fail(f"{file}: {error}")
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)


@contextmanager
def _progress(session: Session) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.progress import Progress

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying", total=len(session.entries()))
        yield lambda done: bar.update(task, completed=done)


def _print(report: ReplayReport) -> None:
    print_table(
        "Recorded against attained",
        ("", "recorded", "attained"),
        [
            ("read from the cache", f"{report.recorded_share:.2%}", f"{report.attained_share:.2%}"),
            ("misses", f"{report.recorded_misses:,}", f"{len(report.misses):,}"),
            (
                "tokens paid again",
                f"{report.recorded_tokens:,}",
                f"{report.tokens_paid_again:,}",
            ),
        ],
    )
    print_table(
        "Epochs",
        ("epoch", "cause", "owner", "avoidable", "tokens lost", "price"),
        [
            (
                epoch.number,
                epoch.cause,
                epoch.owner,
                "yes" if epoch.avoidable else "no",
                epoch.tokens_lost,
                "-" if epoch.price is None else f"${epoch.price:.4f}",
            )
            for epoch in report.epochs
        ],
    )
    if report.misses:
        print_table(
            "Misses",
            ("answer", "cause", "paid again"),
            [(miss.index, miss.cause, miss.tokens) for miss in report.misses],
        )
    unsent = f", {report.unsent} recorded answers to nothing left out" if report.unsent else ""
    click.echo(
        f"{report.requests:,} requests over {report.api}{unsent}, {report.answered:,} answered, "
        f"{report.violations} byte-prefix violations inside an epoch"
    )
