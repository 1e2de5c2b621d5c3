"""What a wire API supplies so that a request can be built out of bytes that never change.

A request body is `head.open`, the fragments joined by commas, and `head.close`. The head is built
once an epoch, a fragment once a message; neither is ever encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import Factory, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON, Message, Model, ThinkingLevel

    from .marks import Marker


@frozen
class ToolSpec:
    """A tool as the model sees it; `schema` is canonical JSON (RFC 8785 key order)."""

    name: str
    description: str
    schema: bytes


@frozen
class HeadSpec:
    """Everything of a request that is not its messages.

    `lineage` is a stable routing key of the session (`prompt_cache_key` where the API has one);
    `ttl` how long the provider is asked to keep what it caches ("1h"; empty: its own default).
    """

    model: Model
    system: Sequence[str]
    tools: Sequence[ToolSpec]
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    lineage: str = ""
    options: Mapping[str, JSON] = Factory(dict)
    ttl: str = ""


@frozen
class Head:
    """The bytes before and after the messages.

    `open` ends right where the first fragment goes; with `leading` it already holds an item (the
    system message of Chat Completions), so that the first fragment needs a comma before it.
    """

    open: bytes
    close: bytes = b"]}"
    leading: bool = False


class WireApi(Protocol):
    """The byte shape of one wire API."""

    @property
    def name(self) -> str:
        """Such as `anthropic-messages`."""

    def head(self, spec: HeadSpec) -> Head:
        """Build the head; equal specs give equal bytes, in every process."""

    def marker(self, spec: HeadSpec) -> Marker | None:
        """The cache markers that may stand inside messages; None where there are none."""

    def block_ends(self, fragment: bytes) -> list[int]:
        """Where in a wire message each block's marker would stand; -1 for a block that takes none."""

    def without_thinking(self, fragment: bytes) -> bytes:
        """A wire message less what its provider binds to all that stands before it."""

    def fragments(self, messages: Sequence[Message], model: Model) -> list[tuple[int, bytes]]:
        """Convert messages to wire messages: `(number of messages it covers, bytes)` each.

        A message that reaches no model is covered by a fragment of no bytes. Tool results that
        stand next to each other may share one fragment. A message that becomes several wire
        messages is covered by the last one's fragment; those before it cover none. The result for
        a message does not depend on what comes after its run of tool results, so converting a
        longer list only appends.
        """
