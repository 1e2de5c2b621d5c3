"""The simulator: a script, a cache rule and a clock behind three wire APIs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio.from_thread
import attrs

from unipi.sim import anthropic, openai_chat, openai_responses
from unipi.sim.anthropic_diagnosis import Comparisons
from unipi.sim.cache import Hit, make_cache
from unipi.sim.clock import Clock, Timer
from unipi.sim.errors import ApiError, status_of_type
from unipi.sim.prompt import size_of, tokens_in
from unipi.sim.rules import PROFILES, Profile
from unipi.sim.script import Answer, Call, Fault, Part, Say, Script, ScriptError, next_step
from unipi.sim.shapes import dumps, load_object
from unipi.sim.tokens import Tokenizer, token_blocks
from unipi.sim.wire import Frame, Options, Parsed, Reply, WireApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unipi.sim.prompt import Block

APIS: Mapping[str, WireApi] = {api.PATH: api for api in (anthropic, openai_chat, openai_responses)}
MODELS_PATH = "/v1/models"
# What the type files of anthropic 2.14 require of a listed model; an epoch stands for "unknown".
_ANTHROPIC_MODEL = {
    "type": "model",
    "created_at": "1970-01-01T00:00:00Z",
    "lifecycle": "active",
}
# What a cut or stalled stream begins with when its fault names no answer.
_CUT_SHORT = Answer((Say("The beginning of an answer that is never finished."),))

Ending: TypeAlias = Literal["end", "cut", "stall", "drop"]


@attrs.frozen
class Recorded:
    """One request to a wire API, as it arrived and as it was answered.

    Attributes:
        api: "anthropic-messages", "openai-chat-completions" or "openai-responses".
        path: the request's path, query included.
        headers: by lower-case name.
        body: the raw bytes; empty when the simulator keeps no bodies.
        status: HTTP status of the response; 0 when the connection was dropped without one.
        prompt_tokens, cached_tokens, written_tokens: by the profile's rule; 0 when refused.
        at: clock seconds at arrival.
        model: the model asked for, "" when the body could not be read.
        request_id: the ``x-client-request-id`` header, or None.
        streamed: whether a stream was asked for.
        answer_index: the number of the script step used, or None.
        error: why it was refused, or None.
    """

    api: str
    path: str
    headers: Mapping[str, str]
    body: bytes = attrs.field(repr=False)
    status: int
    at: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    model: str = ""
    request_id: str | None = None
    streamed: bool = False
    answer_index: int | None = None
    error: str | None = None

    @property
    def parsed(self) -> dict[str, object]:
        """The body as an object, read anew at each access (bodies are large, and kept once).

        Raises:
            ApiError: the body is no JSON object.
        """
        return load_object(self.body)


def _nothing() -> None:
    return None


@attrs.frozen
class Exchange:
    """What the HTTP server is to send.

    Attributes:
        status: HTTP status.
        headers: in order.
        body: a whole body; unused when there are frames.
        frames: the events of a stream, or None.
        ending: how it ends: properly, cut, stalled, or dropped before anything is sent.
        after: deltas sent before a cut or a stall.
        delay: seconds between deltas.
        began: to be called before the first byte.
        finished: to be called before the last byte.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    frames: Iterator[Frame] | None = None
    ending: Ending = "end"
    after: int | None = None
    delay: float = 0.0
    began: Callable[[], None] = _nothing
    finished: Callable[[], None] = _nothing


