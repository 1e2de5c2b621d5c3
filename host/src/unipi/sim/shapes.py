"""Reading parsed JSON whose shape is not yet known."""

from __future__ import annotations

import orjson

from unipi.sim.errors import ApiError


def load_object(body: bytes) -> dict[str, object]:
    """Parse a request body.

    Raises:
        ApiError: 400; not UTF-8, not JSON (lone surrogates and NaN are not), or not an object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise ApiError(400, f"The request body is not valid JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise ApiError(400, "The request body is not valid JSON: expected an object")
    return value


def as_dict(value: object) -> dict[str, object]:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """``value`` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: object) -> str:
    """``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def dumps(value: object) -> bytes:
    """Compact JSON in the order the value has."""
    return orjson.dumps(value)
