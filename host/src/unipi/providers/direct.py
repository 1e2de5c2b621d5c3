"""A lean transport for httpx2: HTTP/1.1 over one socket, no pool, no proxy.

An agent sends its requests one after another to one address, with bodies that grow. Of each round
trip of 250 KB on loopback httpx2's own transport takes 450 µs beyond a raw socket: a third of what
a turn of the host costs, so this one writes the request's few lines itself and lets httptools (the
parser of Node.js) read the answer. Proxies and their tunnels stay with httpx2's transport.
"""

from __future__ import annotations

import re
import select
from typing import TYPE_CHECKING

import anyio
import httptools
import httpx2
from anyio.abc import SocketAttribute
from attrs import define, evolve, field

from .connections import Moments

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import ByteStream

_READ_SIZE = 65_536
_CLOSE_SECONDS = 1.0
_KEEP = re.compile(rb"timeout=(\d{1,6})")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[^\x00\r\n]*")
_HELD_BACK = 2
"""Bytes of a body that wait for `ready`: without its closing brackets a request is none."""
_SMALL = 256 * 1024
"""Bytes of a body up to which a copy costs less than a second round of the event loop."""
_MAX_HEAD = 100 * 1024
"""Bytes of status line and headers that an answer may have, httpx2's own limit."""


