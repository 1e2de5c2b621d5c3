"""`unipi recall`: the search of `session_recall`, for people, over all sessions of a project."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING

import click

from .text import visible

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import CliHost

    from .recall import Query
    from .store import Store


@click.command()
@click.argument("words", nargs=-1, metavar="WORD…")
@click.option(
    "--limit", type=click.IntRange(1, 50), default=10, show_default=True, help="Hits a page."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Hits to pass over.")
@click.option("--expand", is_flag=True, help="Show entries whole, up to 16 KiB each.")
@click.option("--entry", metavar="ID", default="", help="Show one entry instead of searching.")
@click.option("--rebuild", is_flag=True, help="Build the index again from the session files.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def recall(
    words: tuple[str, ...],
    *,
    limit: int,
    offset: int,
    expand: bool,
    entry: str,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Search the sessions of this working folder for WORDs.

    The index lies beside the session files, readable by you alone, and is brought up to date first.
    """
    from .recall import Query

    host: CliHost = click.get_current_context().obj
    if not words and not entry and not rebuild:
        host.fail("say what to look for, or --rebuild", 2)
    folder = _folder(host)
    if folder is None:
        host.fail(f"no session of {host.cwd} was found under {host.sessions_dir}")
    query = Query(" ".join(words), limit, offset, expand, entry)
    try:
        _run(host, folder, query, rebuild=rebuild, as_json=as_json)
    except (OSError, sqlite3.Error) as error:
        host.fail(f"the index in {folder} cannot be used: {error}; try --rebuild")


def _folder(host: CliHost) -> Path | None:
    """The folder that holds the sessions of the working folder."""
    from .documents import decode
    from .index import session_files

    if not host.sessions_dir.is_dir():
        return None
    for folder in sorted(path for path in host.sessions_dir.iterdir() if path.is_dir()):
        for listed in session_files(folder):
            with listed.path.open("rb") as file:
                header = decode(file.readline(65_536))
            if header is not None and header.get("cwd") == str(host.cwd):
                return folder
    return None


def _run(host: CliHost, folder: Path, query: Query, *, rebuild: bool, as_json: bool) -> None:
    from .index import FILE_NAME
    from .render import entry_text, page_text
    from .search import Scope, find_entry, load, search
    from .store import Store

    store = Store(folder / FILE_NAME)
    try:
        if rebuild:
            store.rebuild()
        _sync(store, folder)
        if not query.text and not query.entry:
            (entries,) = store.db.execute("SELECT count(DISTINCT entry) FROM chunk").fetchone()
            _tell(host, f"{entries:,} entries are indexed", {"entries": entries}, as_json=as_json)
            return
        scope = Scope("", "", str(host.cwd))
        if query.entry:
            hit = find_entry(store, query.entry, scope)
            text = entry_text(store, query.entry, hit, query.offset)
            _tell(host, text, {"found": hit is not None, "text": text}, as_json=as_json)
            return
        found = search(store, query.text, scope)
        hits = load(store, found.rows[query.offset : query.offset + query.limit], "")
        listed = [
            {"entry": h.entry, "kind": h.kind, "time": h.stamp, "title": h.title, "text": h.text}
            for h in hits
        ]
        told = {
            "total": len(found.rows),
            "more": found.more,
            "offset": query.offset,
            "hits": listed,
        }
        _tell(host, page_text(store, query, found, hits, 0), told, as_json=as_json)
    finally:
        store.close()


def _tell(host: CliHost, text: str, value: object, *, as_json: bool) -> None:
    if as_json:
        host.print_json(value)
    else:
        click.echo(visible(text))


def _sync(store: Store, folder: Path) -> None:
    """Bring the index up to date, with a bar where somebody is watching."""
    from .index import drop_missing, session_files, sync

    files = session_files(folder)
    if not sys.stderr.isatty():
        sync(store, files)
    else:
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("Indexing", total=sum(file.size for file in files))
            sync(store, files, progress=lambda count: bar.advance(task, count))
    drop_missing(store, folder, files)
