"""JSON Schemas in one form, whatever order a server wrote them in.

Keys stand in UTF-16 code-unit order (RFC 8785 §3.2.3). Where JSON Schema 2020-12 or one of its
elders says that an array is a set (`required`, the lists of `dependentRequired` and `dependencies`,
`type`), it is sorted and holds nothing twice. Every other array keeps its order. Nothing is dropped
and no reference is inlined, so a schema judges the same instances before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi_hookspecs import JSON

MAX_DEPTH: Final = 128
"""Levels of nesting of a tool's schema; encoders and providers give up soon after."""

Kind = Literal["schema", "schemas", "map", "items", "set", "sets", "dependencies"]

KEYWORDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("required", "type"), "set"),
    "dependentRequired": "sets",
    "dependencies": "dependencies",
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), "map"
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), "schemas"),
    "items": "items",
    **dict.fromkeys(
        (
            "additionalItems",
            "additionalProperties",
            "contains",
            "contentSchema",
            "else",
            "if",
            "not",
            "propertyNames",
            "then",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        "schema",
    ),
}
"""What a keyword's value is made of. A keyword that is not here holds a literal, as `enum` does."""


class SchemaError(ValueError):
    """A schema that cannot be offered to a model; the text says why."""


def utf16(text: str) -> bytes:
    """The sort key of UTF-16 code-unit order: the order of RFC 8785 and of JavaScript's `<`."""
    return text.encode("utf-16-be", "surrogatepass")


def is_list(value: JSON) -> TypeGuard[Sequence[JSON]]:
    """Whether a JSON value is an array."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def canonical(schema: JSON) -> JSON:
    """A new tree with the same meaning and one order; the input is left as it is.

    Raises `SchemaError` for more than `MAX_DEPTH` levels of nesting.
    """
    return _schema(schema, 0)


def parameters(schema: JSON) -> Mapping[str, JSON]:
    """The canonical form of a tool's input schema, as an object that every provider takes.

    A tool's arguments are always one object, so where the root does not say so, or says it among
    other types, `type` becomes `object`; `properties` and `required` are there even when empty.
    Raises `SchemaError` where the root can take no object.
    """
    root: JSON = {} if schema is True else schema
    if not isinstance(root, Mapping):
        raise SchemaError("its input schema is no object")
    kind = root.get("type", "object")
    if kind != "object" and not (is_list(kind) and "object" in kind):
        raise SchemaError("its input schema takes no object")
    whole: JSON = {"properties": {}, "required": [], **root, "type": "object"}
    made = canonical(whole)
    assert isinstance(made, Mapping)
    return made


def _schema(value: JSON, depth: int) -> JSON:
    if not isinstance(value, Mapping):
        return _literal(value, depth)
    _check(depth)
    return {
        key: _FORMS[KEYWORDS[key]](value[key], depth + 1)
        if key in KEYWORDS
        else _literal(value[key], depth + 1)
        for key in sorted(value, key=utf16)
    }


def _literal(value: JSON, depth: int) -> JSON:
    _check(depth)
    if isinstance(value, Mapping):
        return {key: _literal(value[key], depth + 1) for key in sorted(value, key=utf16)}
    if is_list(value):
        return [_literal(item, depth + 1) for item in value]
    return value


def _schemas(value: JSON, depth: int) -> JSON:
    if not is_list(value):
        return _literal(value, depth)
    return [_schema(item, depth + 1) for item in value]


def _items(value: JSON, depth: int) -> JSON:
    return _schemas(value, depth) if is_list(value) else _schema(value, depth)


def _map(value: JSON, depth: int) -> JSON:
    return _each(value, depth, _schema)


def _set(value: JSON, depth: int) -> JSON:
    if is_list(value):
        words = [item for item in value if isinstance(item, str)]
        if len(words) == len(value):
            return sorted(set(words), key=utf16)
    return _literal(value, depth)


def _sets(value: JSON, depth: int) -> JSON:
    return _each(value, depth, _set)


def _dependencies(value: JSON, depth: int) -> JSON:
    return _each(value, depth, lambda v, d: _set(v, d) if is_list(v) else _schema(v, d))


def _each(value: JSON, depth: int, form: Callable[[JSON, int], JSON]) -> JSON:
    if not isinstance(value, Mapping):
        return _literal(value, depth)
    _check(depth)
    return {key: form(value[key], depth + 1) for key in sorted(value, key=utf16)}


def _check(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SchemaError(f"its schema is nested more than {MAX_DEPTH} levels deep")


_FORMS: Final[Mapping[Kind, Callable[[JSON, int], JSON]]] = {
    "schema": _schema,
    "schemas": _schemas,
    "map": _map,
    "items": _items,
    "set": _set,
    "sets": _sets,
    "dependencies": _dependencies,
}
