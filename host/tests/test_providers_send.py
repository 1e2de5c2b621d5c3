"""Requests over real loopback HTTP: whole answers, faults, cancellation, nothing leaked."""

import logging

import anyio
import attrs
import pytest

from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers import (
    ProviderError,
    Secret,
    StreamDelta,
    Transport,
    api_for,
    request_headers,
    send,
)
from unipi.sim import Answer, Call, Fault, Say, Simulator, Think
from unipi_hookspecs import (
    Model,
    RequestInfo,
    Text,
    Thinking,
    ToolResultMessage,
    UserMessage,
)

MESSAGES = "anthropic-messages"
CHAT = "openai-chat-completions"
APIS = pytest.mark.parametrize("api", [MESSAGES, CHAT])
KEY = "sk-very-secret-0123456789"
TOOL = ToolSpec("read", "Read.", b'{"type":"object"}')


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


def body_of(api, model, history, **spec):
    head = api_for(api).head(HeadSpec(model, ["Be brief."], [TOOL], **spec))
    sent = [fragment for _, fragment in api_for(api).fragments(history, model) if fragment]
    return head.open + (b"," if head.leading else b"") + b",".join(sent) + head.close


class Client:
    """One model at one address, asked with a growing history."""

    def __init__(self, api, url, transport, **changes):
        self.api = api
        self.model = attrs.evolve(
            Model("sim", "claude-sonnet-5", api, url, reasoning=True, max_tokens=4096), **changes
        )
        self.transport = transport
        self.history = [UserMessage("Hello")]
        self.bodies = []
        self.heads = []
        self.deltas = []

    async def ask(self, body=None, *, on_delta=None, secret=KEY, ready=None, sent=None):
        info = RequestInfo(f"req-{len(self.bodies)}", 0, "turn", "sim", self.api, "m", 1)
        self.bodies.append(body or body_of(self.api, self.model, self.history))
        message = await send(
            self.transport,
            self.model,
            self.bodies[-1],
            request_headers(self.model, Secret(secret), info),
            info=info,
            on_response=self.see,
            on_delta=on_delta or self.take,
            ready=ready,
            sent=sent,
            clock_ms=lambda: 1_000,
        )
        self.history.append(message)
        calls = [block for block in message.content if block.type == "toolCall"]
        self.history += [ToolResultMessage(call.id, call.name, [Text("ok")]) for call in calls]
        return message

    async def see(self, status, headers):
        self.heads.append((status, headers))

    async def take(self, delta):
        self.deltas.append(delta)

    async def fails(self, body=None):
        with pytest.raises(ProviderError) as caught:
            await self.ask(body)
        return caught.value


def is_extension(earlier, later):
    return later.startswith(earlier.removesuffix(b"]}") + b",")


@APIS
async def test_an_answer_comes_whole_and_its_pieces_as_they_arrive(api):
    script = [[Think("Hm."), Say("I read 那."), Call("read", {"path": "a"})]]
    sim = Simulator(script)
    async with sim.serve() as url, Transport() as transport:
        client = Client(api, url, transport)
        message = await client.ask()
    thinking, text, call = message.content
    assert thinking.thinking == "Hm."
    assert text == Text("I read 那.")
    assert (call.name, call.arguments, call.arguments_text) == ("read", {"path": "a"}, None)
    assert (message.stop_reason, message.api, message.provider) == ("toolUse", api, "sim")
    assert (message.timestamp, message.usage.output > 0) == (1_000, True)
    assert "".join(d.delta for d in client.deltas if d.index == 1) == "I read 那."
    assert client.deltas[0] == StreamDelta("thinking", 0, "Hm.")
    assert client.heads[0][0] == 200
    (recorded,) = sim.requests
    assert recorded.request_id == "req-0"
    assert recorded.body == client.bodies[0]


