"""What a wire API is to the rest of the host: byte shape, address, decoder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Protocol

from attrs import frozen

from unipi.prefix.wire import WireApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import AssistantMessage, Model, RequestInfo

    from .secrets import Secret

_VERSION = re.compile(r"/v\d[\w.]*(/|$)")


@frozen
class StreamDelta:
    """A piece of an answer as it arrives; `index` is the block's place in the answer's content.

    The pieces of a block, joined, are the block's text in the final message.
    """

    kind: Literal["text", "thinking", "toolcall"]
    index: int
    delta: str


class Decoder(Protocol):
    """Builds one answer out of the events of its stream, or out of a whole JSON body."""

    def event(self, name: str, data: bytes, sink: list[StreamDelta] | None) -> None:
        """Take one event; put what it adds to the answer in `sink`.

        Raises ProviderError when the event reports an error or is no JSON.
        """

    def whole(self, body: bytes) -> None:
        """Take the answer of a server that did not stream. Raises ProviderError."""

    @property
    def complete(self) -> bool:
        """Whether the answer's end has been seen."""

    def message(self) -> AssistantMessage:
        """The answer as far as it has come."""


class ProviderApi(WireApi, Protocol):
    """A wire API with what it takes to speak it."""

    def url(self, model: Model) -> str:
        """The address that requests for a model are posted to."""

    def auth_headers(self, secret: Secret | None) -> Mapping[str, str]:
        """The headers that this API itself asks for, the key included."""

    def decoder(self, model: Model, info: RequestInfo, started_ms: int) -> Decoder:
        """A decoder for one answer; `started_ms` (Unix milliseconds) becomes its timestamp."""


def endpoint(base_url: str, path: str) -> str:
    """Join a base URL and an API path, with `/v1` between them where the base has no version."""
    base = base_url.rstrip("/")
    return f"{base}{path}" if _VERSION.search(base) else f"{base}/v1{path}"


def has_trait(model: Model, trait: str) -> bool:
    """Whether a model's dialect (words parted by spaces) holds a word."""
    return trait in model.dialect.split()
