"""What changed between two listings of a server, and what in a text does not meet the eye.

A server may tell one thing when it is approved and another later. So what it listed first is
pinned, a change waits for approval, and characters that people do not see are named.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from .schema import is_list, utf16

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unipi_hookspecs import JSON

    from .definitions import Catalogue, Definition

_DIGITS: Final = re.compile(r"\d+")
_INVISIBLE: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\u034f")
"""Letters and marks that draw nothing, beside the categories of `_hidden`."""


@frozen
class Drift:
    """How a listing differs from the approved one; each field names tools, in UTF-16 order.

    `hidden` are the added or changed tools whose text holds hidden characters. `instructions` says
    that the server's instructions changed.
    """

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    instructions: bool = False


@frozen
class Change:
    """One field of one tool that changed, hidden characters shown; `tool` is "" for the server's
    instructions, and "" stands for what is not there."""

    tool: str
    field: str
    old: str
    new: str


def compare(old: Catalogue, new: Catalogue) -> Drift | None:
    """How `new` differs from what was approved, or None when it says the same."""
    before, after = _by_tool(old), _by_tool(new)
    added = _ordered(after.keys() - before.keys())
    removed = _ordered(before.keys() - after.keys())
    changed = _ordered(
        tool for tool in before.keys() & after.keys() if _said(before[tool]) != _said(after[tool])
    )
    instructions = old.instructions != new.instructions
    if not (added or removed or changed or instructions):
        return None
    fresh = {*added, *changed}
    hidden = _ordered(tool for tool in fresh if any(map(hidden_characters, texts(after[tool]))))
    server = next((each.server for each in (*new.definitions, *old.definitions)), "")
    return Drift(server, added, removed, changed, hidden, instructions)


def changes(old: Catalogue, new: Catalogue) -> tuple[Change, ...]:
    """Every field that differs, with both texts, for the one who is to approve them."""
    before, after = _by_tool(old), _by_tool(new)
    found: list[Change] = []
    if old.instructions != new.instructions:
        found.append(
            Change("", "instructions", visible(old.instructions), visible(new.instructions))
        )
    for tool in _ordered(before.keys() | after.keys()):
        was = _said(before[tool]) if tool in before else {}
        now = _said(after[tool]) if tool in after else {}
        found += [
            Change(visible(tool), name, visible(was.get(name, "")), visible(now.get(name, "")))
            for name in ("title", "description", "schema", "read_only")
            if was.get(name, "") != now.get(name, "")
        ]
    return tuple(found)


def hidden_tools(catalogue: Catalogue) -> tuple[str, ...]:
    """The tools of a listing whose text holds hidden characters, in UTF-16 order."""
    return _ordered(
        each.tool
        for each in catalogue.definitions
        if any(hidden_characters(text) for text in texts(each))
    )


def texts(definition: Definition) -> Iterator[str]:
    """Every text of a tool that a model reads: names, descriptions, all strings of the schema."""
    yield definition.tool
    yield definition.title
    yield definition.description
    yield from _strings(definition.schema)


def hidden_characters(text: str) -> tuple[str, ...]:
    """Characters that draw nothing or turn text around, such as `U+202E RIGHT-TO-LEFT OVERRIDE`.

    Each is named once, in order of appearance. Line breaks and tabs are none; nor are the joiners
    and selectors by which an emoji or a letter of a joining script is written.
    """
    if text.isascii() and text.isprintable():
        return ()
    found = {_name(char): None for at, char in enumerate(text) if _hidden(text, at)}
    return tuple(found)


def visible(text: str) -> str:
    """The text with each hidden character written as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"<U+{ord(char):04X}>" if _hidden(text, at) else char for at, char in enumerate(text)
    )


def digits_alone(old: str, new: str) -> bool:
    """Whether two different texts are the same but for their digits: a counter, a date, a port."""
    return old != new and _DIGITS.sub("0", old) == _DIGITS.sub("0", new)


def _hidden(text: str, at: int) -> bool:
    char = text[at]
    if char in "\n\t\r" or (char.isalnum() and char not in _INVISIBLE):
        return False
    if char in "\u200c\u200d":
        return not _joins(text, at)
    if char in _INVISIBLE or 0xFE00 <= ord(char) <= 0xFE0D or 0xE0100 <= ord(char) <= 0xE01EF:
        return True
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _joins(text: str, at: int) -> bool:
    """Whether a joiner stands between two signs or two letters that a joiner can change."""
    if not 0 < at < len(text) - 1:
        return False
    pictures, letters = {"So", "Sk", "Mn"}, {"Lo", "Mn", "Mc"}
    sides = {unicodedata.category(text[at - 1]), unicodedata.category(text[at + 1])}
    return sides <= pictures or sides <= letters


def _name(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip()


def _said(definition: Definition) -> dict[str, str]:
    return {
        "title": definition.title,
        "description": definition.description,
        "schema": _shown(definition.schema),
        "read_only": "true" if definition.read_only else "false",
    }


def _shown(schema: JSON) -> str:
    """The schema as text, by which 1, 1.0 and true are three things, as they are to a model."""
    return json.dumps(schema, sort_keys=True, indent=2, ensure_ascii=False)


def _strings(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif is_list(value):
        for each in value:
            yield from _strings(each)


def _by_tool(catalogue: Catalogue) -> dict[str, Definition]:
    return {each.tool: each for each in catalogue.definitions}


def _ordered(names: Iterator[str] | set[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=utf16))