@APIS
async def test_argument_text_goes_back_as_it_came_and_the_body_only_grows(api):
    raw = '{"path":  "caf\\u00e9 café", "n": 1.0,\n"m": 1e3, "o": {}, "d": {"k": 1, "k": 2}}'
    sim = Simulator([[Call("read", raw)], [Call("read", "")], [Say("done")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(api, url, transport)
        first = await client.ask()
        await client.ask()
        await client.ask()
    assert first.content[0].arguments_text == raw
    assert first.content[0].arguments["d"] == {"k": 2}
    assert is_extension(*client.bodies[:2])
    assert is_extension(*client.bodies[1:])
    assert [r.status for r in sim.requests] == [200, 200, 200]
    if api == CHAT:
        said = sim.requests[-1].parsed["messages"][2]
        assert said["tool_calls"][0]["function"]["arguments"] == raw
    else:
        assert b'"n":1.0,"m":1e3,"o":{},"d":{"k":1,"k":2}' in client.bodies[-1]


@APIS
@pytest.mark.parametrize("text", ['{"path": "cut', '{"a": 1,}', '"\\U0001F600"', "null", "[]"])
async def test_malformed_arguments_do_not_poison_the_history(api, text):
    sim = Simulator([[Call("read", text)], [Say("sorry")], [Say("still here")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(api, url, transport)
        first = await client.ask()
        await client.ask()
        client.history.append(UserMessage("And now?"))
        await client.ask()
    (call,) = first.content
    assert (call.arguments, call.arguments_text) == ({}, text)
    assert call.problem is not None
    assert is_extension(*client.bodies[1:])


async def test_signed_thinking_survives_replay_under_a_server_that_checks_signatures():
    sim = Simulator(
        [
            [Think("a"), Say("b"), Call("read", {}), Call("read", {})],
            [Think("", redacted=True), Think(""), Call("read", {})],
            [Say("done")],
        ],
        check_thinking=True,
    )
    async with sim.serve() as url, Transport() as transport:
        client = Client(MESSAGES, url, transport)
        for _ in range(3):
            await client.ask()
    redacted, empty, _ = client.history[4].content
    assert redacted.redacted
    assert empty == Thinking("", empty.signature)
    assert empty.signature
    assert is_extension(*client.bodies[1:])


async def test_a_vendor_s_signed_thinking_is_not_sent_to_another_and_comes_back_to_its_own():
    sim = Simulator([[Think("a"), Think("b"), Call("read", {})], [Say("x")]], check_thinking=True)
    async with sim.serve() as url, Transport() as transport:
        first = Client(MESSAGES, url, transport)
        await first.ask()
        other = Simulator([[Say("hello")]], check_thinking=True)
        async with other.serve() as elsewhere:
            second = Client(MESSAGES, elsewhere, transport, provider="other")
            second.history = list(first.history)
            await second.ask()
        await first.ask()
    assert b"signature" not in second.bodies[0]
    assert b"tool_use_id" in second.bodies[0]
    assert is_extension(*first.bodies)


async def test_the_prefix_is_read_from_the_cache_at_the_next_request():
    sim = Simulator([[Call("read", {})], [Say("done")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(MESSAGES, url, transport)
        client.history = [UserMessage("word " * 2_000)]
        first = await client.ask()
        second = await client.ask()
    assert first.usage.cache_read == 0
    assert second.usage.cache_read == first.usage.prompt


async def test_an_answer_that_is_not_streamed_is_read_all_the_same():
    sim = Simulator([[Say("hi"), Call("read", '{ "n": 1e3 }')]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(MESSAGES, url, transport)
        whole = body_of(MESSAGES, client.model, client.history).replace(
            b'"stream":true', b'"stream":false'
        )
        message = await client.ask(whole)
    assert message.content[0] == Text("hi")
    assert message.content[1].arguments_text == '{ "n": 1e3 }'


@APIS
async def test_usage_that_is_not_reported_is_unknown_not_zero(api):
    sim = Simulator([[Say("hi")]], report_cache=False)
    async with sim.serve() as url, Transport() as transport:
        message = await Client(api, url, transport).ask()
    assert message.usage.cache_read is None
    assert message.usage.cache_write is None


# ---- faults


@APIS
async def test_a_rate_limit_says_how_long_to_wait(api):
    fault = Fault(status=429, headers={"retry-after": "2"}, message="slowly")
    sim = Simulator([fault, [Say("ok")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(api, url, transport)
        error = await client.fails()
        await client.ask(client.bodies[0])
    assert (error.kind, error.status, error.retryable) == ("rate_limit", 429, True)
    assert (error.retry_after, error.partial) == (2.0, None)
    assert error.request_id
    assert "slowly" in str(error)
    assert client.heads[0][0] == 429
    assert sim.requests[0].body == sim.requests[1].body


@APIS
async def test_a_prompt_that_does_not_fit_is_an_overflow(api):
    sim = Simulator([[Say("never")]], context_window=10)
    async with sim.serve() as url, Transport() as transport:
        error = await Client(api, url, transport).fails()
    assert (error.kind, error.retryable) == ("overflow", False)


CUT_ANSWER = Answer([Say("one two three"), Call("read", {"path": "a"})], chunk=4)


@APIS
async def test_a_stream_that_is_cut_gives_what_had_come_and_no_answer(api):
    sim = Simulator([Fault(cut=True, after=5, answer=CUT_ANSWER), [Say("whole")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(api, url, transport)
        error = await client.fails()
        message = await client.ask(client.bodies[0])
    assert error.kind in {"stream", "network"}
    assert error.retryable
    assert error.partial.stop_reason == "error"
    assert error.partial.error_message == error.message
    assert error.partial.content[0] == Text("one two three")
    assert message.content == (Text("whole"),)


@APIS
async def test_an_error_event_in_a_running_stream_is_an_error(api):
    fault = Fault(stream_error=("overloaded_error", "Overloaded"), after=2, answer=CUT_ANSWER)
    sim = Simulator([fault])
    async with sim.serve() as url, Transport() as transport:
        error = await Client(api, url, transport).fails()
    assert (error.kind, error.retryable, error.status) == ("overloaded", True, 200)
    assert error.partial.content[0] == Text("one two ")


@APIS
async def test_a_silent_stream_times_out(api):
    sim = Simulator([Fault(stall=True, after=1, answer=CUT_ANSWER)])
    async with sim.serve() as url, Transport(idle_timeout=0.05) as transport:
        error = await Client(api, url, transport).fails()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "silent" in error.message
    assert error.partial.content == (Text("one "),)


async def test_an_answer_that_never_begins_times_out():
    async with listening(lambda stream: stream.receive()) as url:
        async with Transport(first_byte_timeout=0.05) as transport:
            error = await Client(MESSAGES, url, transport).fails()
    assert (error.kind, error.retryable, error.partial) == ("timeout", True, None)


async def test_time_that_the_listener_takes_is_not_the_provider_s_silence():
    async def slow(_delta):
        await anyio.sleep(0.15)

    sim = Simulator([[Say("hi")]])
    async with sim.serve() as url, Transport(idle_timeout=0.1) as transport:
        message = await Client(CHAT, url, transport).ask(on_delta=slow)
    assert message.content == (Text("hi"),)


async def test_a_connection_dropped_without_a_word_is_a_network_error():
    sim = Simulator([Fault(drop=True)])
    async with sim.serve() as url, Transport() as transport:
        error = await Client(MESSAGES, url, transport).fails()
    assert (error.kind, error.retryable, error.status) == ("network", True, None)


async def test_a_server_that_is_not_there_is_named():
    async with Transport() as transport:
        error = await Client(CHAT, "http://127.0.0.1:9", transport).fails()
    assert (error.kind, error.retryable) == ("network", True)
    assert "http://127.0.0.1:9" in error.message


async def test_a_credential_in_an_address_is_not_shown():
    async with Transport() as transport:
        error = await Client(CHAT, f"http://me:{KEY}@127.0.0.1:9/v1?key={KEY}", transport).fails()
    assert "http://127.0.0.1:9/v1" in error.message
    assert KEY not in f"{error!r} {error.__cause__!r}"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:8080", "http://"])
async def test_an_address_that_is_none_is_not_tried_again(url):
    async with Transport() as transport:
        error = await Client(CHAT, url, transport).fails()
    assert (error.kind, error.retryable) == ("invalid", False)


# ---- servers that are not quite right


def listening(answer):
    return _Listening(answer)


class _Listening:
    """A server that reads a request and does with the connection what the test says."""

    def __init__(self, answer):
        self._answer = answer
        self.closed = anyio.Event()

    async def __aenter__(self):
        self._group = await anyio.create_task_group().__aenter__()
        self._listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = self._listener.extra(anyio.abc.SocketAttribute.local_port)
        self._group.start_soon(self._listener.serve, self._handle)
        return f"http://127.0.0.1:{port}"

    async def __aexit__(self, *error):
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)  # the test's own error stays as it is
        await self._listener.aclose()

    async def _handle(self, stream):
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request or not request.endswith(b"]}"):
                request += await stream.receive()
            try:
                await self._answer(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.closed.set()


def reply(*pieces, kind="text/event-stream", status="200 OK", length=None):
    async def answer(stream):
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n"
        head += f"content-length: {length}\r\n\r\n" if length else "connection: close\r\n\r\n"
        await stream.send(head.encode())
        for piece in pieces:
            await stream.send(piece)

    return answer


CHUNK = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":%s}]}\n\n'


async def ask(api, answer, **timeouts):
    async with listening(answer) as url, Transport(**timeouts) as transport:
        return await Client(api, url, transport).ask()


async def test_a_server_that_never_says_done_is_understood():
    message = await ask(CHAT, reply(CHUNK % b'"stop"'))
    assert message.content == (Text("hi"),)


async def test_a_complete_answer_stands_though_the_connection_is_torn_after_it():
    message = await ask(CHAT, reply(CHUNK % b'"stop"', b"data: [DONE]\n\n", length=9_999))
    assert message.content == (Text("hi"),)


async def test_a_stream_that_just_ends_is_no_answer():
    with pytest.raises(ProviderError, match="ended before") as caught:
        await ask(CHAT, reply(CHUNK % b"null"))
    assert caught.value.partial.content == (Text("hi"),)


async def test_a_web_page_is_no_answer():
    with pytest.raises(ProviderError, match="base_url") as caught:
        await ask(CHAT, reply(b"<html>Sign in</html>", kind="Text/HTML"))
    assert not caught.value.retryable


async def test_an_error_page_is_quoted_bounded():
    page = reply(b"<h1>Bad</h1>" + b"x" * 9_000, kind="text/html", status="502 Bad Gateway")
    with pytest.raises(ProviderError, match="<h1>Bad</h1>") as caught:
        await ask(CHAT, page)
    assert (caught.value.kind, len(str(caught.value)) < 600) == ("server", True)


async def test_one_character_a_packet_reads_the_same():
    stream = 'data: {"choices":[{"delta":{"content":"那👩‍💻"},"finish_reason":"stop"}]}\r\n\r\n'
    pieces = [bytes([b]) for b in stream.encode()]
    message = await ask(CHAT, reply(*pieces, b"data: [DONE]\r\n\r\n"))
    assert message.content == (Text("那👩‍💻"),)


# ---- cancellation, secrets, connections


async def test_cancelling_in_mid_stream_closes_the_connection_at_once():
    heard = anyio.Event()

    async def answer(stream):
        await reply(CHUNK % b"null")(stream)
        await stream.receive()  # ends when the client goes away

    async def first(_delta):
        heard.set()

    server = listening(answer)
    async with server as url, Transport() as transport:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: Client(CHAT, url, transport).ask(on_delta=first))
                await heard.wait()
                group.cancel_scope.cancel()
            await server.closed.wait()


async def test_cancelling_while_a_piece_is_handed_on_leaves_nothing_behind():
    sim = Simulator([Answer([Say("a" * 400)], chunk=1), [Say("next")]])
    async with sim.serve() as url, Transport() as transport:
        client = Client(MESSAGES, url, transport)
        with anyio.CancelScope() as scope:

            async def stop(_delta):
                scope.cancel()
                await anyio.sleep_forever()

            await client.ask(on_delta=stop)
        assert scope.cancelled_caught
        assert (await client.ask()).content == (Text("next"),)


async def test_a_listener_that_fails_is_not_taken_for_the_provider():
    async def broken(_delta):
        raise KeyError("mine")

    sim = Simulator([[Say("hi")]])
    async with sim.serve() as url, Transport() as transport:
        with pytest.raises(KeyError, match="mine"):
            await Client(CHAT, url, transport).ask(on_delta=broken)


@APIS
async def test_a_key_that_the_server_echoes_never_reaches_the_error(api, caplog):
    caplog.set_level(logging.DEBUG)
    fault = Fault(status=401, message=f"Incorrect API key provided: {KEY}.")
    sim = Simulator([fault])
    async with sim.serve() as url, Transport() as transport:
        error = await Client(api, url, transport).fails()
    assert error.kind == "auth"
    assert KEY not in f"{error} {error!r} {error.args} {error.__cause__!r}"
    assert "[redacted]" in error.message
    assert KEY not in caplog.text


async def test_a_header_that_http_cannot_carry_is_not_quoted():
    async with listening(reply()) as url, Transport() as transport:
        client = Client(CHAT, url, transport, headers={"x-team-token": f"{KEY}\n"})
        error = await client.fails()
    assert (error.kind, error.retryable) == ("invalid", False)
    assert KEY not in f"{error!r} {error.__cause__!r}"


async def test_requests_of_a_session_share_one_connection():
    accepted = []

    async def serve(stream):
        accepted.append(stream)
        while True:
            data = CHUNK % b'"stop"' + b"data: [DONE]\n\n"
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: "
            await stream.send(f"{head}{len(data)}\r\n\r\n".encode() + data)
            request = b""
            while not request.endswith(b"]}"):
                request += await stream.receive()

    async with listening(serve) as url, Transport() as transport:
        client = Client(CHAT, url, transport)
        for _ in range(3):
            await client.ask(body_of(CHAT, client.model, client.history))
    assert len(accepted) == 1


async def test_a_request_after_the_server_closed_its_idle_connection_goes_through():
    data = CHUNK % b'"stop"'
    async with listening(reply(data, length=len(data))) as url, Transport() as transport:
        client = Client(CHAT, url, transport)
        await client.ask()
        await anyio.sleep(0.02)  # the close has to reach this end
        assert (await client.ask()).content == (Text("hi"),)


async def test_a_connection_that_is_closed_as_it_is_taken_up_is_replaced_and_nothing_done_twice():
    """The race that no look at the socket can win: no word of an answer, so it is sent again."""
    data = CHUNK % b'"stop"' + b"data: [DONE]\n\n"
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    head += f"content-length: {len(data)}\r\n\r\n"
    accepted = []

    async def serve(stream):
        accepted.append(stream)
        await stream.send(head.encode() + data)
        if len(accepted) == 1:
            await stream.receive()  # the second request begins to arrive, and the server hangs up
            return
        await stream.receive()

    done = []

    async def sent():
        done.append("sent")

    async with listening(serve) as url, Transport() as transport:
        client = Client(CHAT, url, transport)
        await client.ask()
        moments = {"ready": lambda: done.append("ready"), "sent": sent}
        assert (await client.ask(**moments)).content == (Text("hi"),)
    assert len(accepted) == 2
    assert done == ["ready", "sent"]


async def test_a_connection_is_not_taken_up_when_its_server_said_it_would_be_gone():
    data = CHUNK % b'"stop"' + b"data: [DONE]\n\n"
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nkeep-alive: timeout=1, max=9\r\n"
    head += f"content-length: {len(data)}\r\n\r\n"
    accepted = []

    async def serve(stream):
        accepted.append(stream)
        await stream.send(head.encode() + data)
        await stream.receive()

    async with listening(serve) as url, Transport() as transport:
        client = Client(CHAT, url, transport)
        await client.ask()
        await anyio.sleep(0.01)
        await client.ask()
    assert len(accepted) == 2


@pytest.mark.parametrize(
    ("api", "base", "url"),
    [
        (MESSAGES, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        (CHAT, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        (CHAT, "https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/chat/completions"),
        (CHAT, "http://127.0.0.1:80", "http://127.0.0.1:80/v1/chat/completions"),
        (CHAT, "https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
    ],
)
def test_the_address_is_the_base_s_with_a_version_where_it_has_none(api, base, url):
    assert api_for(api).url(Model("p", "m", api, base)) == url


def test_an_unknown_api_is_named_with_those_there_are():
    with pytest.raises(LookupError, match="anthropic-messages"):
        api_for("smoke-signals")
