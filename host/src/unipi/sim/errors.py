"""Refusals, and the shapes in which each wire API states them (reference: both APIs' error pages)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
OPENAI_TYPES: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", None),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
}


@attrs.define(auto_exc=True)
class ApiError(Exception):
    """A request that is not answered, as both APIs can state it.

    Attributes:
        status: HTTP status.
        message: the text a client reads.
        type: the API's error type; None takes the one documented for the status.
        param: the request member at fault (chat completions only).
        code: machine-readable code (chat completions only).
        headers: further response headers.
        in_stream: the frames before it, where it is told by an event after a 200.
    """

    status: int
    message: str
    type: str | None = None
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    in_stream: bytes = b""

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


def anthropic_error(error: ApiError, request_id: str) -> bytes:
    """The JSON body of an Anthropic error response."""
    kind = error.type or ANTHROPIC_TYPES.get(error.status, "api_error")
    inner = {"type": kind, "message": error.message}
    return orjson.dumps({"type": "error", "error": inner, "request_id": request_id})


def openai_error(error: ApiError) -> bytes:
    """The JSON body of an OpenAI error response."""
    kind, code = OPENAI_TYPES.get(error.status, ("server_error", None))
    inner = {
        "message": error.message,
        "type": error.type or kind,
        "param": error.param,
        "code": error.code or code,
    }
    return orjson.dumps({"error": inner})


def status_of_type(kind: str) -> int:
    """The status documented for an error type; 500 for one that is not listed."""
    for status, known in ANTHROPIC_TYPES.items():
        if known == kind:
            return status
    return 500
