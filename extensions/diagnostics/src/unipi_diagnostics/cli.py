"""`unipi cache`: what the provider's cache did, live and in recorded sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi_hookspecs import CliHost

    from .audit_rates import PriceBook

_Command = TypeVar("_Command", bound="Callable[..., object]")


def _host() -> CliHost:
    """What the host hands to its commands; a caller of Python's must hand it over as `obj`."""
    host: CliHost = click.get_current_context().obj
    return host


def _ttl(command: _Command) -> _Command:
    return click.option(
        "--ttl",
        type=click.FloatRange(min=0),
        help="Seconds for which the provider keeps a prompt.  [default: 300, and 3600 for a "
        "prompt that was written for an hour]",
    )(command)


def _json(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document.")(command)


@click.group()
def cache() -> None:
    """What the provider's cache did, live and in recorded sessions."""


@cache.command()
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option(
    "--requests",
    type=click.Path(path_type=Path),
    help="Compare the request bodies of a JSONL FILE, one a line, of any of the three APIs.",
)
@click.option("--since", metavar="DATE", help="Leave out what is older, such as 2026-11-01 (UTC).")
@_ttl
@_json
def audit(
    paths: tuple[str, ...],
    *,
    requests: Path | None,
    since: str | None,
    ttl: float | None,
    as_json: bool,
) -> None:
    """List the cache misses of a session and what they cost.

    PATH is a session file of UniPi, Pi, Claude Code or Codex, a session id, or a folder of such
    files; for several files it says where the money went, by day, project and cause.

    A miss is an answer whose prompt was read from the cache for less than 90 % of the prompt
    before it.
    """
    from . import cli_audit

    host = _host()
    if requests is not None:
        if paths or since:
            host.fail("--requests takes one file and no PATH or --since", 2)
        cli_audit.requests(host, requests, as_json=as_json)
        return
    if not paths:
        host.fail("name a session, a file or a folder; `unipi cache report --all` takes all", 2)
    found = [Path(path) if Path(path).is_dir() else host.find_session(path) for path in paths]
    if len(found) == 1 and not found[0].is_dir() and since is None:
        cli_audit.one(host, found[0], ttl, as_json=as_json)
    else:
        cli_audit.many(host, found, ttl, since, as_json=as_json)


@cache.command()
@click.argument("session", required=False)
@click.option(
    "--last", is_flag=True, help="The session written last, of this folder if it has one."
)
@click.option("--all", "everything", is_flag=True, help="All sessions: where the money went.")
@click.option("--since", metavar="DATE", help="With --all, leave out what is older (UTC).")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one page that needs nothing else.",
)
@_ttl
@_json
def report(
    session: str | None,
    *,
    last: bool,
    everything: bool,
    since: str | None,
    html: Path | None,
    ttl: float | None,
    as_json: bool,
) -> None:
    """Say what a SESSION read, wrote and paid again, and why; the last one by default.

    A session of UniPi names the owner of each boundary. In others the cause is what the recording
    tells: a compaction, another model, another thinking level, a pause, a failed answer.
    """
    from . import cli_report

    host = _host()
    if (session is not None) + last + everything > 1:
        host.fail("choose one of SESSION, --last and --all", 2)
    if everything:
        cli_report.everything(host, ttl, since, html, as_json=as_json)
        return
    if since:
        host.fail("--since goes with --all", 2)
    path = host.find_session(session) if session is not None else last_session(host)
    cli_report.one(host, path, ttl, html, as_json=as_json)


@cache.command()
@click.argument("session", required=False)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0),
    help="Stop after so many seconds; without it, Ctrl-C ends it.",
)
@_ttl
def watch(session: str | None, *, seconds: float | None, ttl: float | None) -> None:
    """Follow a SESSION while it runs, the last one by default: a line for each answer."""
    from . import cli_watch

    host = _host()
    path = host.find_session(session) if session is not None else last_session(host)
    cli_watch.watch(host, path, prices(host), ttl, seconds)


def last_session(host: CliHost) -> Path:
    """The session file written last, of this working folder where it has any."""
    from .audit_files import newest

    found = newest(host.sessions_dir, str(host.cwd))
    if found is None:
        host.fail(
            f"no session lies under {host.sessions_dir}; name a file, or begin with `unipi run`", 2
        )
    return found


def prices(host: CliHost) -> PriceBook:
    """Prices as the user set them, and examples for the rest."""
    from .audit_rates import PriceBook, own_rates

    return PriceBook(own_rates(host.settings("diagnostics")))
