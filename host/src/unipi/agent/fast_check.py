"""A quick yes for arguments that are plainly valid; every other case is jsonschema's to judge.

Importing jsonschema costs as much as the rest of a start, and most calls fit a flat schema of typed
properties. `plainly_valid` knows a handful of keywords (JSON Schema 2020-12, Validation) and says
yes only when it understood all of the schema. A property test holds it to jsonschema's verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unipi_hookspecs import JSON

# Keywords that say nothing about validity.
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_KNOWN = _NOTES | {"type", "properties", "required", "additionalProperties", "items", "enum"}


def plainly_valid(schema: JSON, value: JSON) -> bool:
    """Whether `value` fits `schema` beyond doubt; False means "ask jsonschema"."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _KNOWN:
        return False
    kind = schema.get("type")
    if not isinstance(kind, str) or not _is(kind, value):
        return False
    choices = schema.get("enum")
    if choices is not None and not _chosen(choices, value):
        return False
    if kind == "object" and isinstance(value, Mapping):
        return _object(schema, value)
    if kind == "array" and isinstance(value, list):
        items = schema.get("items")
        return items is None or all(plainly_valid(items, item) for item in value)
    return True


def _is(kind: str, value: JSON) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return False


def _chosen(choices: JSON, value: JSON) -> bool:
    # Only strings: 1, 1.0 and True are equal to Python and not to JSON Schema.
    return isinstance(value, str) and isinstance(choices, Sequence) and value in choices


def _object(schema: Mapping[str, JSON], value: Mapping[str, JSON]) -> bool:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    closed = schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        return False
    if closed not in (True, False) or not all(name in value for name in required):
        return False
    for name, item in value.items():
        known = properties.get(name)
        if known is None:
            if closed is False:
                return False
        elif not plainly_valid(known, item):
            return False
    return True
