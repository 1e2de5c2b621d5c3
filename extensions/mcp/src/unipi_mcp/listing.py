"""What a server lists, all its pages, in the one form that is kept and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .definitions import Catalogue, Definition
from .schema import SchemaError, canonical, utf16

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

    from .config import ServerConfig

_PAGES: Final = 1_000
_INSTRUCTIONS: Final = 2_000
"""Characters of a server's instructions that are kept: they stand in the head of every request."""


async def catalogue_of(config: ServerConfig, client: Client) -> Catalogue:
    """Every tool that can be called plainly, sorted by name; of two of one name the first.

    Left out are tools that demand tasks, which no plain call serves, and those whose schema is
    nested too deep to be kept.
    """
    found: dict[str, Definition] = {}
    cursor: str | None = None
    if client.server_capabilities is None or client.server_capabilities.tools is not None:
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                made = _definition(config.name, tool)
                if made is not None:
                    found.setdefault(tool.name, made)
            if not page.next_cursor or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
    ordered = sorted(found.values(), key=lambda each: utf16(each.tool))
    return Catalogue(tuple(ordered), (client.instructions or "").strip()[:_INSTRUCTIONS])


def _definition(server: str, tool: Tool) -> Definition | None:
    execution = getattr(tool, "execution", None)
    if getattr(execution, "task_support", None) == "required":
        return None
    try:
        schema = canonical(dict(tool.input_schema))
    except SchemaError:
        return None
    hints = tool.annotations
    return Definition(
        server,
        tool.name,
        tool.description or "",
        schema,
        read_only=hints is not None and hints.read_only_hint is True,
        title=tool.title or "",
    )
