"""The seam between the HTTP server and the wire APIs: one module per API implements `WireApi`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unipi.sim.anthropic_diagnosis import Question
    from unipi.sim.cache import Hit
    from unipi.sim.errors import ApiError
    from unipi.sim.prompt import Block, Prompt
    from unipi.sim.rules import Profile
    from unipi.sim.script import Part

MAX_BODY = 32 * 1024 * 1024


@attrs.frozen
class Options:
    """What a simulator checks.

    Attributes:
        profile: the cache rules, and what else differs by provider.
        strict: refuse what the real API refuses.
        check_thinking: refuse replayed thinking blocks whose prefix changed.
        check_arguments: refuse stored tool-call arguments that are not a JSON object.
        context_window: tokens the model can take, or None for no limit.
        report_cache: put cache fields into usage.
        system_messages: (Anthropic) take system messages in mid-conversation where the model does.
    """

    profile: Profile
    strict: bool = True
    check_thinking: bool = False
    check_arguments: bool = True
    context_window: int | None = None
    report_cache: bool = True
    system_messages: bool = False


@attrs.frozen
class Parsed:
    """An accepted request.

    Attributes:
        request: the parsed body.
        model: its model.
        prompt: as rendered for the cache.
        stream: answer as server-sent events.
        include_usage: a stream ends with usage.
        prewarm: fill the cache and generate nothing.
        signing: the state from which thinking in the answer is signed; empty where not used.
        last_signature: the last thinking signature in the request.
        transformations: thinking blocks left out, as the response reports them; None: not reported.
        question: what the request asks about the one before it, if anything.
    """

    request: dict[str, object]
    model: str
    prompt: Prompt
    stream: bool = False
    include_usage: bool = True
    prewarm: bool = False
    signing: bytes = b""
    last_signature: str | None = None
    transformations: tuple[dict[str, object], ...] | None = None
    question: Question | None = None


@attrs.frozen
class Reply:
    """An answer ready to be put on the wire: every call has its id, every thought its signature.

    `members` are further members of the message.
    """

    id: str
    model: str
    parts: tuple[Part, ...]
    stop: str | None
    hit: Hit
    output_tokens: int
    options: Options
    created: int = 0
    chunk: int = 7
    include_usage: bool = True
    overrides: Mapping[str, object] = attrs.field(factory=dict)
    transformations: tuple[dict[str, object], ...] | None = None
    members: Mapping[str, object] = attrs.field(factory=dict)


class Frame(NamedTuple):
    """One server-sent event; ``delta`` says whether it carries content of the answer."""

    data: bytes
    delta: bool = False


class WireApi(Protocol):
    """One wire API. Modules implement it with functions of these names."""

    NAME: str
    PATH: str

    def parse(self, body: bytes, headers: Mapping[str, str], options: Options) -> Parsed:
        """Check and render a request body. Raises `ApiError`."""

    def sign(self, parsed: Parsed, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Give the answer's thinking blocks their signatures."""

    def output_blocks(self, parts: Sequence[Part]) -> list[Block]:
        """The answer as it will be rendered when it is replayed."""

    def whole(self, reply: Reply) -> bytes:
        """The response body of a request that does not stream."""

    def frames(self, reply: Reply) -> Iterator[Frame]:
        """The events of a stream."""

    def error_body(self, error: ApiError, request_id: str) -> bytes:
        """The body of an error response."""

    def error_frame(self, kind: str, message: str) -> bytes:
        """An error event on a stream that began with 200."""

    def response_headers(self, request_id: str) -> list[tuple[str, str]]:
        """Headers of every response."""

    def reply_id(self, number: int) -> str:
        """The id of the ``number``-th answer."""

    def call_id(self, number: int) -> str:
        """The id of the ``number``-th tool call."""


def pieces(text: str, size: int) -> Iterator[str]:
    """``text`` in parts of ``size`` characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
