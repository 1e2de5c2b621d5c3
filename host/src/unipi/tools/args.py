"""Arguments of a call, typed. The host has validated them; this keeps direct callers honest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .text import ToolError

if TYPE_CHECKING:
    from unipi_hookspecs import JSON, Call


def schema(required: tuple[str, ...], **properties: JSON) -> dict[str, JSON]:
    """A JSON Schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text_arg(call: Call, name: str, default: str | None = None) -> str:
    """A string argument; raises ToolError when it is missing or something else."""
    value = call.input.get(name, default)
    if not isinstance(value, str):
        raise ToolError(f"{name} must be a string")
    return value


def int_arg(call: Call, name: str, default: int) -> int:
    """A whole number, 1.0 included; raises ToolError for anything else."""
    value = call.input.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ToolError(f"{name} must be a whole number")
    return int(value)


def flag_arg(call: Call, name: str) -> bool:
    """A boolean, false unless given; raises ToolError for anything else."""
    value = call.input.get(name, False)
    if not isinstance(value, bool):
        raise ToolError(f"{name} must be true or false")
    return value
