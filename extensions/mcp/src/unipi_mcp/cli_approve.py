"""`unipi mcp approve`: what changed behind a name that was approved, shown and then let in."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING

import click
from attrs import frozen

from . import consent, definitions, jsontext, pins
from .cli_list import written
from .cli_text import block, loaded, plain, tell
from .config import PROJECT_FILE, read_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unipi_hookspecs import JSON, CliHost

    from .config import ServerConfig


@frozen
class Waiting:
    """A server whose tools changed: what was approved, and what it lists now."""

    server: ServerConfig
    old: definitions.Catalogue
    pending: definitions.Pending


def approve(host: CliHost, names: Sequence[str], *, yes: bool, as_json: bool) -> None:
    """Show what waits, ask where somebody can answer, and keep what was approved."""
    found = loaded(host)
    folder = definitions.folder(host.state_dir)
    entries = _entries(host, names)
    waiting = _waiting(host, folder, found.servers, names)
    known = {server.name for server in found.servers} | entries.keys()
    for name in names:
        if name not in known:
            host.fail(f"there is no server {plain(name)}; `unipi mcp list` shows all", 2)
    approved: list[str] = []
    if not as_json:
        tell(problem for problem in found.problems if "unipi mcp approve" not in problem.text)
        if not entries and not waiting:
            click.echo("Nothing waits for approval.")
    for name, raw in entries.items():
        if not as_json:
            click.echo(f"{plain(name)} of {host.cwd / PROJECT_FILE} would run:\n  {written(raw)}")
        if _agreed(host, name, yes=yes, as_json=as_json):
            _consent(host, name, raw)
            approved.append(name)
    for each in waiting:
        if not as_json:
            _show(each)
        if _agreed(host, each.server.name, yes=yes, as_json=as_json):
            definitions.write(folder, each.server, each.pending.catalogue)
            approved.append(each.server.name)
    if as_json:
        documents = [_document(each) for each in waiting]
        changed = [{"name": name, "starts": written(raw)} for name, raw in entries.items()]
        host.print_json({"entries": changed, "servers": documents, "approved": approved})


def _entries(host: CliHost, names: Sequence[str]) -> dict[str, JSON]:
    """The entries of a trusted project's file that wait."""
    if not host.project_trusted:
        return {}
    try:
        source = read_source("project", host.cwd / PROJECT_FILE)
    except (OSError, jsontext.FileError):
        return {}
    held, _ = consent.withheld(host.user_dir, host.cwd, source.entries)
    return {
        name: raw
        for name, raw in source.entries.items()
        if name in held and (not names or name in names)
    }


def _waiting(
    host: CliHost, folder: Path, servers: Sequence[ServerConfig], names: Sequence[str]
) -> list[Waiting]:
    found: list[Waiting] = []
    for server in servers:
        if names and server.name not in names:
            continue
        try:
            pending = definitions.read_pending(folder, server)
            old = definitions.read(folder, server)
        except definitions.CatalogueError as error:
            host.fail(str(error))
        if pending is not None:
            found.append(Waiting(server, old or definitions.Catalogue(), pending))
    return found


def _consent(host: CliHost, name: str, raw: JSON) -> None:
    try:
        consent.approve(host.user_dir, host.cwd, {name: raw})
    except consent.ConsentError as error:
        host.fail(str(error))


def _agreed(host: CliHost, name: str, *, yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if as_json:
        return False
    if not _answers():
        host.fail("nobody can be asked here; --yes approves what was shown")
    return click.confirm(f"Approve {plain(name)}?", default=False)


def _answers() -> bool:
    """Whether somebody sits at the terminal."""
    return sys.stdin.isatty()


def _show(each: Waiting) -> None:
    click.echo(f"{plain(each.server.name)} describes itself otherwise than when it was approved:")
    for change in pins.changes(each.old, each.pending.catalogue):
        click.echo(f"  {plain(change.tool) or 'the server'}, {change.field}:")
        lines = difflib.unified_diff(
            change.old.splitlines(), change.new.splitlines(), lineterm="", n=1
        )
        for line in list(lines)[2:]:
            if not line.startswith("@@"):
                click.echo(f"    {block(line)}")
    drift = pins.compare(each.old, each.pending.catalogue)
    for tool in drift.hidden if drift else ():
        click.echo(f"  {plain(tool)} holds characters that are not seen; they stand above as <U+…>")
    for tool in each.pending.volatile:
        click.echo(
            f"  {plain(tool)} changes its digits again and again, a counter or a clock; "
            "keep what was approved, or leave the tool out with `disabledTools`"
        )


def _document(each: Waiting) -> Mapping[str, object]:
    drift = pins.compare(each.old, each.pending.catalogue)
    return {
        "name": each.server.name,
        "changes": [
            {"tool": change.tool, "field": change.field, "old": change.old, "new": change.new}
            for change in pins.changes(each.old, each.pending.catalogue)
        ],
        "hidden": list(drift.hidden) if drift else [],
        "volatile": list(each.pending.volatile),
    }
