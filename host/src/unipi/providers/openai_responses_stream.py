"""Answers of the Responses API: event stream or JSON into one message.

Unknown events and items are passed over: the host asks for no tool that runs at the provider's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from unipi.prefix.canonical import repair
from unipi_hookspecs import AssistantMessage, Usage

from .cost import cost_of
from .errors import ProviderError, stream_error
from .openai_responses_items import TextItem, joined_call_id, reasoning_signature
from .parts import Part, as_count, as_list, as_object, as_text, finished, read_json
from .tool_calls import items, members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import Model, RequestInfo, StopReason

    from .api import StreamDelta
    from .parts import PartKind

_TEXTS = {"output_text": "text", "refusal": "refusal"}
_CUT = {"max_output_tokens": "length"}
_BREAK = "\n\n"

Index: TypeAlias = "int | str"
"""An item of the output, by its place or by its id."""


class ResponsesDecoder:
    """Builds one answer; implements `Decoder`."""

    def __init__(self, model: Model, info: RequestInfo, started_ms: int) -> None:
        self._model = model
        self._info = info
        self._started_ms = started_ms
        self._parts: list[Part] = []
        self._found: dict[tuple[Index, int], Part] = {}  # by places of item and of part in it
        self._section: dict[Index, int] = {}  # the part of a reasoning item that is being said
        self._response: dict[str, object] = {}
        self._response_id: str | None = None
        self._end = ""

    @property
    def complete(self) -> bool:
        return bool(self._end)

    def event(self, name: str, data: bytes, sink: list[StreamDelta] | None) -> None:
        event = read_json(data)
        kind = as_text(event.get("type")) or name
        index = _place_of(event)
        place = as_count(event.get("content_index")) or 0
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._part("text", index, place).add(as_text(event.get("delta")), sink)
            case "response.function_call_arguments.delta":
                self._part("toolcall", index).add(as_text(event.get("delta")), sink)
            case "response.reasoning_summary_text.delta":
                self._think(event, index, as_count(event.get("summary_index")) or 0, sink)
            case "response.reasoning_text.delta":
                self._think(event, index, place, sink)
            case "response.output_item.added":
                self._begin(as_object(event.get("item")), index)
            case "response.output_item.done":
                source = data.decode("utf-8", "replace")
                self._done(as_object(event.get("item")), index, _item_in(source), sink)
            case "response.created" | "response.in_progress" | "response.queued":
                self._about(as_object(event.get("response")))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._finish(as_object(event.get("response")), kind.removeprefix("response."), sink)
            case _ if kind == "error" or "error" in event:
                raise _error(as_object(event.get("error")) or event)

    def whole(self, body: bytes) -> None:
        response = read_json(body)
        if response.get("error"):
            raise _error(as_object(response.get("error")))
        if "output" not in response:
            raise ProviderError("stream", "the answer holds no output", retryable=False)
        text = body.decode("utf-8", "replace")
        at = next(start for key, start, _ in members(text, _start(text)) if key == "output")
        sources = [text[start:end] for start, end in items(text, at)]
        for index, item in enumerate(as_list(response.get("output"))):
            self._done(as_object(item), index, sources[index], None)
        self._finish(response, as_text(response.get("status")) or "completed", None)

    def message(self) -> AssistantMessage:
        content = finished(self._parts, self._info.request_id)
        stop: StopReason = "stop"
        said: str | None = None
        if self._end == "incomplete":
            why = as_text(as_object(self._response.get("incomplete_details")).get("reason"))
            stop = "length" if why in _CUT or not why else "error"
            said = f"the provider withheld the answer ({why})" if stop == "error" else None
        elif any(block.type == "toolCall" for block in content):
            stop = "toolUse"
        return AssistantMessage(
            content=content,
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=self._priced(),
            stop_reason=stop,
            timestamp=self._started_ms,
            response_id=self._response_id,
            error_message=said,
        )

    def _part(self, kind: PartKind, index: Index, place: int = 0) -> Part:
        part = self._found.get((index, place))
        if part is None:
            part = self._found[index, place] = Part(kind, len(self._parts))
            self._parts.append(part)
        return part

    def _begin(self, item: dict[str, object], index: Index) -> None:
        """Take a place in the answer, so that the order is the one in which items began."""
        kind = item.get("type")
        if kind == "function_call":
            self._name(self._part("toolcall", index), item)
        elif kind == "reasoning":
            self._part("thinking", index)

    def _name(self, part: Part, item: dict[str, object]) -> None:
        call_id, item_id = repair(as_text(item.get("call_id"))), as_text(item.get("id"))
        part.call_id = joined_call_id(call_id, item_id) or part.call_id
        part.name = repair(as_text(item.get("name"))) or part.name

    def _think(
        self, event: dict[str, object], index: Index, section: int, sink: list[StreamDelta] | None
    ) -> None:
        part = self._part("thinking", index)
        if self._section.setdefault(index, section) != section:
            self._section[index] = section
            part.add(_BREAK, sink)
        part.add(as_text(event.get("delta")), sink)

    def _done(
        self, item: dict[str, object], index: Index, source: str, sink: list[StreamDelta] | None
    ) -> None:
        """Take a finished item: what was not streamed of it, and what must be kept of it."""
        kind = item.get("type")
        if kind == "reasoning":
            part = self._part("thinking", index)
            if not part.pieces:
                said = as_list(item.get("summary")) or as_list(item.get("content"))
                part.add(_BREAK.join(as_text(as_object(s).get("text")) for s in said), sink)
            part.signature = reasoning_signature(source)
            part.close(sink)
        elif kind == "function_call":
            part = self._part("toolcall", index)
            self._name(part, item)
            if not part.pieces:
                part.add(as_text(item.get("arguments")), sink)
            part.close(sink)
        elif kind == "message":
            for place, found in enumerate(map(as_object, as_list(item.get("content")))):
                self._said(item, found, self._part("text", index, place), sink)

    def _said(
        self,
        item: dict[str, object],
        found: dict[str, object],
        part: Part,
        sink: list[StreamDelta] | None,
    ) -> None:
        kind = as_text(found.get("type"))
        if not part.pieces:
            part.add(as_text(found.get(_TEXTS.get(kind, ""))), sink)
        part.close(sink)
        part.signature = TextItem(
            as_text(item.get("id")),
            repair(as_text(item.get("phase"))),
            as_text(item.get("status")) or "completed",
            kind == "refusal",
        ).signature()

    def _about(self, response: dict[str, object]) -> None:
        self._response_id = as_text(response.get("id")) or self._response_id

    def _finish(
        self, response: dict[str, object], end: str, sink: list[StreamDelta] | None
    ) -> None:
        self._about(response)
        self._response = response
        if end == "failed":
            raise _error(as_object(response.get("error")))
        for part in self._parts:
            part.close(sink)
        self._end = end

    def _priced(self) -> Usage | None:
        usage = as_object(self._response.get("usage"))
        prompt, output = as_count(usage.get("input_tokens")), as_count(usage.get("output_tokens"))
        if prompt is None and output is None:
            return None
        details = as_object(usage.get("input_tokens_details"))
        read = as_count(details.get("cached_tokens"))
        written = as_count(details.get("cache_write_tokens"))
        thought = as_object(usage.get("output_tokens_details")).get("reasoning_tokens")
        counted = Usage(
            # Here the prompt counts everything; what is paid in full is the rest.
            input=max(0, (prompt or 0) - (read or 0) - (written or 0)),
            output=output or 0,
            cache_read=read,
            cache_write=written,
            cache_write_1h=as_count(
                as_object(details.get("cache_write_tokens_details")).get("ttl_12h_tokens")
            ),
            reasoning=as_count(thought),
        )
        return attrs.evolve(counted, cost=cost_of(counted, self._model.prices))


def _place_of(event: dict[str, object]) -> Index:
    """Where an event's item stands in the output; llama.cpp tells by the item's id alone."""
    index = as_count(event.get("output_index"))
    if index is not None:
        return index
    return as_text(event.get("item_id")) or as_text(as_object(event.get("item")).get("id"))


def _start(text: str) -> int:
    return len(text) - len(text.lstrip())


def _item_in(text: str) -> str:
    """The source text of an event's item."""
    found = members(text, _start(text))
    return next((text[start:end] for key, start, end in found if key == "item"), "{}")


def _error(error: Mapping[str, object]) -> ProviderError:
    code = as_text(error.get("code")) or as_text(error.get("type"))
    return stream_error("" if code == "error" else code, as_text(error.get("message")))