class Simulator:
    """A model provider whose answers are scripted and whose cache follows documented rules.

    Args:
        script: steps consumed one per accepted request, or a callable ``(request, index)``.
        profile: a name in `PROFILES`, or a profile of your own.
        clock: time for the cache; a `Clock` that stands at 0.0 by default.
        strict: refuse what the real API refuses, with its status and words.
        repeat_last: go on with the last step when the list is exhausted (else a 500).
        check_thinking: refuse replayed thinking blocks whose prefix changed.
        check_arguments: (chat) refuse stored arguments that are not a JSON object.
        context_window: tokens of prompt the model takes, or None.
        report_cache: put cache fields into usage.
        system_messages: (Anthropic) take system messages in mid-conversation, on the models that
            do; otherwise they are refused.
        models: names served; None accepts any.
        keep_bodies: keep each request's raw body in `requests`.
        tokens: counts in place of four bytes a token; for rules of the kind "prefix" alone, since
            its tokens know no markers.

    Raises:
        ValueError: ``profile`` is not known, or does not go with ``tokens``.
    """

    def __init__(
        self,
        script: Script,
        *,
        profile: str | Profile = "anthropic",
        clock: Timer | None = None,
        strict: bool = True,
        repeat_last: bool = False,
        check_thinking: bool = False,
        check_arguments: bool = True,
        context_window: int | None = None,
        report_cache: bool = True,
        system_messages: bool = False,
        models: Sequence[str] | None = None,
        keep_bodies: bool = True,
        tokens: Tokenizer | None = None,
    ) -> None:
        if isinstance(profile, str):
            if profile not in PROFILES:
                raise ValueError(f"no cache profile {profile!r}; known: {', '.join(PROFILES)}")
            profile = PROFILES[profile]
        if tokens is not None and profile.kind != "prefix":
            raise ValueError(f"the cache profile {profile.name!r} needs the simulator's own tokens")
        self.requests: list[Recorded] = []
        self.clock: Timer = clock or Clock()
        self.options = Options(
            profile,
            strict,
            check_thinking,
            check_arguments,
            context_window,
            report_cache,
            system_messages,
        )
        self._script = script
        self._repeat_last = repeat_last
        self._models = None if models is None else tuple(models)
        self._keep_bodies = keep_bodies
        self._tokens = tokens
        self._cache = make_cache(profile)
        self._comparisons = Comparisons()
        self._accepted = 0
        self._calls = 0
        self._arrived = 0

    def serve(self) -> AbstractAsyncContextManager[str]:
        """Serve on a free loopback port in the running event loop; gives the base URL."""
        from unipi.sim.server import serve

        return serve(self.exchange)

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Exchange:
        """Decide how one HTTP request is answered. No I/O happens here."""
        path = target.partition("?")[0]
        self._arrived += 1
        request_id = f"req_sim_{self._arrived:04d}"
        if path == MODELS_PATH and method == "GET":
            return self._list_models(headers)
        api = APIS.get(path)
        if api is None or method != "POST":
            status = 404 if api is None else 405
            shape = anthropic if "anthropic-version" in headers else openai_chat
            return _refusal(
                shape, ApiError(status, f"Not found: {method} {path}", code="not_found"), request_id
            )
        record = Recorded(
            api.NAME,
            target,
            dict(headers),
            body if self._keep_bodies else b"",
            200,
            self.clock.now(),
            request_id=headers.get("x-client-request-id"),
        )
        return self._answer(api, record, body, request_id)

    def _answer(self, api: WireApi, record: Recorded, body: bytes, request_id: str) -> Exchange:
        try:
            parsed = api.parse(body, record.headers, self.options)
            record = attrs.evolve(record, model=parsed.model, streamed=parsed.stream)
            self._check_model(parsed.model)
            if parsed.prewarm:
                step: Answer | Fault = Answer(stop="max_tokens")
            else:
                record = attrs.evolve(record, answer_index=self._accepted)
                step = self._next_step(parsed)
        except ApiError as error:
            status = 200 if error.in_stream else error.status
            self.requests.append(attrs.evolve(record, status=status, error=error.message))
            return _refusal(api, error, request_id)
        if isinstance(step, Fault) and (step.status is not None or step.drop):
            return self._fail(api, record, step, request_id)
        prompt = parsed.prompt
        if self._tokens is not None:
            prompt = attrs.evolve(prompt, blocks=token_blocks(self._tokens.prompt(parsed.request)))
        hit = self._cache.look_up(prompt, record.at)
        self.requests.append(
            attrs.evolve(
                record,
                prompt_tokens=hit.prompt,
                cached_tokens=hit.cached,
                written_tokens=hit.written,
            )
        )
        if isinstance(step, Answer):
            return self._reply(api, parsed, step, hit, request_id)
        return self._broken(api, parsed, step, hit, request_id)

    def _check_model(self, model: str) -> None:
        if self._models is not None and model not in self._models:
            raise ApiError(404, f"The model `{model}` does not exist.", code="model_not_found")

    def _next_step(self, parsed: Parsed) -> Answer | Fault:
        index = self._accepted
        self._accepted += 1
        try:
            return next_step(self._script, parsed.request, index, repeat_last=self._repeat_last)
        except ScriptError as exc:
            raise ApiError(500, str(exc)) from exc

    def _fail(self, api: WireApi, record: Recorded, fault: Fault, request_id: str) -> Exchange:
        status = fault.status or 0
        self.requests.append(attrs.evolve(record, status=status, error=fault.message))
        if fault.drop:
            return Exchange(0, ending="drop")
        error = ApiError(status, fault.message, fault.type, code=fault.code, headers=fault.headers)
        return _refusal(api, error, request_id)

    def _parts(self, parts: Sequence[Part], api: WireApi) -> list[Part]:
        named: list[Part] = []
        for part in parts:
            if isinstance(part, Call) and part.id is None:
                self._calls += 1
                named.append(attrs.evolve(part, id=api.call_id(self._calls)))
            else:
                named.append(part)
        return named

    def _output(self, api: WireApi, parts: Sequence[Part]) -> Sequence[Block]:
        if self._tokens is not None:
            return token_blocks(self._tokens.answer(parts))
        return api.output_blocks(parts) if parts else []

    def _make_reply(self, api: WireApi, parsed: Parsed, answer: Answer, hit: Hit) -> Reply:
        parts = api.sign(parsed, self._parts(answer.parts, api))
        output_tokens = tokens_in(size_of(self._output(api, parts)))
        window = self.options.context_window
        full = window is not None and hit.prompt + output_tokens > window
        reply_id = api.reply_id(len(self.requests))
        members: dict[str, object] = {}
        if parsed.question is not None:
            members["diagnostics"] = self._comparisons.answer(parsed.question, reply_id)
        return Reply(
            reply_id,
            parsed.model,
            parts,
            answer.stop or ("model_context_window_exceeded" if full else None),
            hit,
            output_tokens,
            self.options,
            created=int(self.clock.now()),
            chunk=answer.chunk,
            include_usage=parsed.include_usage,
            overrides=answer.usage_overrides or {},
            transformations=parsed.transformations,
            members=members,
        )

    def _reply(
        self, api: WireApi, parsed: Parsed, answer: Answer, hit: Hit, request_id: str
    ) -> Exchange:
        reply = self._make_reply(api, parsed, answer, hit)

        def finished() -> None:
            hit.finish(self._output(api, reply.parts))

        exchange = Exchange(
            200,
            tuple(api.response_headers(request_id)),
            delay=answer.delay,
            began=hit.begin,
            finished=finished,
        )
        if parsed.stream:
            return attrs.evolve(exchange, frames=api.frames(reply))
        return attrs.evolve(exchange, body=api.whole(reply))

    def _broken(
        self, api: WireApi, parsed: Parsed, fault: Fault, hit: Hit, request_id: str
    ) -> Exchange:
        answer = fault.answer or _CUT_SHORT
        reply = self._make_reply(api, parsed, answer, hit)
        headers = tuple(api.response_headers(request_id))
        if fault.stream_error is not None:
            kind, message = fault.stream_error
            if not parsed.stream:
                return _refusal(api, ApiError(status_of_type(kind), message, kind), request_id)
            frames = _with_error(api, reply, fault.after, fault.stream_error)
            return Exchange(200, headers, frames=frames, delay=answer.delay, began=hit.begin)
        exchange = Exchange(
            200,
            headers,
            ending="stall" if fault.stall else "cut",
            after=fault.after,
            delay=answer.delay,
            began=hit.begin,
        )
        if parsed.stream:
            return attrs.evolve(exchange, frames=api.frames(reply))
        return attrs.evolve(exchange, body=api.whole(reply))

    def _list_models(self, headers: Mapping[str, str]) -> Exchange:
        names = self._models if self._models is not None else ("sim",)
        if "anthropic-version" in headers:
            models = [{**_ANTHROPIC_MODEL, "id": name, "display_name": name} for name in names]
            listing: dict[str, object] = {"data": models, "has_more": False}
            listing |= {"first_id": next(iter(names), None), "last_id": next(reversed(names), None)}
        else:
            data = [{"id": n, "object": "model", "created": 0, "owned_by": "sim"} for n in names]
            listing = {"object": "list", "data": data}
        return Exchange(200, (), body=dumps(listing))


