"""`unipi sessions clean`: old sessions, shown first and removed on request."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import fail, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi.session.cleaning import Old


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--older-than",
    "days",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Days since a session was last written.",
)
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def clean(*, files: Sequence[Path], days: float, yes: bool, as_json: bool) -> None:
    """Show sessions that are old, or remove them with --yes.

    With FILES only these are looked at. A session goes with its key and its artifacts; one in use
    stays. Nothing but session files in the folder of sessions is ever removed.

    Exit codes: 0 done, 1 the file system refused, 2 a file that is no session.
    """
    from unipi.session import SessionError
    from unipi.session.cleaning import old_sessions, remove

    try:
        found = old_sessions(time.time() - days * 86_400, files)
    except SessionError as error:
        fail(str(error), 2)
    removed: list[Old] = []
    in_use: list[Old] = []
    if yes:
        for session in found:
            try:
                (removed if remove(session) else in_use).append(session)
            except OSError as error:
                fail(f"{session.path}: {error.strerror or error}")
    if as_json:
        print_json(
            {
                "old": [{"path": str(each.path), "bytes": each.size} for each in found],
                "removed": [str(each.path) for each in removed],
                "in_use": [str(each.path) for each in in_use],
            }
        )
        return
    for session in removed if yes else found:
        click.echo(f"{session.size:>12,} bytes  {session.path}")
    for session in in_use:
        click.echo(f"in use, left alone: {session.path}")
    size = sum(each.size for each in (removed if yes else found))
    if yes:
        click.echo(f"{len(removed):,} sessions removed, {size:,} bytes")
    elif found:
        click.echo(f"{len(found):,} sessions, {size:,} bytes; --yes removes them")
    else:
        click.echo(f"no session is older than {days:g} days")
