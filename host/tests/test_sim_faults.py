"""What goes wrong on the wire: refusals by status, stalls, cuts, drops, error events; both loops."""

import anyio
import pytest

from unipi.sim import Answer, Clock, Fault, Say, Simulator, run_simulator
from unipi.sim.raw import CHAT, MESSAGES, send

USER = [{"role": "user", "content": "q"}]
BODY = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": USER}
STREAMED = {**BODY, "stream": True}
CHAT_STREAMED = {"model": "m", "messages": USER, "stream": True}
LETTERS = Answer([Say("abcdef")], chunk=1)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def in_thread(*args, **kwargs):
    return await anyio.to_thread.run_sync(lambda: send(*args, **kwargs))


async def test_an_error_status_has_the_given_type_message_and_headers(anyio_backend):
    fault = Fault(status=429, type="rate_limit_error", message="slow", headers={"retry-after": "2"})
    async with Simulator([fault, fault]).serve() as url:
        anthropic = await in_thread(url, MESSAGES, BODY)
        chat = await in_thread(url, CHAT, CHAT_STREAMED)
    assert anthropic.status == chat.status == 429
    assert anthropic.headers["retry-after"] == "2"
    assert anthropic.json()["error"] == {"type": "rate_limit_error", "message": "slow"}
    assert anthropic.json()["request_id"] == anthropic.headers["request-id"]
    assert chat.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_status_alone_takes_the_documented_type(anyio_backend):
    async with Simulator([Fault(status=529), Fault(status=500)]).serve() as url:
        assert (await in_thread(url, MESSAGES, BODY)).json()["error"]["type"] == "overloaded_error"
        assert (await in_thread(url, CHAT, CHAT_STREAMED)).json()["error"]["type"] == "server_error"


@pytest.mark.parametrize(("path", "body"), [(MESSAGES, STREAMED), (CHAT, CHAT_STREAMED)])
async def test_a_cut_stream_ends_after_n_deltas_without_its_end(anyio_backend, path, body):
    async with Simulator([Fault(cut=True, after=3, answer=LETTERS)]).serve() as url:
        response = await in_thread(url, path, body)
    assert not response.complete
    sent = [e for e in response.events() if b'"text_delta"' in e.data or b'"content":"' in e.data]
    assert len(sent) == 3
    assert b"stop" not in response.body.replace(b"stop_", b"")
    assert b"[DONE]" not in response.body


async def test_a_cut_before_the_first_delta_still_opens_the_stream(anyio_backend):
    async with Simulator([Fault(cut=True)]).serve() as url:
        response = await in_thread(url, MESSAGES, STREAMED)
    assert [e.name for e in response.events()][:2] == ["message_start", "content_block_start"]
    assert b"content_block_delta" not in response.body


async def test_a_cut_answer_that_does_not_stream_is_half_a_body(anyio_backend):
    async with Simulator([Fault(cut=True)]).serve() as url:
        response = await in_thread(url, MESSAGES, BODY)
    assert response.status == 200
    assert not response.complete


@pytest.mark.parametrize("body", [STREAMED, BODY])
async def test_a_stall_keeps_silent_until_the_client_goes_away(anyio_backend, body):
    sim = Simulator([Fault(stall=True, after=2, answer=LETTERS), Say("on")])
    async with sim.serve() as url:
        with pytest.raises(TimeoutError):
            await in_thread(url, MESSAGES, body, timeout=0.1)
        assert (await in_thread(url, MESSAGES, BODY)).status == 200


async def test_the_server_closes_although_a_stream_is_stalled(anyio_backend):
    arrived = anyio.Event()
    responses = []

    def script(request, index):
        arrived.set()
        return Fault(stall=True, after=0)

    async def ask(url):
        responses.append(await in_thread(url, MESSAGES, STREAMED))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            async with Simulator(script).serve() as url:
                tasks.start_soon(ask, url)
                await arrived.wait()
                await anyio.sleep(0.02)
    assert not responses[0].complete


async def test_a_dropped_connection_gives_no_response_at_all(anyio_backend):
    sim = Simulator([Fault(drop=True)])
    async with sim.serve() as url:
        with pytest.raises(ConnectionError):
            await in_thread(url, MESSAGES, BODY)
    assert sim.requests[0].status == 0


async def test_an_error_event_comes_on_a_200_stream(anyio_backend):
    fault = Fault(stream_error=("overloaded_error", "Overloaded"), after=2, answer=LETTERS)
    async with Simulator([fault, fault, fault]).serve() as url:
        anthropic = await in_thread(url, MESSAGES, STREAMED)
        chat = await in_thread(url, CHAT, CHAT_STREAMED)
        whole = await in_thread(url, MESSAGES, BODY)
    assert anthropic.status == chat.status == 200
    last = anthropic.events()[-1]
    assert last.name == "error"
    assert last.json()["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert b"message_stop" not in anthropic.body
    assert chat.events()[-1].json()["error"]["message"] == "Overloaded"
    assert whole.status == 529


async def test_deltas_can_be_paced(anyio_backend):
    answer = Answer([Say("abc")], chunk=1, delay=0.01)
    async with Simulator([answer]).serve() as url:
        before = anyio.current_time()
        await in_thread(url, MESSAGES, STREAMED)
        assert anyio.current_time() - before >= 0.03


async def test_connections_are_kept_alive_and_served_side_by_side(anyio_backend):
    import http.client

    def many(url):
        host, port = url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        statuses = []
        socket = None
        for _ in range(5):
            headers = {"authorization": "k"}
            body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}'
            connection.request("POST", CHAT, body, headers)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            assert socket in (None, connection.sock)
            socket = connection.sock
        connection.close()
        return statuses

    async with (
        Simulator([Say("x")], repeat_last=True).serve() as url,
        anyio.create_task_group() as tg,
    ):
        for _ in range(4):
            tg.start_soon(anyio.to_thread.run_sync, many, url)


async def test_what_is_not_http_gets_a_400_and_the_server_goes_on(anyio_backend):
    async with Simulator([Say("x")]).serve() as url:
        port = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"\x00\x01 nonsense\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 400")
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(
                b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"
            )
        assert (await in_thread(url, MESSAGES, BODY)).status == 200


async def test_a_failure_in_the_body_of_serve_comes_out_as_itself(anyio_backend):
    with pytest.raises(KeyError, match="mine"):
        async with Simulator([]).serve():
            raise KeyError("mine")


def test_the_threaded_server_runs_on_either_loop(anyio_backend):
    clock = Clock(5.0)
    sim = Simulator([Say("x")], clock=clock)
    with run_simulator(sim, backend=anyio_backend) as url:
        assert send(url, MESSAGES, BODY).status == 200
    assert sim.requests[0].at == 5.0
