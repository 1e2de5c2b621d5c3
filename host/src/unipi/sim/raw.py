"""A bare HTTP client for tests against the simulator: bytes in, bytes out, nothing repaired."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import attrs
import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
DEFAULT_HEADERS: Mapping[str, str] = {
    "content-type": "application/json",
    "authorization": "Bearer test",
    "anthropic-version": "2023-06-01",
}


class Event(NamedTuple):
    """One server-sent event: its name ("" when unnamed) and its data."""

    name: str
    data: bytes

    def json(self) -> dict[str, object]:
        """The data as an object."""
        value = orjson.loads(self.data)
        assert isinstance(value, dict)
        return value


@attrs.frozen
class Response:
    """A whole response.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: raw bytes, up to where the connection broke.
        complete: the body ended as HTTP says it must.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True

    def json(self) -> dict[str, object]:
        """The body as an object."""
        value = orjson.loads(self.body)
        assert isinstance(value, dict)
        return value

    def events(self) -> list[Event]:
        """The complete server-sent events of the body."""
        events = []
        for block in self.body.split(b"\n\n")[:-1]:
            lines = [line.partition(b": ") for line in block.split(b"\n")]
            fields = {name: value for name, _, value in lines}
            events.append(Event(fields.get(b"event", b"").decode(), fields.get(b"data", b"")))
        return events


def send(
    base_url: str,
    path: str,
    body: Mapping[str, object] | bytes | None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    timeout: float = 5.0,
) -> Response:
    """Send one request on a connection of its own.

    Args:
        base_url: as given by ``Simulator.serve``.
        path: for instance `MESSAGES`.
        body: an object, or raw bytes sent as they are.
        method: the HTTP method.
        headers: put over `DEFAULT_HEADERS`; an empty value leaves a default out.
        timeout: seconds of silence after which `TimeoutError` is raised.
    """
    data = body if isinstance(body, bytes | None) else orjson.dumps(dict(body))
    merged = {**DEFAULT_HEADERS, **(headers or {})}
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    try:
        sent = {name: value for name, value in merged.items() if value}
        connection.request(method, path, body=data, headers=sent)
        response = connection.getresponse()
        complete = True
        try:
            received = response.read()
        except http.client.IncompleteRead as exc:
            received, complete = exc.partial, False
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Response(response.status, lowered, received, complete)
    finally:
        connection.close()
