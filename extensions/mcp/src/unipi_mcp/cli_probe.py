"""`unipi mcp test`: start servers, see what they list, stop them. Nothing is kept or approved."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import anyio
import click
from attrs import frozen

from . import definitions, pins
from .cli_text import chosen, loaded, plain, tell
from .names import final_names
from .refs import problem
from .schema import utf16

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from pathlib import Path

    from unipi_hookspecs import CliHost

    from .config import ServerConfig
    from .definitions import Catalogue


class Probe(Protocol):
    """`server.probe`: start, list and stop a server within its `start_seconds`.

    An exception's text says what went wrong and holds no value of `env` or `headers`.
    """

    def __call__(self, config: ServerConfig) -> Awaitable[Catalogue]: ...


@frozen
class Tested:
    """What came of one server. `seconds` is from its start to its end."""

    server: ServerConfig
    seconds: float
    catalogue: Catalogue | None = None
    error: str = ""


def run(host: CliHost, names: Sequence[str], *, as_json: bool) -> None:
    """Test the servers of these names, or all that are enabled, side by side."""
    found = loaded(host)
    servers = chosen(host, found.servers, names) or [s for s in found.servers if s.enabled]
    if not as_json:
        tell(found.problems)
    for server in servers:
        if not (server.command or server.url):
            host.fail(f"{plain(server.name)} is disabled, and a variable of it is not set", 2)
    results = anyio.run(_all, servers, _probe(host)) if servers else []
    folder = definitions.folder(host.state_dir)
    rows = [_row(each, folder) for each in results]
    if as_json:
        host.print_json({"servers": rows})
    elif rows:
        _print(host, rows)
    else:
        click.echo("No server is enabled here.")
    if any(each.error for each in results):
        raise SystemExit(1)


def _probe(host: CliHost) -> Probe:
    try:
        module = import_module(".server", __package__)
    except ImportError as error:
        host.fail(f"servers cannot be started, as {error.name} is not installed")
    return cast("Probe", module.probe)


async def _all(servers: Sequence[ServerConfig], probe: Probe) -> list[Tested]:
    results: dict[str, Tested] = {}

    async def one(server: ServerConfig) -> None:
        began = time.monotonic()
        try:
            catalogue = await probe(server)
        except Exception as error:  # noqa: BLE001 - whatever a server does is its result, no crash
            text = str(error) or type(error).__name__
            results[server.name] = Tested(server, time.monotonic() - began, error=text)
        else:
            results[server.name] = Tested(server, time.monotonic() - began, catalogue)

    async with anyio.create_task_group() as group:
        for server in servers:
            group.start_soon(one, server)
    return [results[server.name] for server in servers]


def _row(each: Tested, folder: Path) -> dict[str, object]:
    row: dict[str, object] = {"name": each.server.name, "ok": not each.error}
    row |= {"seconds": round(each.seconds, 2), "error": each.error or None}
    if each.catalogue is None:
        return {**row, "tools": [], "left_out": [], "notes": []}
    offered = [tool for tool in each.catalogue.definitions if each.server.allows(tool.tool)]
    problems = {tool.tool: problem(tool.schema) for tool in offered}
    names = final_names((each.server.name, tool.tool) for tool in offered)
    left_out = {tool: why for tool, why in problems.items() if why}
    left_out |= {t.tool: "it has no name" for t in offered if (t.server, t.tool) not in names}
    tools = {name: tool for (_, tool), name in names.items() if tool not in left_out}
    return {
        **row,
        "tools": [{"name": n, "tool": tools[n]} for n in sorted(tools, key=utf16)],
        "left_out": [{"tool": tool, "why": why} for tool, why in left_out.items()],
        "notes": _notes(each.server, each.catalogue, folder),
    }


def _notes(server: ServerConfig, catalogue: Catalogue, folder: Path) -> list[str]:
    notes = [f"{tool} holds characters that are not seen" for tool in pins.hidden_tools(catalogue)]
    try:
        approved = definitions.read(folder, server)
    except definitions.CatalogueError as error:
        return [*notes, str(error)]
    if approved is not None and pins.compare(approved, catalogue) is not None:
        notes.append("it describes itself otherwise than when it was approved")
    return notes


def _print(host: CliHost, rows: Sequence[dict[str, object]]) -> None:
    host.print_table(
        "Servers",
        ("name", "result", "seconds", "tools"),
        [
            (
                plain(str(row["name"])),
                plain(str(row["error"] or "ok"), 1_000),
                row["seconds"],
                len(cast("list[str]", row["tools"])),
            )
            for row in rows
        ],
    )
    for row in rows:
        name = plain(str(row["name"]))
        for tool in cast("list[dict[str, str]]", row["tools"]):
            mapped = (
                "" if tool["name"].endswith(f"__{tool['tool']}") else f" ({plain(tool['tool'])})"
            )
            click.echo(f"{tool['name']}{mapped}")
        for out in cast("list[dict[str, str]]", row["left_out"]):
            click.echo(f"{name}: {plain(out['tool']) or 'a tool'} is left out: {out['why']}")
        for note in cast("list[str]", row["notes"]):
            click.echo(f"{name}: {plain(note)}")
