"""Answers of Anthropic's Messages API: event stream or JSON into one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from unipi.prefix.canonical import compact, repair
from unipi_hookspecs import AssistantMessage, Usage

from .cost import cost_of
from .errors import ProviderError, stream_error
from .miss_reason import told_reason
from .parts import Part, as_count, as_list, as_object, as_text, finished, read_json
from .tool_calls import items, members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON, Model, RequestInfo, StopReason

    from .api import StreamDelta

_STOP: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "refusal": "error",
}


class AnthropicDecoder:
    """Builds one answer; implements `Decoder`."""

    def __init__(self, model: Model, info: RequestInfo, started_ms: int) -> None:
        self._model = model
        self._info = info
        self._started_ms = started_ms
        self._parts: list[Part] = []
        self._open: dict[int | None, Part] = {}  # by the provider's block index
        self._usage: dict[str, object] = {}
        self._response_id: str | None = None
        self._miss_reason: str | None = None
        self._stop: str | None = None
        self._ended = False

    @property
    def complete(self) -> bool:
        return self._ended

    def event(self, name: str, data: bytes, sink: list[StreamDelta] | None) -> None:
        event = read_json(data)
        kind = event.get("type", name)
        if kind == "content_block_delta":
            part = self._open.get(as_count(event.get("index")))
            if part is not None:
                _extend(part, as_object(event.get("delta")), sink)
        elif kind == "content_block_start":
            self._begin(as_count(event.get("index")), as_object(event.get("content_block")), sink)
        elif kind == "content_block_stop":
            part = self._open.pop(as_count(event.get("index")), None)
            if part is not None:
                part.close(sink)
        elif kind == "message_start":
            message = as_object(event.get("message"))
            self._response_id = as_text(message.get("id")) or None
            self._miss_reason = told_reason(message.get("diagnostics"))
            self._count(message.get("usage"))
        elif kind == "message_delta":
            self._stop = as_text(as_object(event.get("delta")).get("stop_reason")) or self._stop
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._ended = True
        elif kind == "error":
            error = as_object(event.get("error"))
            raise stream_error(as_text(error.get("type")), as_text(error.get("message")))

    def whole(self, body: bytes) -> None:
        answer = read_json(body)
        if "error" in answer:
            error = as_object(answer["error"])
            raise stream_error(as_text(error.get("type")), as_text(error.get("message")))
        if not isinstance(answer.get("content"), list):
            raise ProviderError("stream", "the answer holds no content", retryable=False)
        self._response_id = as_text(answer.get("id")) or None
        self._miss_reason = told_reason(answer.get("diagnostics"))
        self._stop = as_text(answer.get("stop_reason")) or None
        self._count(answer.get("usage"))
        sources = _inputs(body.decode("utf-8", "replace"))
        for index, block in enumerate(as_list(answer["content"])):
            part = self._begin(index, as_object(block), None)
            if part is not None and part.kind == "toolcall":
                part.pieces = [sources[index]] if index in sources else []
        self._ended = True

    def message(self) -> AssistantMessage:
        content = finished(self._parts, self._info.request_id)
        calls = any(block.type == "toolCall" for block in content)
        stop = _STOP.get(self._stop or "", "stop")
        if calls and stop == "stop":
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
            error_message="the model refused to answer" if stop == "error" else None,
        )

    def _begin(
        self, index: int | None, block: dict[str, object], sink: list[StreamDelta] | None
    ) -> Part | None:
        kind = block.get("type")
        place = len(self._parts)
        if kind == "text":
            part = Part("text", place)
            part.add(as_text(block.get("text")), sink)
        elif kind == "thinking":
            part = Part("thinking", place, signature=as_text(block.get("signature")) or None)
            part.add(as_text(block.get("thinking")), sink)
        elif kind == "redacted_thinking":
            part = Part(
                "thinking", place, signature=repair(as_text(block.get("data"))), redacted=True
            )
        elif kind == "tool_use":
            part = Part("toolcall", place)
            part.call_id = repair(as_text(block.get("id")))
            part.name = repair(as_text(block.get("name")))
            if given := as_object(block.get("input")):
                part.add(compact(_json(given)).decode(), sink)
        else:
            return None  # blocks of tools that run at the provider: none is asked for
        self._parts.append(part)
        self._open[index] = part
        return part

    def _count(self, usage: object) -> None:
        """Take the fields reported; in a stream they are cumulative, so the last value stands."""
        for key, value in as_object(usage).items():
            if value is not None:
                self._usage[key] = value

    def _priced(self) -> Usage | None:
        fresh = as_count(self._usage.get("input_tokens"))
        output = as_count(self._usage.get("output_tokens"))
        if fresh is None and output is None:
            return None
        details = as_object(self._usage.get("output_tokens_details"))
        reasoning = as_count(details.get("thinking_tokens"))
        usage = Usage(
            input=fresh or 0,
            output=output or 0,
            cache_read=as_count(self._usage.get("cache_read_input_tokens")),
            cache_write=as_count(self._usage.get("cache_creation_input_tokens")),
            cache_write_1h=as_count(
                as_object(self._usage.get("cache_creation")).get("ephemeral_1h_input_tokens")
            ),
            reasoning=reasoning,
            miss_reason=self._miss_reason,
        )
        return attrs.evolve(usage, cost=cost_of(usage, self._model.prices))


def _extend(part: Part, delta: dict[str, object], sink: list[StreamDelta] | None) -> None:
    kind = delta.get("type")
    if kind == "text_delta":
        part.add(as_text(delta.get("text")), sink)
    elif kind == "input_json_delta":
        part.add(as_text(delta.get("partial_json")), sink)
    elif kind == "thinking_delta":
        part.add(as_text(delta.get("thinking")), sink)
    elif kind == "signature_delta":
        part.signature = (part.signature or "") + as_text(delta.get("signature"))


def _inputs(text: str) -> dict[int, str]:
    """The source texts of the `input` objects of a JSON answer, by content index."""
    found: dict[int, str] = {}
    for key, start, _ in members(text, text.index("{")):
        if key != "content":
            continue
        for index, (block, _) in enumerate(items(text, start)):
            for name, at, end in members(text, block):
                if name == "input":
                    found[index] = text[at:end]
    return found


def _json(value: dict[str, object]) -> dict[str, JSON]:
    return value  # type: ignore[return-value]  # it came out of a JSON parser
