"""The servers of one session: what they are known to offer, who is connected, and what has changed.

Tools are offered from what is on disk before any server is started. A server that was never seen is
waited for, within its own time; what it lists is approved by that, and kept. Any later difference waits.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from attrs import define, field, frozen

from unipi_hookspecs import Tool

from . import definitions, pins
from .definitions import Catalogue, CatalogueError
from .names import final_names
from .refs import problem
from .schema import SchemaError, parameters, utf16

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unipi_hookspecs import Call, Context, ToolOutput

    from .config import Loaded, ServerConfig
    from .definitions import Definition
    from .server import Connection

ON_DEMAND: Final = 20_000
"""Characters of a server's definitions above which `auto` does not list them: about 5,000 tokens."""


@frozen
class Offered:
    """A tool under its final name."""

    name: str
    definition: Definition
    server: ServerConfig
    schema: Mapping[str, object]


@frozen
class Plan:
    """What a host was configured with, and what is known of it: made when plugins are asked for tools.

    `known` are the approved catalogues by server. `notes` are for the user, once a session begins.
    """

    loaded: Loaded
    folder: Path
    known: Mapping[str, Catalogue]
    notes: tuple[str, ...] = ()

    @property
    def enabled(self) -> list[ServerConfig]:
        """The servers that are to run; one without an address lacks a variable, which is told."""
        return [s for s in self.loaded.servers if s.enabled and (s.command or s.url)]


def make_plan(loaded: Loaded, folder: Path) -> Plan:
    """Look up what is known of every server; a file that is damaged closes its server."""
    known: dict[str, Catalogue] = {}
    notes = [str(each) for each in loaded.problems]
    servers = []
    for server in loaded.servers:
        try:
            found = definitions.read(folder, server)
        except CatalogueError as error:
            notes.append(str(error))
            continue
        servers.append(server)
        if found is not None:
            known[server.name] = found
    from attrs import evolve

    return Plan(evolve(loaded, servers=tuple(servers)), folder, known, tuple(notes))


def is_listed(server: ServerConfig, catalogue: Catalogue) -> bool:
    """Whether a server's tools stand in the tool list, rather than being found on demand."""
    if server.mode == "auto":
        return size_of(server, catalogue) <= ON_DEMAND
    return server.mode == "listed"


def size_of(server: ServerConfig, catalogue: Catalogue) -> int:
    """Characters that a catalogue would take in the tool list, about."""
    return sum(
        len(each.description) + len(json.dumps(each.schema))
        for each in catalogue.definitions
        if server.allows(each.tool)
    )


def offered(
    servers: Sequence[ServerConfig], known: Mapping[str, Catalogue]
) -> tuple[list[Offered], list[str]]:
    """Every tool that can be called, by final name in UTF-16 order, and why others are left out."""
    found: list[tuple[ServerConfig, Definition]] = [
        (server, each)
        for server in servers
        if server.name in known
        for each in known[server.name].definitions
        if server.allows(each.tool)
    ]
    names = final_names((server.name, each.tool) for server, each in found)
    made: list[Offered] = []
    left_out: list[str] = []
    for server, each in found:
        name = names.get((server.name, each.tool))
        why = problem(each.schema)
        if name is None:
            why = why or "no name is free for it"
        try:
            schema = parameters(each.schema)
        except SchemaError as error:
            why, schema = why or str(error), {}
        if why or name is None:
            left_out.append(f"tool {each.tool!r} of {server.name!r} is left out: {why}")
        else:
            made.append(Offered(name, each, server, schema))
    return sorted(made, key=lambda tool: utf16(tool.name)), left_out


def as_tool(tool: Offered, run: Callable[[Offered, Call, Context], object]) -> Tool:
    """The host's tool for an offered one."""
    about = tool.definition.description or tool.definition.title or tool.definition.tool
    return Tool(
        tool.name,
        about,
        parameters=tool.schema,  # type: ignore[arg-type]  # JSON, as `parameters` has made it
        run=partial(run, tool),  # type: ignore[arg-type]  # what it returns is awaited by the host
        label=tool.definition.title,
    )


