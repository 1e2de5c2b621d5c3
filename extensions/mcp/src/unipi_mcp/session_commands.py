"""`/unipi:mcp-status` and `/unipi:mcp-reload`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from . import definitions, pins, session
from .registry import is_listed

if TYPE_CHECKING:
    from unipi_hookspecs import Context

    from .config import ServerConfig
    from .registry import Registry


def status(ctx: Context) -> str:
    """A line for each server, and what waits for approval."""
    registry = session.registry_of(ctx)
    if registry is None:
        return (
            "no MCP server runs in this session; `unipi mcp list` shows those that are configured"
        )
    lines = [_line(registry, server) for server in registry.plan.enabled]
    if registry.drifts:
        lines.append("`unipi mcp approve` shows what has changed; /unipi:mcp-reload takes it then")
    if registry.volatile:
        lines.append(
            f"their text holds a counter or a clock: {', '.join(sorted(registry.volatile))}"
        )
    return "\n".join(lines)


def _line(registry: Registry, server: ServerConfig) -> str:
    connection, known = registry.connections[server.name], registry.known.get(server.name)
    how = connection.state if not connection.error else f"{connection.state} ({connection.error})"
    if known is None:
        return f"{server.name}: {how}, not offered in this session"
    many = sum(server.allows(each.tool) for each in known.definitions)
    where = "listed" if is_listed(server, known) else "on demand"
    drift = registry.drifts.get(server.name)
    news = "; lists otherwise than approved" if drift is not None else ""
    if connection.changed:
        news += "; has announced other tools"
    return f"{server.name}: {how}, {many:,} tools {where}{news}"


async def reload(ctx: Context) -> str:
    """List all servers again and take what is approved; what changed is asked about first."""
    registry = session.registry_of(ctx)
    if registry is None:
        return "no MCP server runs in this session"
    waits = [
        name for server in registry.plan.enabled if (name := await _again(ctx, registry, server))
    ]
    before = {t.name: t for t in session.tools_of(registry.plan.enabled, registry.known)}
    fresh = {
        server.name: found
        for server in registry.plan.enabled
        if (found := definitions.read(registry.plan.folder, server)) is not None
    }
    after = {t.name: t for t in session.tools_of(registry.plan.enabled, fresh)}
    moved = sorted(
        name
        for name in before.keys() | after.keys()
        if (before.get(name) is None)
        or (after.get(name) is None)
        or (before[name].description, before[name].parameters)
        != (after[name].description, after[name].parameters)
    )
    told = f"; what {', '.join(waits)} changed waits for `unipi mcp approve`" if waits else ""
    if not moved:
        return f"nothing has changed{told}"
    registry.known = fresh
    registry.plan = evolve(registry.plan, known=dict(fresh))
    for name in moved:
        if name not in after:
            ctx.disable_tool(name, "its server no longer offers it")
    ctx.register_tools([after[name] for name in moved if name in after])
    ctx.request_boundary("tools", "MCP servers were reloaded")
    return f"{len(moved)} tools of MCP servers are others from the next request on{told}"


async def _again(ctx: Context, registry: Registry, server: ServerConfig) -> str | None:
    """List a server anew; returns its name when something of it waits for approval."""
    from .server import ServerError

    def tell(text: str) -> None:
        ctx.ui.notify(text, level="warning")

    connection = registry.connections[server.name]
    try:
        found = await connection.listed_again()
    except ServerError as error:
        tell(str(error))
        return None
    if server.name not in registry.known:
        definitions.write(registry.plan.folder, server, found)
        return None
    if registry.compare(server, found, tell) is None:
        return None
    approved = registry.known[server.name]
    if ctx.ui.interactive:
        for change in pins.changes(approved, found):
            what = f"{server.name} {change.tool} {change.field}"
            ctx.ui.notify(f"{what}:\n- {change.old}\n+ {change.new}")
        if await ctx.ui.confirm(f"approve what {server.name} lists now?"):
            definitions.accept(registry.plan.folder, server)
            registry.drifts.pop(server.name, None)
            return None
    return server.name
