"""Brings the tools of MCP servers into a session, with the same bytes every time.

What a server is known to offer is kept on disk and offered before the server is started. What changes
waits until it is approved, and for the next session, or for `/unipi:mcp-reload`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from unipi_hookspecs import Command, Manifest, Setting, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from unipi_hookspecs import (
        Check,
        Context,
        LoadContext,
        Resources,
        ResourcesDiscoverEvent,
        SessionShutdownEvent,
        SessionStartEvent,
        Tool,
    )

__version__ = "0.1.0"

manifest = Manifest(
    name="mcp",
    api=1,
    host=">=0.1,<0.2",
    description="Tools of MCP servers (/unipi:mcp-status, /unipi:mcp-reload, `unipi mcp`).",
)


@hookimpl
def register_tools(ctx: LoadContext) -> Sequence[Tool]:
    if not _configured(ctx):
        return ()  # nothing of ours is loaded where there is no server
    from . import session

    return session.known_tools(ctx)


@hookimpl
def register_settings() -> Sequence[Setting]:
    return [
        Setting("servers", "MCP servers by name, as in mcp.json.", {"type": "object"}, {}),
    ]


@hookimpl
def register_checks(ctx: LoadContext) -> Sequence[Check]:
    if not _configured(ctx):
        return ()
    from .check import checks

    return checks(ctx)


@hookimpl
def register_commands() -> Sequence[Command]:
    return [
        Command("unipi:mcp-status", "MCP servers: connected, late, down or changed.", _status),
        Command(
            "unipi:mcp-reload",
            "Take changed definitions of MCP servers now: a boundary of yours.",
            _reload,
        ),
    ]


async def _status(_: str, ctx: Context) -> str:
    from .session_commands import status

    return status(ctx)


async def _reload(_: str, ctx: Context) -> str:
    from .session_commands import reload

    return await reload(ctx)


@hookimpl
def resources_discover(event: ResourcesDiscoverEvent, ctx: Context) -> Resources | None:
    session = _session()
    found: Resources | None = session.instructions(ctx) if session is not None else None
    return found


@hookimpl
async def session_start(event: SessionStartEvent, ctx: Context) -> None:
    session = _session()
    if session is not None:
        await session.begin(ctx)


@hookimpl
async def session_shutdown(event: SessionShutdownEvent, ctx: Context) -> None:
    session = _session()
    if session is not None:
        await session.end(ctx)


def _configured(ctx: LoadContext) -> bool:
    """Whether there is any place that names servers."""
    files = (ctx.user_dir / "mcp.json", ctx.cwd / ".mcp.json")
    return bool(ctx.settings.get("servers")) or any(file.is_file() for file in files)


def _session() -> ModuleType | None:
    """The module `session`, if any server is configured."""
    return sys.modules.get(f"{__name__}.session")
