"""OpenAI Responses, stateless: requests rendered for the cache, answers as items and as events.

Source of every shape: the Responses reference (types of openai 3.57) and its prompt caching guide.
Nothing is stored: an item is known by what the request carries of it, and by nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import orjson

from unipi.sim import openai_checks, openai_responses_checks
from unipi.sim.errors import ApiError, openai_error
from unipi.sim.openai_chat import response_headers as response_headers
from unipi.sim.openai_responses_items import item_blocks, items_of
from unipi.sim.openai_responses_stream import (
    error_frame as error_frame,
    events,
    opening,
    response,
)
from unipi.sim.prompt import Block, Prompt, Section, digest, make_block, tokens_in
from unipi.sim.rules import HOUR
from unipi.sim.script import Part, Think
from unipi.sim.shapes import as_dict, as_list, as_str, dumps, load_object
from unipi.sim.wire import MAX_BODY, Frame, Options, Parsed, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAME = "openai-responses"
PATH = "/v1/responses"
_RETENTIONS = {"24h": 24 * HOUR, "12h": 12 * HOUR}


def parse(body: bytes, headers: Mapping[str, str], options: Options) -> Parsed:
    """Check and render a request.

    Raises:
        ApiError: as the real API would, or for a prompt over the window, which a stream is told
            after a 200.
    """
    if options.strict:
        openai_checks.check_headers(headers)
    if len(body) > MAX_BODY:
        raise ApiError(413, "Request too large")
    request = load_object(body)
    if options.strict:
        openai_responses_checks.check_request(request, options)
    prompt = _render(request)
    stream = request.get("stream") is True
    ends = prompt.ends()
    window = options.context_window
    if window is not None and ends and tokens_in(ends[-1]) > window:
        raise ApiError(
            400,
            "Your input exceeds the context window of this model. Please adjust your input and "
            "try again.",
            param="input",
            code="context_length_exceeded",
            in_stream=opening(as_str(request.get("model"))) if stream else b"",
        )
    cache = as_dict(request.get("prompt_cache_options"))
    return Parsed(
        request, prompt.model, prompt, stream=stream, prewarm=cache.get("prewarm") is True
    )


def _render(request: dict[str, object]) -> Prompt:
    blocks: list[Block] = []
    # The response schema and the tools are rendered before the instructions.
    text = as_dict(request.get("text"))
    if text.get("format") is not None:
        blocks.append(make_block("tools", b"format " + dumps(text["format"]) + b"\n"))
    tools = as_list(request.get("tools"))
    blocks.extend(make_block("tools", b"tool " + dumps(tool) + b"\n") for tool in tools)
    if instructions := as_str(request.get("instructions")):
        blocks.append(make_block("system", b"# instructions " + dumps(instructions) + b"\n"))
    section: Section = "system"
    for item in _input(request):
        if item.get("role") not in ("system", "developer"):
            section = "messages"
        blocks.extend(item_blocks(item, section))
    effort = as_dict(request.get("reasoning")).get("effort")
    settings = [effort, text.get("verbosity"), request.get("service_tier")]
    key = request.get("prompt_cache_key")
    cache = as_dict(request.get("prompt_cache_options"))
    kept = as_str(cache.get("ttl")) or as_str(request.get("prompt_cache_retention"))
    return Prompt(
        as_str(request.get("model")),
        tuple(blocks),
        (dumps(settings), b"", b""),
        key=key if isinstance(key, str) else None,
        explicit_only=cache.get("mode") == "explicit",
        retention=_RETENTIONS.get(kept),
    )


def _input(request: dict[str, object]) -> list[dict[str, object]]:
    given = request.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [as_dict(item) for item in as_list(given)]


def sign(parsed: Parsed, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Encrypt reasoning: it can be read by nobody, and is the same for the same conversation."""
    blocks = parsed.prompt.blocks
    seed = blocks[-1].digest if blocks else b""
    signed: list[Part] = []
    for part in parts:
        if isinstance(part, Think) and part.signature is None:
            seed = digest(seed + part.text.encode())
            part = attrs.evolve(part, signature=f"gAAAAA{seed.hex()}")
        signed.append(part)
    return tuple(signed)


def output_blocks(parts: Sequence[Part]) -> list[Block]:
    """The answer as rendered when it is replayed."""
    return [block for item in items_of(parts, "") for block in item_blocks(item, "messages")]


def whole(reply: Reply) -> bytes:
    """The response body of a request that does not stream."""
    return orjson.dumps(response(reply, items_of(reply.parts, reply.id)))


def frames(reply: Reply) -> Iterator[Frame]:
    """The events of a stream, from ``response.created`` to its end."""
    return events(reply, items_of(reply.parts, reply.id))


def error_body(error: ApiError, request_id: str) -> bytes:
    """The body of an error response."""
    del request_id
    return openai_error(error)


def reply_id(number: int) -> str:
    """The id of the ``number``-th answer."""
    return f"resp_sim_{number:04d}"


def call_id(number: int) -> str:
    """The ids of the ``number``-th tool call: its own, and that of its item behind a bar."""
    return f"call_sim_{number:04d}|fc_sim_{number:04d}"
