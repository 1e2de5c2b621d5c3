"""OpenAI Chat Completions: requests rendered for the cache, answers put on the wire.

Source of every shape: the Chat Completions reference and the prompt caching guide (2026-07-15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from unipi.sim import openai_checks
from unipi.sim.anthropic_render import marker_ttl
from unipi.sim.errors import ApiError, openai_error
from unipi.sim.prompt import Block, Prompt, Section, make_block, tokens_in
from unipi.sim.rules import HOUR
from unipi.sim.script import Call, Part, Say, Think
from unipi.sim.shapes import as_dict, as_list, as_str, dumps, load_object
from unipi.sim.wire import MAX_BODY, Frame, Options, Parsed, Reply, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAME = "openai-chat-completions"
PATH = "/v1/chat/completions"

# The other API's words, so that one script serves both.
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "model_context_window_exceeded": "length",
}
_RETENTIONS = {"24h": 24 * HOUR}


def parse(body: bytes, headers: Mapping[str, str], options: Options) -> Parsed:
    """Check and render a request.

    Raises:
        ApiError: as the real API would, or for a prompt over the window.
    """
    if options.strict:
        openai_checks.check_headers(headers)
    if len(body) > MAX_BODY:
        raise ApiError(413, "Request too large")
    request = load_object(body)
    if options.strict:
        openai_checks.check_request(request, options)
    prompt = _render(request)
    ends = prompt.ends()
    _check_window(tokens_in(ends[-1]) if ends else 0, options)
    stream_options = as_dict(request.get("stream_options"))
    return Parsed(
        request,
        prompt.model,
        prompt,
        stream=request.get("stream") is True,
        include_usage=stream_options.get("include_usage") is True,
    )


def _check_window(tokens: int, options: Options) -> None:
    window = options.context_window
    if window is not None and tokens > window:
        raise ApiError(
            400,
            f"This model's maximum context length is {window} tokens. However, your messages "
            f"resulted in {tokens} tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        )


def _render(request: dict[str, object]) -> Prompt:
    blocks: list[Block] = []
    # The response schema and the tools are rendered before the system text.
    if request.get("response_format") is not None:
        blocks.append(make_block("tools", b"format " + dumps(request["response_format"]) + b"\n"))
    tools = as_list(request.get("tools"))
    blocks.extend(make_block("tools", b"tool " + dumps(tool) + b"\n") for tool in tools)
    section: Section = "system"
    for message in map(as_dict, as_list(request.get("messages"))):
        if message.get("role") not in ("system", "developer"):
            section = "messages"
        blocks.extend(message_blocks(message, section))
    settings = [request.get(name) for name in ("reasoning_effort", "verbosity", "service_tier")]
    key = request.get("prompt_cache_key")
    cache = as_dict(request.get("prompt_cache_options"))
    return Prompt(
        as_str(request.get("model")),
        tuple(blocks),
        (dumps(settings), b"", b""),
        key=key if isinstance(key, str) else None,
        salt=as_str(request.get("cache_salt")),
        explicit_only=cache.get("mode") == "explicit",
        retention=_RETENTIONS.get(as_str(request.get("prompt_cache_retention"))),
    )


def message_blocks(message: dict[str, object], section: Section) -> list[Block]:
    """Render a message; its first block says where the message begins and who speaks."""
    role = as_str(message.get("role"))
    about = [message[name] for name in ("name", "tool_call_id") if message.get(name)]
    head = f"# {role} ".encode() + (dumps(about) if about else b"")
    parts = _parts(message)
    blocks = []
    for place, part in enumerate(parts):
        text = (head if place == 0 else b"+ ") + dumps(_content(part)) + b"\n"
        blocks.append(
            make_block(
                section,
                text,
                marker=marker_ttl(part.get("cache_control")),
                breakpoint_=isinstance(part.get("prompt_cache_breakpoint"), dict),
                ends_message=place == len(parts) - 1,
                thinking=False,
            )
        )
    return blocks


def _parts(message: dict[str, object]) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append({"type": "reasoning", "text": reasoning})
    content = message.get("content")
    calls = as_list(message.get("tool_calls"))
    if isinstance(content, str) and (content or not calls):
        parts.append({"type": "text", "text": content})
    parts.extend(map(as_dict, as_list(content)))
    if isinstance(message.get("refusal"), str):
        parts.append({"type": "refusal", "refusal": message["refusal"]})
    parts.extend({"type": "call", "call": as_dict(call)} for call in calls)
    return parts or [{"type": "text", "text": ""}]


def _content(part: dict[str, object]) -> object:
    if part.get("type") == "text":
        return part.get("text")
    if part.get("type") == "call":
        call = as_dict(part.get("call"))
        function = as_dict(call.get("function"))
        return [call.get("id"), function.get("name"), function.get("arguments")]
    unseen = ("cache_control", "prompt_cache_breakpoint")
    return {key: part[key] for key in sorted(part) if key not in unseen}


def sign(parsed: Parsed, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Chat completions has no signatures."""
    del parsed
    return tuple(parts)


