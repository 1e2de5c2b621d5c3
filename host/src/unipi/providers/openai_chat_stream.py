"""Answers of Chat Completions: event stream or JSON into one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from unipi.prefix.canonical import compact, repair
from unipi_hookspecs import AssistantMessage, Usage

from .cost import cost_of
from .dialects import dialect_of
from .errors import ProviderError, stream_error
from .parts import Part, as_count, as_list, as_object, as_text, finished, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import Model, RequestInfo, StopReason

    from .api import StreamDelta
    from .parts import PartKind

_STOP: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "content_filter": "error",
}


class ChatDecoder:
    """Builds one answer; implements `Decoder`."""

    def __init__(self, model: Model, info: RequestInfo, started_ms: int) -> None:
        self._model = model
        self._info = info
        self._started_ms = started_ms
        self._parts: list[Part] = []
        self._single: dict[PartKind, Part] = {}  # an answer has one text and one reasoning
        self._calls: dict[int, Part] = {}  # by the provider's index
        self._usage: dict[str, object] = {}
        self._timings: dict[str, object] = {}
        self._response_id: str | None = None
        self._stop: str | None = None
        self._done = False

    @property
    def complete(self) -> bool:
        """A finish reason completes an answer too: not every server goes on to say `[DONE]`."""
        return self._done or self._stop is not None

    def event(self, name: str, data: bytes, sink: list[StreamDelta] | None) -> None:
        if data == b"[DONE]":
            self._done = True
            for part in self._parts:
                part.close(sink)
            return
        self._take(read_json(data), "delta", sink)

    def whole(self, body: bytes) -> None:
        answer = read_json(body)
        if "error" not in answer and not as_list(answer.get("choices")):
            raise ProviderError("stream", "the answer holds no choices", retryable=False)
        self._take(answer, "message", None)
        self._done = True

    def message(self) -> AssistantMessage:
        content = finished(self._parts, self._info.request_id)
        stop = _STOP.get(self._stop or "", "stop")
        if stop == "stop" and any(block.type == "toolCall" for block in content):
            stop = "toolUse"  # some servers finish a turn of calls with "stop"
        return AssistantMessage(
            content=content,
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=self._priced(),
            stop_reason=stop,
            timestamp=self._started_ms,
            response_id=self._response_id,
            error_message="the provider withheld the answer (content filter)"
            if stop == "error"
            else None,
        )

    def _take(self, chunk: dict[str, object], member: str, sink: list[StreamDelta] | None) -> None:
        error = chunk.get("error")
        if error is not None:
            raise _error(error)
        if self._response_id is None:
            self._response_id = as_text(chunk.get("id")) or None
        if usage := as_object(chunk.get("usage")):
            self._usage = usage
        if timings := as_object(chunk.get("timings")):
            self._timings = timings
        choices = as_list(chunk.get("choices"))
        if choices:
            choice = as_object(choices[0])
            self._extend(as_object(choice.get(member)), sink)
            self._stop = as_text(choice.get("finish_reason")) or self._stop

    def _extend(self, delta: dict[str, object], sink: list[StreamDelta] | None) -> None:
        if text := as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")):
            self._part("thinking").add(text, sink)
        if text := as_text(delta.get("content")):
            self._part("text").add(text, sink)
        if text := as_text(delta.get("refusal")):
            self._part("text").add(text, sink)
        if calls := as_list(delta.get("tool_calls")):
            for place, item in enumerate(calls):
                self._call(as_object(item), place, sink)

    def _part(self, kind: PartKind) -> Part:
        part = self._single.get(kind)
        if part is None:
            part = self._single[kind] = self._new(kind)
        return part

    def _new(self, kind: PartKind) -> Part:
        part = Part(kind, len(self._parts))
        self._parts.append(part)
        return part

    def _call(self, item: dict[str, object], place: int, sink: list[StreamDelta] | None) -> None:
        index = as_count(item.get("index"))
        index = place if index is None else index
        call_id = repair(as_text(item.get("id")))
        part = self._calls.get(index)
        if part is None or (call_id and part.call_id and call_id != part.call_id):
            # Servers that leave out the index, or repeat 0, tell calls apart by a new id.
            part = self._calls[index] = self._new("toolcall")
        part.call_id = part.call_id or call_id
        function = as_object(item.get("function"))
        part.name = part.name or repair(as_text(function.get("name")))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # an object instead of its text: Ollama's habit
            arguments = compact(arguments).decode()
        part.add(as_text(arguments), sink)

    def _priced(self) -> Usage | None:
        usage = self._usage
        prompt = as_count(usage.get("prompt_tokens"))
        output = as_count(usage.get("completion_tokens"))
        if prompt is None and output is None:
            return None
        dialect = dialect_of(self._model)
        answer: dict[str, object] = {"usage": usage, "timings": self._timings}
        read = _first_of(answer, dialect.cached)
        written = _first_of(answer, dialect.written)
        counted = Usage(
            # Here the prompt counts everything; what is paid in full is the rest.
            input=max(0, (prompt or 0) - (read or 0) - (written or 0)),
            output=output or 0,
            cache_read=read,
            cache_write=written,
            reasoning=as_count(
                as_object(usage.get("completion_tokens_details")).get("reasoning_tokens")
            ),
        )
        return attrs.evolve(counted, cost=cost_of(counted, self._model.prices))


def _first_of(answer: dict[str, object], places: Sequence[str]) -> int | None:
    """The first count found, by the dotted names of its places."""
    for place in places:
        *parents, name = place.split(".")
        node = answer
        for parent in parents:
            node = as_object(node.get(parent))
        count = as_count(node.get(name))
        if count is not None:
            return count
    return None


def _error(error: object) -> ProviderError:
    if not isinstance(error, dict):
        return stream_error("", str(error))
    code = error.get("code")
    name = code if isinstance(code, str) else as_text(error.get("type"))
    return stream_error(name, as_text(error.get("message")))
