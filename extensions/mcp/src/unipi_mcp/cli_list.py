"""`unipi mcp list`: every server, where it comes from, and what is known of it. Starts nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from . import definitions, jsontext
from .cli_text import loaded, plain, problem_json, starts, tell
from .config import PROJECT_FILE, read_source
from .entry import adjusts
from .schema import is_list

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import JSON, CliHost

    from .config import ServerConfig


def show(host: CliHost, *, as_json: bool) -> None:
    """Print the servers, those of an untrusted or changed project as refused."""
    found = loaded(host)
    folder = definitions.folder(host.state_dir)
    rows = [_row(server, folder) for server in found.servers]
    names = {server.name for server in found.servers if server.scope == "project"}
    refused = [row for row in _refused(host.cwd) if row["name"] not in names]
    if as_json:
        problems = [problem_json(problem) for problem in found.problems]
        host.print_json({"servers": rows, "refused": refused, "problems": problems})
        return
    tell(found.problems)
    if rows:
        _print(host, "Servers", rows)
    if refused:
        _print(host, "Of this project, not started", refused)
    if not rows and not refused:
        click.echo("No server is configured. `unipi mcp add` and `unipi mcp import` bring some.")


def _print(host: CliHost, title: str, rows: list[dict[str, object]]) -> None:
    keys = [
        key for key in ("name", "scope", "transport", "state", "tools", "starts") if key in rows[0]
    ]
    host.print_table(title, keys, [[_cell(row[key]) for key in keys] for row in rows])


def _cell(value: object) -> object:
    return plain(value) if isinstance(value, str) else value


def _row(server: ServerConfig, folder: Path) -> dict[str, object]:
    tools: int | None = None
    state = "enabled" if server.enabled else "disabled"
    try:
        catalogue = definitions.read(folder, server)
        waiting = definitions.read_pending(folder, server)
        if catalogue is not None:
            tools = sum(server.allows(each.tool) for each in catalogue.definitions)
        if server.enabled and waiting is not None:
            state = "changed, to be approved"
    except definitions.CatalogueError:
        state = "definitions unreadable"
    return {
        "name": server.name,
        "scope": server.scope,
        "transport": server.transport,
        "state": state,
        "tools": tools,
        "mode": server.mode,
        "starts": starts(server),
        "file": str(server.source) if server.source else None,
    }


def _refused(cwd: Path) -> list[dict[str, object]]:
    """The project's entries as they are written, no variable replaced."""
    try:
        source = read_source("project", cwd / PROJECT_FILE)
    except (OSError, jsontext.FileError):
        return []
    return [
        {"name": name, "starts": written(raw)}
        for name, raw in source.entries.items()
        if not adjusts(raw)
    ]


def written(raw: JSON) -> str:
    """What an entry would run or call, as it is written: no variable is replaced."""
    if not isinstance(raw, Mapping):
        return "-"
    command, args, url = raw.get("command"), raw.get("args"), raw.get("url")
    if isinstance(command, str):
        words = [each for each in args if isinstance(each, str)] if is_list(args) else []
        return plain(shlex.join((command, *words)))
    return plain(url.partition("?")[0]) if isinstance(url, str) else "-"
