"""The MCP servers of the sessions of this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from unipi_hookspecs import Resources

from . import definitions, on_demand
from .config import load
from .registry import Plan, Registry, as_tool, is_listed, make_plan, offered, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unipi_hookspecs import Call, Context, LoadContext, Tool, ToolOutput

    from .config import ServerConfig
    from .definitions import Catalogue
    from .registry import Offered

INSTRUCTIONS: Final = "unipi-mcp-instructions"

_plans: dict[Path, Plan] = {}
_registries: dict[str, Registry] = {}


def known_tools(ctx: LoadContext) -> Sequence[Tool]:
    """The tools of every server that was seen before; none is started for it."""
    loaded = load(
        ctx.cwd,
        ctx.user_dir,
        trusted=ctx.project_trusted,
        settings=ctx.settings,
        environ=os.environ,
    )
    plan = make_plan(loaded, definitions.folder(ctx.state_dir))
    _plans[ctx.cwd] = plan
    return tools_of(plan.enabled, plan.known)


def tools_of(servers: Sequence[ServerConfig], known: Mapping[str, Catalogue]) -> list[Tool]:
    """What these servers add to the tool list: their tools, or the two that find and call them."""
    listed, behind = _parted(servers, known)
    tools = [as_tool(tool, _run) for tool in offered(listed, known)[0]]
    return [*tools, *(on_demand.tools(_find, _call) if behind else ())]


def instructions(ctx: Context) -> Resources | None:
    """What approved servers say of themselves, for the head of a new session."""
    plan = _plan(ctx)
    if plan is None:
        return None
    texts = [
        _instructions(server.name, plan.known[server.name])
        for server in plan.enabled
        if server.name in plan.known and plan.known[server.name].instructions
    ]
    return Resources(texts) if texts else None


async def begin(ctx: Context) -> None:
    """Start all servers; wait for those that were never seen, and offer what they list."""
    plan = _plan(ctx)
    if plan is None:
        return
    for note in plan.notes:
        ctx.ui.notify(note, level="warning")
    if not plan.enabled:
        return
    registry = Registry(plan, ctx.session.cwd, dict(plan.known))
    _registries[ctx.session.id] = registry
    registry.start(ctx)
    new = await registry.first_listings()
    await _offer(ctx, registry, new)
    for name, why in registry.late.items():
        ctx.ui.notify(f"{why}; it belongs to a later session ({name})", level="warning")
    for server in plan.enabled:
        if server.name in plan.known:
            _watch(ctx, registry, server)


async def end(ctx: Context) -> None:
    """End the session's servers and all that they began."""
    registry = _registries.pop(ctx.session.id, None)
    if registry is not None:
        await registry.close()


def registry_of(ctx: Context) -> Registry | None:
    """The servers of a context's session."""
    return _registries.get(ctx.session.id)


def on_demand_of(registry: Registry) -> list[Offered]:
    """The tools that stand behind the two."""
    _, behind = _parted(registry.plan.enabled, registry.known)
    return offered(behind, registry.known)[0]


async def _offer(ctx: Context, registry: Registry, new: Sequence[str]) -> None:
    """Offer what the session's first sight of some servers has brought, all together."""
    if not new:
        return
    plan = registry.plan
    before = {tool.name for tool in tools_of(plan.enabled, plan.known)}
    every = tools_of(plan.enabled, registry.known)
    ctx.register_tools([tool for tool in every if tool.name not in before])
    for note in offered(plan.enabled, registry.known)[1]:
        ctx.ui.notify(note, level="warning")
    for server in plan.enabled:
        if server.name not in new:
            continue
        found = registry.known[server.name]
        if server.mode == "auto" and not is_listed(server, found):
            size = size_of(server, found)
            ctx.ui.notify(
                f"the {len(found.definitions):,} tools of {server.name!r} ({size:,} characters) are "
                'found on demand; `"mode": "listed"` lists them'
            )
        if found.instructions:
            text = _instructions(server.name, found)
            await ctx.append_message(INSTRUCTIONS, text, display=False, deliver="next_turn")


def _watch(ctx: Context, registry: Registry, server: ServerConfig) -> None:
    async def watch() -> None:
        await registry.watch(server, lambda text: ctx.ui.notify(text, level="warning"))

    ctx.start_task(watch, name=f"compare {server.name}")


def _parted(
    servers: Sequence[ServerConfig], known: Mapping[str, Catalogue]
) -> tuple[list[ServerConfig], list[ServerConfig]]:
    seen = [server for server in servers if server.name in known]
    listed = [server for server in seen if is_listed(server, known[server.name])]
    return listed, [server for server in seen if server not in listed]


def _plan(ctx: Context) -> Plan | None:
    """The plan of the host in this folder; of a session from elsewhere, the newest one."""
    return _plans.get(ctx.cwd) or next(reversed(_plans.values()), None)


def _instructions(server: str, catalogue: Catalogue) -> str:
    return f"The MCP server {server!r} says of its tools:\n{catalogue.instructions}"


async def _run(tool: Offered, call: Call, ctx: Context) -> ToolOutput:
    return await _registry(ctx).call(tool, call, ctx)


async def _find(call: Call, ctx: Context) -> str:
    text = on_demand.search(
        on_demand_of(_registry(ctx)), str(call.input.get("query", "")), call.input.get("limit")
    )
    return ctx.bound_output(text, label="mcp tools").text


async def _call(call: Call, ctx: Context) -> ToolOutput:
    registry, name = _registry(ctx), str(call.input.get("name", ""))
    tool = next((each for each in on_demand_of(registry) if each.name == name), None)
    if tool is None:
        raise ValueError(
            f"there is no tool {name!r} behind this one; {on_demand.SEARCH} finds them"
        )
    arguments = call.input.get("arguments")
    return await registry.call(tool, _Inner(call, arguments), ctx)


def _registry(ctx: Context) -> Registry:
    found = registry_of(ctx)
    if found is None:
        raise RuntimeError("no MCP server runs in this session")
    return found


class _Inner:
    """The call behind `mcp_call_tool`: the same one, with its own arguments."""

    def __init__(self, call: Call, arguments: object) -> None:
        from collections.abc import Mapping as Object

        self.id, self.name, self.update = call.id, call.name, call.update
        self.input = dict(arguments) if isinstance(arguments, Object) else {}
