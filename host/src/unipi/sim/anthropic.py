"""Anthropic Messages: requests rendered for the cache, answers put on the wire.

Source of every shape: the Messages reference and "Prompt caching" (2026-08-22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from unipi.sim import anthropic_checks, anthropic_diagnosis, anthropic_render, thinking
from unipi.sim.errors import ApiError, anthropic_error
from unipi.sim.prompt import Block, tokens_in
from unipi.sim.script import Call, Part, Say, Think
from unipi.sim.shapes import as_str, load_object
from unipi.sim.wire import MAX_BODY, Frame, Options, Parsed, Reply, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAME = "anthropic-messages"
PATH = "/v1/messages"

# The other API's words, so that one script serves both.
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def parse(body: bytes, headers: Mapping[str, str], options: Options) -> Parsed:
    """Check and render a request.

    Raises:
        ApiError: as the real API would, or for a prompt over the window.
    """
    if options.strict:
        anthropic_checks.check_headers(headers)
    if len(body) > MAX_BODY:
        raise ApiError(413, "Request exceeds the maximum size")
    request = load_object(body)
    if options.strict:
        anthropic_checks.check_request(request, headers, options)
    rendered = anthropic_render.render(request, headers, options)
    max_tokens = request.get("max_tokens")
    _check_window(request, rendered.prompt.ends(), options)
    return Parsed(
        request,
        as_str(request.get("model")),
        rendered.prompt,
        stream=request.get("stream") is True,
        prewarm=max_tokens == 0,
        signing=rendered.state,
        last_signature=rendered.last_signature,
        transformations=rendered.transformations,
        question=anthropic_diagnosis.read_question(request, headers, rendered.prompt),
    )


def _check_window(request: dict[str, object], ends: Sequence[int], options: Options) -> None:
    window = options.context_window
    if window is None:
        return
    tokens = tokens_in(ends[-1]) if ends else 0
    if tokens > window:
        raise ApiError(400, f"prompt is too long: {tokens} tokens > {window} maximum")
    limit = request.get("max_tokens")
    # Claude 4.5 and newer stop at the window instead.
    old = as_str(request.get("model")).startswith("claude-3")
    if old and isinstance(limit, int) and tokens + limit > window:
        raise ApiError(
            400,
            f"input length and `max_tokens` exceed context limit: {tokens} + {limit} > {window}, "
            "decrease input length or `max_tokens` and try again",
        )


def sign(parsed: Parsed, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Give thinking blocks without a signature one that binds them to what stands before them."""
    state, previous = parsed.signing, parsed.last_signature
    signed: list[Part] = []
    for part in parts:
        if isinstance(part, Think):
            text = "" if part.redacted else part.text
            signature = part.signature
            if signature is None:
                signature = thinking.sign(parsed.model, state, previous, text)
            previous = signature
            signed.append(Think(part.text, signature, part.redacted))
        else:
            signed.append(part)
            for block in output_blocks([part]):
                state = thinking.advance(state, block.digest)
    return tuple(signed)


def output_blocks(parts: Sequence[Part]) -> list[Block]:
    """The answer as rendered when it is replayed."""
    blocks = [_replayed(part) for part in parts]
    return [anthropic_render.message_block("assistant", block) for block in blocks]


def _replayed(part: Part) -> dict[str, object]:
    if isinstance(part, Say):
        return {"type": "text", "text": part.text}
    if isinstance(part, Call):
        arguments = part.parsed() or {}
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.signature}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _block_text(part: Part) -> bytes:
    """A content block of a whole response; a call's argument text is spliced in verbatim."""
    if isinstance(part, Call) and part.parsed() is not None:
        head = orjson.dumps({"type": "tool_use", "id": part.id, "name": part.name})
        return head[:-1] + b',"input":' + part.arguments.strip().encode() + b"}"
    return orjson.dumps(_replayed(part))


