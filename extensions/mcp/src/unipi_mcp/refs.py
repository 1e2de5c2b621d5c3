"""References inside a schema: which would dangle, leave the machine or never end.

A schema keeps its references as its server wrote them; the model and the validator follow them. So
one that points nowhere or into the network, or that comes back to itself without descending into
the instance, makes its tool unusable. The tool is left out then, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urldefrag, urljoin

from attrs import field, frozen

from .schema import KEYWORDS, MAX_DEPTH, is_list

if TYPE_CHECKING:
    from unipi_hookspecs import JSON

MAX_NODES: Final = 20_000
"""Schemas inside one tool's schema that are looked at; a larger one is left out."""
_ROOT: Final = "unipi-mcp:root"
_METASCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose schemas judge the very same instance again."""


@frozen
class _Scan:
    """`places` are schemas by absolute address, `edges` what judges the same instance as what."""

    places: dict[str, Mapping[str, JSON]] = field(factory=dict)
    references: list[tuple[int, str]] = field(factory=list)
    edges: dict[int, list[int]] = field(factory=dict)


def problem(schema: JSON) -> str | None:
    """Why a tool with this schema cannot be offered, or None. Reads nothing from the network."""
    if not isinstance(schema, Mapping):
        return None
    scan = _Scan()
    seen = 0
    stack: list[tuple[Mapping[str, JSON], str, int]] = [(schema, _ROOT, 0)]
    scan.places[_ROOT] = schema
    while stack:
        node, base, depth = stack.pop()
        seen += 1
        if depth > MAX_DEPTH:
            return f"its schema is nested more than {MAX_DEPTH} levels deep"
        if seen > MAX_NODES:
            return f"its schema holds more than {MAX_NODES:,} schemas"
        base = _enter(scan, node, base)
        for keyword, child in _children(node):
            stack.append((child, base, depth + 1))
            if keyword in _IN_PLACE:
                scan.edges.setdefault(id(node), []).append(id(child))
    return _dangling(scan) or _endless(scan)


def _enter(scan: _Scan, node: Mapping[str, JSON], base: str) -> str:
    """Note a schema's own address, its anchors and its references; returns its base address."""
    name = node.get("$id")
    if isinstance(name, str) and not name.startswith("#"):
        base = urldefrag(urljoin(base, name)).url
        scan.places[base] = node
    for key in ("$anchor", "$dynamicAnchor"):
        anchor = node.get(key)
        if isinstance(anchor, str):
            scan.places[f"{base}#{anchor}"] = node
    if isinstance(name, str) and name.startswith("#"):
        scan.places[base + name] = node
    for key in ("$ref", "$dynamicRef"):
        reference = node.get(key)
        if isinstance(reference, str):
            target = base + reference if reference.startswith("#") else urljoin(base, reference)
            scan.references.append((id(node), target))
    return base


def _children(node: Mapping[str, JSON]) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    for keyword, value in node.items():
        kind = KEYWORDS.get(keyword)
        if kind in {"schema", "items"} and isinstance(value, Mapping):
            yield keyword, value
        elif kind in {"map", "dependencies"} and isinstance(value, Mapping):
            yield from ((keyword, each) for each in value.values() if isinstance(each, Mapping))
        elif kind in {"schemas", "items"} and is_list(value):
            yield from ((keyword, each) for each in value if isinstance(each, Mapping))


def _dangling(scan: _Scan) -> str | None:
    for source, target in scan.references:
        address, fragment = urldefrag(target)
        if target.startswith(_METASCHEMAS):
            continue  # every validator carries them
        if address not in scan.places:
            return "its schema refers to another document, which is not fetched"
        found = scan.places.get(f"{address}#{fragment}") if fragment else scan.places[address]
        if found is None:
            place = _walk(scan.places[address], fragment)
            if isinstance(place, bool):
                continue
            if not isinstance(place, Mapping):
                return "its schema refers to a definition that it does not hold"
            found = place
        scan.edges.setdefault(source, []).append(id(found))
    return None


def _walk(place: JSON, fragment: str) -> JSON:
    """What a JSON pointer (RFC 6901) leads to, or None."""
    if not fragment.startswith("/"):
        return None
    for part in unquote(fragment).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(key)
        elif is_list(place) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return None
    return place


def _endless(scan: _Scan) -> str | None:
    """Whether judging one instance would come back to the same schema for ever."""
    done: set[int] = set()
    for start in scan.edges:
        path: set[int] = set()
        stack: list[tuple[int, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.discard(node)
                done.add(node)
            elif node in path:
                return "its schema refers back to itself without an end"
            elif node not in done:
                path.add(node)
                stack.append((node, True))
                stack.extend((each, False) for each in scan.edges.get(node, ()))
    return None
