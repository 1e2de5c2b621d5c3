"""Between the `verb` of a custom message's line and `Verb`; Pi reads the line without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unipi_hookspecs import ToolText, Verb

if TYPE_CHECKING:
    from unipi_hookspecs import JSON


def verb_out(verb: Verb) -> dict[str, JSON]:
    """What a line says of a verb; what is empty is left out."""
    fields: dict[str, JSON] = {
        "system": verb.system,
        "effort": verb.effort,
        "define": [
            {"name": tool.name, "description": tool.description, "schema": tool.schema}
            for tool in verb.define
        ],
        "offer": list(verb.offer),
        "withdraw": list(verb.withdraw),
    }
    return {name: value for name, value in fields.items() if value}


def verb_in(value: JSON) -> Verb | None:
    """The same again, or None; what is broken reads as left out."""
    if not isinstance(value, Mapping):
        return None
    effort, define = value.get("effort"), value.get("define")
    verb = Verb(
        system=value.get("system") is True,
        effort=effort if isinstance(effort, str) else "",
        define=tuple(filter(None, map(_tool_in, define))) if isinstance(define, list) else (),
        offer=_names(value.get("offer")),
        withdraw=_names(value.get("withdraw")),
    )
    return None if verb == Verb() else verb


def _tool_in(value: JSON) -> ToolText | None:
    if not isinstance(value, Mapping):
        return None
    parts = [value.get(key) for key in ("name", "description", "schema")]
    texts = [part for part in parts if isinstance(part, str)]
    return ToolText(*texts) if len(texts) == len(parts) else None


def _names(value: JSON) -> tuple[str, ...]:
    return tuple(n for n in value if isinstance(n, str)) if isinstance(value, list) else ()
