"""The tools of the loop benchmark: one that is called, and fillers with large schemas.

Loaded by `unipi run -e` as a plugin, and imported by the floor loop; so it needs only what a plugin
author has, and the floor imports none of that. `BENCH_TOOLS` is the number of tools, 1 to 20.
"""

from __future__ import annotations

import os

PROMPT = "Look up every row, then say done."
SYSTEM = "You are a careful assistant. Use the lookup tool until the job is finished. " * 12
_Schema = dict[str, object]
_KINDS: tuple[_Schema, ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "string", "enum": ["one", "two", "three", "four"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "number"},
)
_PARAMETERS = 24


def schemas() -> list[tuple[str, str, _Schema]]:
    """Name, description and JSON Schema of each tool; 20 of them make about 86 KB."""
    key: _Schema = {"type": "string", "description": "The key of the row to look up."}
    tools = [("lookup", "Look up one row of the table by its key.", _object({"key": key}))]
    for number in range(1, int(os.environ.get("BENCH_TOOLS", "1"))):
        properties: dict[str, _Schema] = {
            f"param_{p:02d}": {**_KINDS[p % len(_KINDS)], "description": _description(number, p)}
            for p in range(_PARAMETERS)
        }
        about = f"Run the filler service number {number} on the given parameters."
        tools.append((f"filler_{number:02d}", about, _object(properties)))
    return tools


def _description(number: int, parameter: int) -> str:
    return (
        f"Says how stage {number:02d} of the service treats parameter {parameter:02d} of a request; "
        "the manual lists the values that it allows."
    )


def _object(properties: dict[str, _Schema]) -> _Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def lookup(key: str) -> str:
    """1,024 characters that differ by key."""
    row = f"row {key}: alpha beta gamma delta epsilon zeta eta theta; "
    return (row * (1024 // len(row) + 1))[:1024]
