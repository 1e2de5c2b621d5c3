"""`unipi doctor`: what is well here, what is not, and what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "-e",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Also load a plugin file or package folder.",
)
@click.option("--no-plugin", "deny", multiple=True, metavar="NAME", help="Leave one out.")
def doctor(*, as_json: bool, paths: Sequence[Path], deny: Sequence[str]) -> None:
    """Look at settings, models, plugins, keys and session files; change nothing.

    Each check has a time limit, and says what to do when all is not well. Plugins add checks of
    their own. Keys are never shown, and neither commands nor keyrings are asked for one.

    Exit codes: 0 all is well or there are warnings alone, 1 something failed.
    """
    from unipi.doctor import examine

    report = examine(Path.cwd(), paths=paths, deny=deny)
    if as_json:
        print_json(report.to_json())
    else:
        rows = [
            (
                each.status,
                each.name if each.owner == "host" else f"{each.owner}: {each.name}",
                each.detail,
                each.fix,
            )
            for each in report.findings
        ]
        print_table("Doctor", ("status", "check", "found", "what to do"), rows)
        counts = report.counts
        sys.stdout.write(
            f"{counts['ok']} well, {counts['warning']} to look at, {counts['failed']} failed\n"
        )
    raise SystemExit(report.exit_code)