def _refusal(api: WireApi, error: ApiError, request_id: str) -> Exchange:
    headers = (*api.response_headers(request_id), *error.headers.items())
    if error.in_stream:
        told = Frame(error.in_stream + api.error_frame(error.code or "", error.message))
        return Exchange(200, headers, frames=iter([told]))
    return Exchange(error.status, headers, body=api.error_body(error, request_id))


def _with_error(api: WireApi, reply: Reply, after: int, error: tuple[str, str]) -> Iterator[Frame]:
    yield from until_delta(api.frames(reply), after)
    yield Frame(api.error_frame(*error))


def until_delta(frames: Iterator[Frame], after: int) -> Iterator[Frame]:
    """The frames up to and including the ``after``-th delta, and none behind the last delta."""
    held: list[Frame] = []
    sent = 0
    for frame in frames:
        if not frame.delta:
            held.append(frame)
            continue
        yield from held
        held.clear()
        if sent == after:
            return
        sent += 1
        yield frame
        if sent == after:
            return


@contextmanager
def run_simulator(sim: Simulator, *, backend: str = "asyncio") -> Iterator[str]:
    """Serve a simulator from a thread of its own, for synchronous tests and subprocesses.

    Args:
        sim: what to serve.
        backend: the event loop in that thread, "asyncio" or "trio".
    """
    with (
        anyio.from_thread.start_blocking_portal(backend) as portal,
        portal.wrap_async_context_manager(sim.serve()) as base_url,
    ):
        yield base_url
