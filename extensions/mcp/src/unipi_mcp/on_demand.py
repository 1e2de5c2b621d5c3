"""Many tools behind two: one that finds them, and one that calls them.

The two are the same whatever the servers offer. A definition that is found stands in the conversation like
any result, so the tool list never moves for it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from unipi_hookspecs import Tool

from .schema import utf16

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from unipi_hookspecs import JSON, Call, Context, ToolOutput

    from .registry import Offered

SEARCH: Final = "mcp_search_tools"
CALL: Final = "mcp_call_tool"
_MOST: Final = 20
_DEFAULT: Final = 5
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_SEARCH_SCHEMA: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Words of what is to be done, or a part of a tool's name. Empty lists names.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": _MOST},
    },
    "required": ["query"],
}
_CALL_SCHEMA: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": f"The name that {SEARCH} gave."},
        "arguments": {"type": "object", "description": "As the tool's own schema asks."},
    },
    "required": ["name", "arguments"],
}


def tools(
    find: Callable[[Call, Context], Awaitable[str]],
    call: Callable[[Call, Context], Awaitable[ToolOutput]],
) -> list[Tool]:
    """The two, always the same."""
    return [
        Tool(
            SEARCH,
            "Find tools of the connected MCP servers that are not listed here. The answer has their "
            f"names, descriptions and schemas; call one with {CALL}.",
            parameters=_SEARCH_SCHEMA,
            run=find,
        ),
        Tool(
            CALL,
            f"Call a tool that {SEARCH} has found, by its name and with arguments of its own schema.",
            parameters=_CALL_SCHEMA,
            run=call,
        ),
    ]


def search(offered: Sequence[Offered], query: str, limit: object = None) -> str:
    """The tools that fit best, with all that a call needs; the same question has the same answer."""
    words = {word.lower() for word in _WORD.findall(query)}
    if not words:
        names = "\n".join(tool.name for tool in offered)
        return f"{len(offered):,} tools; say in `query` what is to be done.\n{names}"
    most = limit if isinstance(limit, int) and not isinstance(limit, bool) else _DEFAULT
    scored = [(_score(tool, words, query), tool) for tool in offered]
    fitting = sorted(
        (pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], utf16(pair[1].name))
    )
    if not fitting:
        return f"No tool fits {query[:200]!r}. Try other words; an empty query lists all names."
    shown = [_shown(tool) for _, tool in fitting[: max(1, min(most, _MOST))]]
    more = len(fitting) - len(shown)
    end = f"\n{more:,} others fit less; ask with other words or a higher limit." if more else ""
    return "\n".join(shown) + end


def _score(tool: Offered, words: set[str], query: str) -> float:
    name, about = tool.name.lower(), tool.definition.description.lower()
    if query.strip() in (tool.name, tool.definition.tool):
        return 1_000.0
    score = 0.0
    for word in words:
        score += 3.0 * (word in name) + 1.0 * (word in about)
    return score / len(words)


def _shown(tool: Offered) -> str:
    return json.dumps(
        {
            "name": tool.name,
            "description": tool.definition.description,
            "schema": tool.schema,
        },
        ensure_ascii=False,
    )