class DirectTransport(httpx2.AsyncBaseTransport):
    """Keeps each connection for `keep_alive` seconds after its answer, and opens more as needed.

    `connect_timeout` is in seconds; `tls` makes the context of the first `https` address.
    """

    def __init__(
        self, connect_timeout: float, keep_alive: float, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._connect_timeout = connect_timeout
        self._keep_alive = keep_alive
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with a whole body; returns once the answer's head is there.

        The extension `moments` says what is done on the way. Raises httpx2's transport errors.
        """
        start = _start_of(request)
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        origin = (url.scheme, url.host, port)
        moments = _Once(request.extensions.get("moments") or Moments())
        idle = await self._take(origin)
        if idle is not None:
            try:
                return await self._exchange(idle, origin, start, request.content, moments)
            except httpx2.TransportError:
                if idle.answer.heard:
                    raise
                # The server closed it while we took it up: no word of an answer, so the request
                # goes out again on a connection of its own (RFC 9112, 9.3.1).
        fresh = await self._open(origin)
        return await self._exchange(fresh, origin, start, request.content, moments)

    async def _exchange(
        self,
        connection: _Connection,
        origin: tuple[str, str, int],
        start: bytes,
        content: bytes,
        moments: _Once,
    ) -> httpx2.Response:
        try:
            await connection.send(start, content, moments.ready)
            await moments.sent()
            answer = await connection.head()
        except BaseException:
            await connection.close()
            raise
        keep = min(self._keep_alive, answer.keep_alive_seconds)
        body = _Body(connection, self._idle.setdefault(origin, []), keep)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body)

    async def _take(self, origin: tuple[str, str, int]) -> _Connection | None:
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.usable():
                return connection
            await connection.close()
        return None

    async def _open(self, origin: tuple[str, str, int]) -> _Connection:
        scheme, host, port = origin
        try:
            with anyio.fail_after(self._connect_timeout):
                if scheme == "https":
                    self._context = self._context or self._tls()
                    stream: ByteStream = await anyio.connect_tcp(
                        host,
                        port,
                        ssl_context=self._context,
                        tls_hostname=host,
                        tls_standard_compatible=False,
                    )
                else:
                    stream = await anyio.connect_tcp(host, port)
        except TimeoutError:
            raise httpx2.ConnectTimeout(f"{host}:{port}") from None
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        return _Connection(stream)

    async def aclose(self) -> None:
        for waiting in self._idle.values():
            while waiting:
                await waiting.pop().close()


class _Once:
    """A request's moments, each of which comes once, though the request may go out twice."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def ready(self) -> None:
        ready, self._moments = self._moments.ready, evolve(self._moments, ready=None)
        if ready is not None:
            ready()

    async def sent(self) -> None:
        sent, self._moments = self._moments.sent, evolve(self._moments, sent=None)
        if sent is not None:
            await sent()


class _Answer:
    """What httptools tells of one answer: the parser's callbacks, and what they gathered."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.heard = False
        self.begun = False
        self.complete = False
        self.keep_alive = False
        self.pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self.heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise httpx2.RemoteProtocolError(f"the answer is not HTTP: {error}") from error

    @property
    def ends_with_connection(self) -> bool:
        """Whether neither a length nor chunks say where the body ends (RFC 9112, 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return not names & {b"content-length", b"transfer-encoding"}

    @property
    def keep_alive_seconds(self) -> float:
        """How long the server says it keeps the connection, a second less; else no limit."""
        for name, value in self.headers:
            if name.lower() == b"keep-alive" and (found := _KEEP.search(value)):
                return max(0.0, float(found[1]) - 1.0)
        return float("inf")

    def on_message_begin(self) -> None:
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.begun = self.status >= 200  # a 1xx only says that the answer is coming

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        if self.begun:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()


@define(eq=False)
class _Connection:
    """One socket, and the answer that is arriving on it."""

    stream: ByteStream
    answer: _Answer = field(factory=_Answer)
    idle_until: float = 0.0

    async def send(self, head: bytes, body: bytes, ready: Callable[[], None]) -> None:
        self.answer = _Answer()
        held = min(_HELD_BACK, len(body))
        try:
            if len(body) <= _SMALL:
                await self.stream.send(head + body[: len(body) - held])
            else:
                await self.stream.send(head)
                await self.stream.send(memoryview(body)[: len(body) - held])  # type: ignore[arg-type]  # any buffer will do, and saves a copy
            ready()
            await self.stream.send(body[len(body) - held :])
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            # A server may refuse a body before it has read it; what it says is worth more.
            if not await self._answered():
                raise httpx2.WriteError(_cause(error)) from error

    async def _answered(self) -> bool:
        try:
            with anyio.move_on_after(1.0):
                self.answer.feed(await self.stream.receive(_READ_SIZE))
                return True
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        return False

    async def head(self) -> _Answer:
        received = 0
        while not self.answer.begun:
            received += await self._receive()
            if received > _MAX_HEAD and not self.answer.begun:
                raise httpx2.RemoteProtocolError("the answer's headers have no end")
        return self.answer

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, all that one read brought as one piece."""
        answer = self.answer
        while True:
            if answer.pieces:
                found, answer.pieces = answer.pieces, []
                yield found[0] if len(found) == 1 else b"".join(found)
            if answer.complete:
                return
            await self._receive()

    async def _receive(self) -> int:
        answer = self.answer
        try:
            data = await self.stream.receive(_READ_SIZE)
        except anyio.EndOfStream:
            if not answer.begun:
                text = "the server closed the connection without an answer"
                raise httpx2.RemoteProtocolError(text) from None
            if not answer.ends_with_connection:
                text = "the server closed the connection before the answer's end"
                raise httpx2.RemoteProtocolError(text) from None
            answer.complete = True
            return 0
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpx2.ReadError(_cause(error)) from error
        answer.feed(data)
        return len(data)

    def reusable(self) -> bool:
        """Whether the answer is whole and the server goes on with the connection."""
        return self.answer.complete and self.answer.keep_alive

    def usable(self) -> bool:
        """Whether an idle connection is young enough and the server has not closed it."""
        if anyio.current_time() > self.idle_until:
            return False
        socket = self.stream.extra(SocketAttribute.raw_socket)
        # An idle connection has nothing to say: readable means that it was closed.
        return not select.select([socket], [], [], 0)[0]

    async def close(self) -> None:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self.stream.aclose()


@define(eq=False)
class _Body(httpx2.AsyncByteStream):
    """An answer's body; closing it gives the connection back, or ends it if bytes are left."""

    connection: _Connection
    idle: list[_Connection]
    keep_alive: float
    closed: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.connection.pieces():
            yield piece

    async def aclose(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.connection.reusable():
            self.connection.idle_until = anyio.current_time() + self.keep_alive
            self.idle.append(self.connection)
        else:
            await self.connection.close()


def _start_of(request: httpx2.Request) -> bytes:
    """The request's head, checked before anything is opened or sent (RFC 9112, 9110 5.5)."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    for name, value in request.headers.raw:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value) or value != value.strip():
            raise httpx2.LocalProtocolError(f"the header {name!r} cannot be sent")
        lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])


def _cause(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__
