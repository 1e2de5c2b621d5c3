"""What every command does with its result: a table for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from unipi.redaction import scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


def print_json(value: object) -> None:
    """Write one JSON document to standard output, indented, keys in the given order."""
    import orjson

    sys.stdout.write(scrub(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()) + "\n")


def print_json_line(value: object) -> None:
    """Write one JSON object as one line and flush, so that a reader sees it at once."""
    import orjson

    sys.stdout.write(scrub(orjson.dumps(value).decode()) + "\n")
    sys.stdout.flush()


def console(*, stderr: bool = False) -> Console:
    """A rich console that never reads markup out of text from outside and honours `NO_COLOR`."""
    from rich.console import Console

    return Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=bool(os.environ.get("NO_COLOR")) or None,
    )


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; columns whose every value is a number are set flush right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


def fail(message: str, code: int = 1) -> NoReturn:
    """Say on standard error what went wrong and how to get out of it, and exit with `code`.

    Exit codes: 1 the work failed, 2 the command line or an input file is wrong, 130 interrupted.
    """
    sys.stderr.write(f"unipi: {scrub(message)}\n")
    raise SystemExit(code)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