@define(eq=False)
class Registry:
    """The servers while a session runs; `known` grows by those that were never seen before."""

    plan: Plan
    cwd: Path
    known: dict[str, Catalogue] = field(factory=dict)
    connections: dict[str, Connection] = field(factory=dict)
    drifts: dict[str, pins.Drift] = field(factory=dict)
    volatile: set[str] = field(factory=set)
    late: dict[str, str] = field(factory=dict)

    def start(self, ctx: Context) -> None:
        """Begin to start every server, each in a task of its own."""
        from .server import Connection

        for server in self.plan.enabled:
            connection = Connection(server, self.cwd)
            self.connections[server.name] = connection
            ctx.start_task(connection.run, name=f"mcp server {server.name}")

    async def first_listings(self) -> list[str]:
        """Wait for the servers that were never seen; returns those that can be offered now.

        Each has its own time. What is listed is kept, and so approved.
        """
        fresh = [server for server in self.plan.enabled if server.name not in self.known]

        async def one(server: ServerConfig) -> None:
            from .server import ServerError

            try:
                found = await self.connections[server.name].catalogue()
                definitions.write(self.plan.folder, server, found)
            except (ServerError, OSError) as error:
                self.late[server.name] = str(error)
                return
            self.known[server.name] = found

        async with anyio.create_task_group() as tasks:
            for server in fresh:
                tasks.start_soon(one, server)
        return [server.name for server in fresh if server.name in self.known]

    async def watch(self, server: ServerConfig, tell: Callable[[str], None]) -> None:
        """Compare a known server with what is approved of it, once it is connected."""
        from .server import ServerError

        try:
            found = await self.connections[server.name].catalogue()
        except ServerError as error:
            self.late[server.name] = str(error)
            tell(f"{error}; its tools stay in the list, and a call will try again")
            return
        self.compare(server, found, tell)

    def compare(
        self, server: ServerConfig, found: Catalogue, tell: Callable[[str], None]
    ) -> pins.Drift | None:
        """Keep what a server lists otherwise than it is approved, and say so, until it is approved."""
        try:
            approved = definitions.read(self.plan.folder, server) or self.known[server.name]
            drift = pins.compare(approved, found)
            if drift is None:
                definitions.drop_pending(self.plan.folder, server)
                self.drifts.pop(server.name, None)
                return None
            waiting = definitions.write_pending(self.plan.folder, server, found)
        except (CatalogueError, OSError) as error:
            tell(str(error))
            return None
        self.drifts[server.name] = drift
        self.volatile.update(f"{server.name}: {tool}" for tool in waiting.volatile)
        tell(_told(server.name, drift, waiting.volatile))
        return drift

    async def call(self, tool: Offered, call: Call, ctx: Context) -> ToolOutput:
        """Run a call on its server. Raises ServerError."""
        from .content import output
        from .server import ServerError

        connection = self.connections.get(tool.server.name)
        if connection is None:
            raise ServerError(f"the MCP server {tool.server.name!r} is not running")
        result = await connection.call(
            tool.definition.tool, call.input, call.update, again=tool.definition.read_only
        )
        return output(result, ctx, tool.name)

    async def close(self) -> None:
        """End all servers, side by side."""
        async with anyio.create_task_group() as tasks:
            for connection in self.connections.values():
                tasks.start_soon(connection.close)


def _told(server: str, drift: pins.Drift, volatile: Sequence[str]) -> str:
    parts = [
        f"{what} {', '.join(pins.visible(tool) for tool in tools)}"
        for what, tools in (
            ("added", drift.added),
            ("removed", drift.removed),
            ("changed", drift.changed),
        )
        if tools
    ]
    if drift.instructions:
        parts.append("changed its instructions")
    text = f"the MCP server {server!r} lists otherwise than approved: {'; '.join(parts)}. "
    if volatile:
        text += f"The text of {', '.join(volatile)} changes its digits each time: a counter or a clock. "
    if drift.hidden:
        text += (
            f"Characters that are not seen are in {', '.join(map(pins.visible, drift.hidden))}. "
        )
    return (
        f"{text}The session goes on with what is approved; `unipi mcp approve` shows the difference"
    )
