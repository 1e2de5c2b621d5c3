"""HTTP/1.1 on loopback: h11 for the protocol, anyio for the sockets.

Connections are kept alive and streamed answers are chunked. Cutting, stalling and dropping are done
here; what is answered is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
import anyio.abc
import h11

from unipi.sim.simulator import Exchange, until_delta
from unipi.sim.wire import MAX_BODY, Frame

Decide: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Exchange]

_READ = 256 * 1024
# Events are joined into writes of this size; many small writes would only measure the sockets.
_WRITE = 16 * 1024
_MAX_HEAD = 64 * 1024


@asynccontextmanager
async def serve(decide: Decide) -> AsyncIterator[str]:
    """Listen on a free port of 127.0.0.1 while the context is open; gives the base URL."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def handle(stream: anyio.abc.SocketStream) -> None:
        await _connection(stream, decide)

    failure: BaseException | None = None
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        try:
            yield f"http://127.0.0.1:{port}"
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:  # noqa: BLE001 - raised again below, outside the task group
            # A task group would wrap the failure of a test's own body in an exception group.
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _connection(stream: anyio.abc.SocketStream, decide: Decide) -> None:
    """Serve the requests of one connection until either side ends it."""
    conn = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    async with stream:
        try:
            while await _one_request(conn, stream, decide):
                conn.start_next_cycle()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            # The client went away, which it may do at any time.
            return


async def _one_request(
    conn: h11.Connection, stream: anyio.abc.SocketStream, decide: Decide
) -> bool:
    """Answer one request; False when the connection is not to be used again."""
    try:
        received = await _read_request(conn, stream)
    except h11.RemoteProtocolError as exc:
        # Not HTTP, or the client left in the middle of a request.
        if conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await _send_whole(conn, stream, Exchange(400, body=str(exc).encode()))
        return False
    if received is None:
        return False
    request, body = received
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    method, target = request.method.decode("ascii"), request.target.decode("latin-1")
    exchange = decide(method, target, headers, body)
    if exchange.ending == "drop":
        return False
    if exchange.frames is None and exchange.ending == "stall":
        exchange.began()
    elif exchange.frames is not None:
        await _send_frames(conn, stream, exchange, exchange.frames)
    else:
        await _send_whole(conn, stream, exchange)
    if exchange.ending == "stall":
        # Nothing more is sent; EndOfStream or cancellation ends it.
        while await stream.receive(_READ):
            pass
    return exchange.ending == "end" and conn.our_state is h11.DONE


async def _read_request(
    conn: h11.Connection, stream: anyio.abc.SocketStream
) -> tuple[h11.Request, bytes] | None:
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = conn.next_event()
        if event is h11.NEED_DATA:
            if conn.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await _send(conn, stream, go_on)
            try:
                conn.receive_data(await stream.receive(_READ))
            except anyio.EndOfStream:
                conn.receive_data(b"")
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            # One byte over the limit is enough to refuse it; the rest is not kept.
            if len(body) <= MAX_BODY:
                body += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(body)
        else:
            return None


async def _send(conn: h11.Connection, stream: anyio.abc.SocketStream, *events: h11.Event) -> None:
    await stream.send(b"".join(conn.send(event) or b"" for event in events))


def _head(exchange: Exchange, *more: tuple[str, str]) -> h11.Response:
    headers = [(name.encode(), value.encode()) for name, value in (*exchange.headers, *more)]
    return h11.Response(status_code=exchange.status, headers=headers)


async def _send_whole(
    conn: h11.Connection, stream: anyio.abc.SocketStream, exchange: Exchange
) -> None:
    body = exchange.body
    head = _head(exchange, ("content-type", "application/json"), ("content-length", str(len(body))))
    exchange.began()
    if exchange.ending == "end":
        exchange.finished()
        await _send(conn, stream, head, h11.Data(data=body), h11.EndOfMessage())
    else:
        await _send(conn, stream, head, h11.Data(data=body[: len(body) // 2]))


async def _send_frames(
    conn: h11.Connection,
    stream: anyio.abc.SocketStream,
    exchange: Exchange,
    frames: Iterator[Frame],
) -> None:
    head = _head(exchange, ("content-type", "text/event-stream"), ("cache-control", "no-cache"))
    if exchange.ending != "end":
        frames = until_delta(frames, exchange.after or 0)
    exchange.began()
    await _send(conn, stream, head)
    waiting = bytearray()
    for frame in frames:
        # Sent before the next frame is added, so that the last one waits for `finished`.
        if len(waiting) >= _WRITE:
            await _send(conn, stream, h11.Data(data=bytes(waiting)))
            waiting.clear()
        waiting += frame.data
        if frame.delta and exchange.delay > 0:
            await _send(conn, stream, h11.Data(data=bytes(waiting)))
            waiting.clear()
            await anyio.sleep(exchange.delay)
    if exchange.ending != "end":
        if waiting:
            await _send(conn, stream, h11.Data(data=bytes(waiting)))
        return
    exchange.finished()
    await _send(conn, stream, h11.Data(data=bytes(waiting)), h11.EndOfMessage())
