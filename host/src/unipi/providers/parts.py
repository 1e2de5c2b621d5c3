"""The growing blocks of an answer, and how untrusted JSON is read into them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, TypeAlias

import orjson
from attrs import define, field

from unipi.prefix.canonical import repair
from unipi_hookspecs import Text, Thinking, ToolCall

from .api import StreamDelta
from .errors import ProviderError, bounded
from .tool_calls import read_arguments

if TYPE_CHECKING:
    from unipi_hookspecs import AssistantContent

PartKind: TypeAlias = Literal["text", "thinking", "toolcall"]


@define
class Part:
    """One block of an answer while it is being received.

    `half` holds the first half of a surrogate pair that two events share.
    """

    kind: PartKind
    index: int
    pieces: list[str] = field(factory=list)
    half: str = ""
    signature: str | None = None
    redacted: bool = False
    call_id: str = ""
    name: str = ""

    def add(self, text: str, sink: list[StreamDelta] | None) -> None:
        """Add a piece, so that the pieces handed on are those of the final text."""
        if not text:
            return
        if not text.isascii():
            text = self._whole(text)
        elif self.half:
            text, self.half = repair(self.half) + text, ""
        if text:
            self.pieces.append(text)
            if sink is not None:
                sink.append(StreamDelta(self.kind, self.index, text))

    def close(self, sink: list[StreamDelta] | None = None) -> None:
        """Take that nothing more comes: a half without its other half is damage."""
        if self.half:
            text, self.half = repair(self.half), ""
            self.pieces.append(text)
            if sink is not None:
                sink.append(StreamDelta(self.kind, self.index, text))

    def text(self) -> str:
        if self.half:
            self.close()
        return "".join(self.pieces)

    def _whole(self, text: str) -> str:
        text, self.half = self.half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return repair(text)


def finished(parts: list[Part], request_id: str) -> tuple[AssistantContent, ...]:
    """The content of the answer, in the order in which its blocks began.

    A call without an id, or with that of another call of the answer, gets one made of the request
    and its place.
    """
    seen: set[str] = set()
    content: list[AssistantContent] = []
    for part in parts:
        text = part.text()
        if part.kind == "text":
            content.append(Text(text, part.signature))
        elif part.kind == "thinking":
            content.append(Thinking(text, part.signature, part.redacted))
        else:
            call_id = part.call_id
            if not call_id or call_id in seen:
                call_id = f"{request_id}-{part.index}"
            seen.add(call_id)
            arguments, source, problem = read_arguments(text)
            content.append(ToolCall(call_id, part.name, arguments, source, problem))
    return tuple(content)


def read_json(data: bytes) -> dict[str, object]:
    """Parse a JSON object of the provider's. Raises ProviderError of kind `stream`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        # Escapes of lone surrogates, and bytes that are no UTF-8, are damage in a text, which the
        # text repairs; anything else is no answer.
        text = data.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except ValueError:
            raise ProviderError("stream", f"not JSON: {bounded(text)}") from None
    return value if isinstance(value, dict) else {}


def as_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """A number of tokens; None for null, absent, or anything that is no number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