def output_blocks(parts: Sequence[Part]) -> list[Block]:
    """The answer as rendered when it is replayed."""
    return message_blocks(_message(parts), "messages")


def _message(parts: Sequence[Part]) -> dict[str, object]:
    text = [part.text for part in parts if isinstance(part, Say)]
    thought = [part.text for part in parts if isinstance(part, Think) and not part.redacted]
    calls = [part for part in parts if isinstance(part, Call)]
    message: dict[str, object] = {
        "role": "assistant",
        "content": "".join(text) if text else None,
        "refusal": None,
    }
    if any(thought):
        message["reasoning_content"] = "".join(thought)
    if calls:
        message["tool_calls"] = [{"id": call.id, **_call(call, call.arguments)} for call in calls]
    return message


def _call(call: Call, arguments: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usage(reply: Reply) -> dict[str, object]:
    hit, profile = reply.hit, reply.options.profile
    usage: dict[str, object] = {
        "prompt_tokens": hit.prompt,
        "completion_tokens": reply.output_tokens,
        "total_tokens": hit.prompt + reply.output_tokens,
    }
    if reply.options.report_cache and profile.usage == "deepseek":
        usage["prompt_cache_hit_tokens"] = hit.cached
        usage["prompt_cache_miss_tokens"] = hit.prompt - hit.cached
    elif reply.options.report_cache:
        details: dict[str, object] = {"cached_tokens": hit.cached}
        if profile.counts_writes:
            details["cache_write_tokens"] = hit.written
        usage["prompt_tokens_details"] = details
    return {**usage, **reply.overrides}


def _timings(reply: Reply) -> dict[str, object]:
    """llama.cpp's own account, beside ``usage``."""
    if reply.options.profile.usage != "llama" or not reply.options.report_cache:
        return {}
    hit = reply.hit
    counts = {
        "cache_n": hit.cached,
        "prompt_n": hit.prompt - hit.cached,
        "predicted_n": reply.output_tokens,
    }
    return {"timings": counts}


def _finish(reply: Reply) -> str:
    if reply.stop is not None:
        return _STOPS.get(reply.stop, reply.stop)
    return "tool_calls" if any(isinstance(part, Call) for part in reply.parts) else "stop"


def whole(reply: Reply) -> bytes:
    """The response body of a request that does not stream."""
    choice = {
        "index": 0,
        "message": _message(reply.parts),
        "logprobs": None,
        "finish_reason": _finish(reply),
    }
    return orjson.dumps(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
            "usage": _usage(reply),
            **_timings(reply),
        }
    )


def _chunk(reply: Reply, choices: list[object], **members: object) -> bytes:
    chunk = {
        "id": reply.id,
        "object": "chat.completion.chunk",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
        **({"usage": None} if reply.include_usage else {}),
        **members,
    }
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def _delta(reply: Reply, delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _chunk(reply, [choice])


def frames(reply: Reply) -> Iterator[Frame]:
    """The chunks of a stream, from the role to ``[DONE]``."""
    yield Frame(_delta(reply, {"role": "assistant", "content": None, "refusal": None}))
    position = 0
    for part in reply.parts:
        if isinstance(part, Call):
            yield Frame(_delta(reply, _call_delta(position, {"id": part.id, **_call(part, "")})))
            for piece in pieces(part.arguments, reply.chunk):
                delta = _call_delta(position, {"function": {"arguments": piece}})
                yield Frame(_delta(reply, delta), delta=True)
            position += 1
        elif not (isinstance(part, Think) and part.redacted):
            name = "content" if isinstance(part, Say) else "reasoning_content"
            for piece in pieces(part.text, reply.chunk):
                yield Frame(_delta(reply, {name: piece}), delta=True)
    yield Frame(_delta(reply, {}, _finish(reply)))
    if reply.include_usage:
        yield Frame(_chunk(reply, [], usage=_usage(reply), **_timings(reply)))
    yield Frame(b"data: [DONE]\n\n")


def _call_delta(position: int, members: dict[str, object]) -> dict[str, object]:
    return {"tool_calls": [{"index": position, **members}]}


def error_body(error: ApiError, request_id: str) -> bytes:
    """The body of an error response."""
    del request_id
    return openai_error(error)


def error_frame(kind: str, message: str) -> bytes:
    """An error chunk on a stream."""
    error = {"message": message, "type": kind, "param": None, "code": None}
    return b"data: " + orjson.dumps({"error": error}) + b"\n\n"


def response_headers(request_id: str) -> list[tuple[str, str]]:
    """The request's id and the shortest form of the rate limit headers."""
    return [
        ("x-request-id", request_id),
        ("x-ratelimit-limit-requests", "10000"),
        ("x-ratelimit-remaining-requests", "9999"),
        ("x-ratelimit-reset-requests", "6ms"),
    ]


def reply_id(number: int) -> str:
    """The id of the ``number``-th answer."""
    return f"chatcmpl-sim-{number:04d}"


def call_id(number: int) -> str:
    """The id of the ``number``-th tool call."""
    return f"call_sim_{number:04d}"