def _usage(reply: Reply, output_tokens: int) -> dict[str, object]:
    hit = reply.hit
    usage: dict[str, object] = {"input_tokens": hit.prompt - hit.cached - hit.written}
    if reply.options.report_cache:
        if reply.options.profile.counts_writes:
            usage["cache_creation_input_tokens"] = hit.written
        usage["cache_read_input_tokens"] = hit.cached
        if reply.options.profile.counts_writes:
            usage["cache_creation"] = {
                "ephemeral_5m_input_tokens": hit.written_short,
                "ephemeral_1h_input_tokens": hit.written_long,
            }
    usage["output_tokens"] = output_tokens
    return usage


def _stop(reply: Reply) -> str:
    if reply.stop is not None:
        return _STOPS.get(reply.stop, reply.stop)
    return "tool_use" if any(isinstance(part, Call) for part in reply.parts) else "end_turn"


def _message(reply: Reply, content: list[object], usage: dict[str, object]) -> dict[str, object]:
    message: dict[str, object] = {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
        **reply.members,
    }
    if reply.transformations is not None:
        message["input_transformations"] = list(reply.transformations)
    return message


def whole(reply: Reply) -> bytes:
    """The response body of a request that does not stream."""
    usage = {**_usage(reply, reply.output_tokens), **reply.overrides}
    message = _message(reply, [], usage) | {"stop_reason": _stop(reply)}
    content = orjson.Fragment(b"[" + b",".join(_block_text(part) for part in reply.parts) + b"]")
    return orjson.dumps(message | {"content": content})


def _event(kind: str, **members: object) -> bytes:
    data = orjson.dumps({"type": kind, **members})
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def frames(reply: Reply) -> Iterator[Frame]:
    """The events of a stream, from ``message_start`` to ``message_stop``."""
    start_usage = {**_usage(reply, 1), **reply.overrides}
    yield Frame(_event("message_start", message=_message(reply, [], start_usage)))
    for index, part in enumerate(reply.parts):
        yield Frame(_event("content_block_start", index=index, content_block=_opening(part)))
        if index == 0:
            yield Frame(_event("ping"))
        for delta in _deltas(part, reply.chunk):
            yield Frame(_event("content_block_delta", index=index, delta=delta), delta=True)
        yield Frame(_event("content_block_stop", index=index))
    end_usage = {**_usage(reply, reply.output_tokens), **reply.overrides}
    stop = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield Frame(_event("message_delta", delta=stop, usage=end_usage))
    yield Frame(_event("message_stop"))


def _opening(part: Part) -> dict[str, object]:
    if isinstance(part, Say):
        return {"type": "text", "text": ""}
    if isinstance(part, Call):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.signature}
    return {"type": "thinking", "thinking": "", "signature": ""}


def _deltas(part: Part, chunk: int) -> Iterator[dict[str, object]]:
    if isinstance(part, Say):
        for piece in pieces(part.text, chunk):
            yield {"type": "text_delta", "text": piece}
    elif isinstance(part, Call):
        for piece in pieces(part.arguments, chunk):
            yield {"type": "input_json_delta", "partial_json": piece}
    elif not part.redacted:
        for piece in pieces(part.text, chunk):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": part.signature}


def error_body(error: ApiError, request_id: str) -> bytes:
    """The body of an error response."""
    return anthropic_error(error, request_id)


def error_frame(kind: str, message: str) -> bytes:
    """An ``error`` event."""
    return _event("error", error={"type": kind, "message": message})


def response_headers(request_id: str) -> list[tuple[str, str]]:
    """The request's id and the shortest form of the rate limit headers."""
    return [
        ("request-id", request_id),
        ("anthropic-ratelimit-requests-limit", "4000"),
        ("anthropic-ratelimit-requests-remaining", "3999"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
    ]


def reply_id(number: int) -> str:
    """The id of the ``number``-th answer."""
    return f"msg_sim_{number:04d}"


def call_id(number: int) -> str:
    """The id of the ``number``-th tool call."""
    return f"toolu_sim_{number:04d}"
