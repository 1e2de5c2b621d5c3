"""`unipi demo`: the prefix held, broken and defended, with no key and no network."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import fail, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--simulator", is_flag=True, help="Use the simulator even where the engine is.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave the projects and the session files in this new or empty folder.",
)
def demo(*, as_json: bool, simulator: bool, keep: Path | None) -> None:
    """Watch the prefix hold, break, and be defended.

    A scripted agent works in a temporary git repository: it reads, edits, tests and commits, and a
    plugin tells it of changing state. Then the same with a plugin that puts a clock into the
    system prompt and shuffles the tools, first let be and then refused. No key and no network; your
    settings, plugins and git configuration are left alone.

    Exit codes: 0 all came out as it must, 1 it did not, 2 wrong use, 130 interrupted.
    """
    import anyio

    from unipi.cli._demo_view import View
    from unipi.demo import DemoError, run_demo

    view = None if as_json else View()
    try:
        with _folder(keep) as folder:
            report = anyio.run(
                lambda: run_demo(folder, simulator=simulator, tell=view or (lambda _event: None))
            )
    except DemoError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted", 130)
    if view is None:
        print_json(report.to_json())
    else:
        view.end(report, keep)
    problems = report.problems()
    if problems:
        fail("the demo did not come out as it must:\n" + "\n".join(f"- {p}" for p in problems))


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A temporary folder, or the one to keep."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="unipi-demo-") as name:
            yield Path(name).resolve()
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except OSError as error:
        fail(f"{keep} cannot be used: {error.strerror}", 2)
    if taken:
        fail(f"{keep} is not empty; give --keep a new folder", 2)
    yield keep.resolve()
