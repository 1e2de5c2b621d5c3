"""Answers of the Responses API on the wire: the response object and the events of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from unipi.sim.prompt import tokens_of
from unipi.sim.script import Think
from unipi.sim.shapes import as_dict, as_list, as_str
from unipi.sim.wire import Frame, Reply, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unipi.sim.openai_responses_items import Item

_LIMIT, _FILTER = "max_output_tokens", "content_filter"
# Every API's words, so that one script serves all.
_INCOMPLETE = {
    "max_tokens": _LIMIT,
    "length": _LIMIT,
    "model_context_window_exceeded": _LIMIT,
    "refusal": _FILTER,
    "content_filter": _FILTER,
}


def response(reply: Reply, items: list[Item]) -> dict[str, object]:
    """The response object of a finished answer."""
    why = _INCOMPLETE.get(reply.stop or "")
    if why and items:
        items = [*items[:-1], {**items[-1], "status": "incomplete"}]
    return {
        **_about(reply.id, reply.model, reply.created, "incomplete" if why else "completed"),
        "output": items,
        "incomplete_details": {"reason": why} if why else None,
        "usage": _usage(reply),
    }


def _about(name: str, model: str, created: int, status: str) -> dict[str, object]:
    return {
        "id": name,
        "object": "response",
        "created_at": created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def _usage(reply: Reply) -> dict[str, object]:
    hit = reply.hit
    thought = sum(tokens_of(p.text.encode()) for p in reply.parts if isinstance(p, Think))
    usage: dict[str, object] = {
        "input_tokens": hit.prompt,
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": hit.prompt + reply.output_tokens,
    }
    if reply.options.report_cache:
        # Required by the types of openai 3.57, though only newer models write for money.
        written = hit.written if reply.options.profile.counts_writes else 0
        usage["input_tokens_details"] = {
            "cached_tokens": hit.cached,
            "cache_write_tokens": written,
            "cache_write_tokens_details": {
                "ttl_30m_tokens": hit.written_short,
                "ttl_12h_tokens": hit.written_long,
            }
            if written
            else None,
        }
    return {**usage, **reply.overrides}


class _Numbered:
    """Events in their order, each with its number."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, kind: str, **members: object) -> Frame:
        event = {"type": kind, **members, "sequence_number": self._number}
        self._number += 1
        data = b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(event))
        return Frame(data, delta="delta" in members)


def events(reply: Reply, items: list[Item]) -> Iterator[Frame]:
    """The events of a stream, from ``response.created`` to its end."""
    number = _Numbered()
    yield from _opening(number, _about(reply.id, reply.model, reply.created, "in_progress"))
    end = response(reply, items)
    for index, item in enumerate(map(as_dict, as_list(end["output"]))):
        at: Item = {"output_index": index}
        # What is still to come is left out of the item as it is added.
        empty: dict[str, object] = {"status": "in_progress"}
        if item["type"] == "function_call":
            empty["arguments"] = ""
            said = _call_events(number, reply, item, at)
        elif item["type"] == "message":
            empty["content"] = []
            said = _message_events(number, reply, item, at)
        else:
            empty |= {"summary": [], "encrypted_content": ""}
            said = _reasoning_events(number, reply, item, at)
        yield number("response.output_item.added", **at, item={**item, **empty})
        yield from said
        yield number("response.output_item.done", **at, item=item)
    yield number(f"response.{end['status']}", response=end)


def opening(model: str) -> bytes:
    """The events before an answer that there will not be."""
    frames = _opening(_Numbered(), _about("resp_sim_failed", model, 0, "in_progress"))
    return b"".join(frame.data for frame in frames)


def _opening(number: _Numbered, begun: dict[str, object]) -> Iterator[Frame]:
    yield number("response.created", response=begun)
    yield number("response.in_progress", response=begun)


def _call_events(number: _Numbered, reply: Reply, item: Item, at: Item) -> Iterator[Frame]:
    here = {"item_id": item.get("id"), **at}
    name = "response.function_call_arguments"
    for piece in pieces(as_str(item["arguments"]), reply.chunk):
        yield number(f"{name}.delta", delta=piece, **here)
    yield number(f"{name}.done", **here, name=item["name"], arguments=item["arguments"])


def _message_events(number: _Numbered, reply: Reply, item: Item, at: Item) -> Iterator[Frame]:
    for place, part in enumerate(map(as_dict, as_list(item["content"]))):
        here = {"item_id": item["id"], **at, "content_index": place}
        yield number("response.content_part.added", **here, part={**part, "text": ""})
        for piece in pieces(as_str(part["text"]), reply.chunk):
            yield number("response.output_text.delta", **here, delta=piece, logprobs=[])
        yield number("response.output_text.done", **here, text=part["text"], logprobs=[])
        yield number("response.content_part.done", **here, part=part)


def _reasoning_events(number: _Numbered, reply: Reply, item: Item, at: Item) -> Iterator[Frame]:
    name = "response.reasoning_summary"
    for place, part in enumerate(map(as_dict, as_list(item["summary"]))):
        here = {"item_id": item["id"], **at, "summary_index": place}
        yield number(f"{name}_part.added", **here, part={**part, "text": ""})
        for piece in pieces(as_str(part["text"]), reply.chunk):
            yield number(f"{name}_text.delta", **here, delta=piece)
        yield number(f"{name}_text.done", **here, text=part["text"])
        yield number(f"{name}_part.done", **here, part=part)


def error_frame(kind: str, message: str) -> bytes:
    """An error event on a stream."""
    param = "input" if kind == "context_length_exceeded" else None
    event = {"type": "error", "code": kind, "message": message, "param": param}
    return b"event: error\ndata: " + orjson.dumps({**event, "sequence_number": 2}) + b"\n\n"
