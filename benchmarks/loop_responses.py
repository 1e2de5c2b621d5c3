"""Answers of OpenAI's Responses API for the loop provider: one JSON body, or the events of a stream."""

import json

_USAGE = 20
_Object = dict[str, object]


def responses(turn: int, arguments: str | None, tokens: int, stream: bool) -> list[bytes]:
    """A call of `lookup` with these arguments, or "done"."""
    if arguments is None:
        part = {"type": "output_text", "text": "done", "annotations": []}
        item: _Object = {"type": "message", "id": f"msg_{turn:04d}", "role": "assistant"}
        item |= {"status": "completed", "content": [part]}
    else:
        item = {"type": "function_call", "id": f"fc_{turn:04d}", "call_id": f"call_{turn:04d}"}
        item |= {"name": "lookup", "arguments": arguments, "status": "completed"}
    answer: _Object = {
        "id": f"resp_{turn:04d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "bench-model",
        "status": "completed",
        "output": [item],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": _USAGE,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + _USAGE,
        },
    }
    if not stream:
        return [_json(answer)]
    events: list[_Object] = [
        {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": _opened(item)},
        *(_deltas(item, arguments)),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]
    frames = []
    for number, event in enumerate(events):
        data = _json({**event, "sequence_number": number})
        frames.append(b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data))
    return frames


def _opened(item: _Object) -> _Object:
    if item["type"] == "message":
        return {**item, "status": "in_progress", "content": []}
    return {**item, "status": "in_progress", "arguments": ""}


def _deltas(item: _Object, arguments: str | None) -> list[_Object]:
    place: _Object = {"item_id": item["id"], "output_index": 0}
    if arguments is None:
        inner: _Object = {**place, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        return [
            {"type": "response.content_part.added", **inner, "part": part},
            {"type": "response.output_text.delta", **inner, "delta": "done"},
            {"type": "response.output_text.done", **inner, "text": "done"},
        ]
    return [
        {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments},
    ]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
