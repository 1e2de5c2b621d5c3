"""One server: started, listed, asked, started again once when it was lost, and ended with all it began.

A connection lives in a task of its own, which opens and closes it; calls come from other tasks. The SDK
is imported when the first server is started.
"""

from __future__ import annotations

import math
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

import anyio
from attrs import define, field

from .guard import guarded
from .stderr import Tail, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from mcp import Client
    from mcp.types import CallToolResult

    from .config import ServerConfig
    from .definitions import Catalogue

State = Literal["idle", "starting", "ready", "failed", "closed"]
_LOST: Final = -32_000
"""The SDK's code for a connection that is closed."""
_SSE_EVENT: Final = 64 * 1024 * 1024
"""Bytes of one event of a remote server; a larger result is an error, and not the host's end."""
_HTTP_SECONDS: Final = 30.0


class ServerError(Exception):
    """A server cannot be had, or did not answer; the text says which and why, without any value."""


@define(eq=False)
class Connection:
    """A server and how it is doing. `run` is to be started in a task; `close` ends it.

    `changed` says that the server has announced another list of tools since it was listed.
    """

    config: ServerConfig
    cwd: Path
    state: State = "idle"
    error: str = ""
    changed: bool = False
    _client: Client | None = None
    _catalogue: Catalogue | None = None
    _tail: Tail = field(factory=Tail)
    _log: TextIO | None = None
    _wanted: anyio.Event = field(factory=anyio.Event)
    _news: anyio.Event = field(factory=anyio.Event)
    _leave: anyio.Event = field(factory=anyio.Event)
    _stopping: bool = False
    _running: bool = False

    async def run(self) -> None:
        """Open the connection whenever it is wanted, and close it, until `close`."""
        self._running = True
        try:
            while True:
                await self._wanted.wait()
                if self._stopping:
                    return
                await self._session()
        finally:
            self._running = False
            self._say("closed")

    async def catalogue(self) -> Catalogue:
        """What the server lists now, once it does. Raises ServerError."""
        await self._ready()
        assert self._catalogue is not None, "a server that is ready was listed"
        return self._catalogue

    async def listed_again(self) -> Catalogue:
        """What the server lists now, asked anew. Raises ServerError."""
        client = await self._ready()
        try:
            with anyio.fail_after(self.config.start_seconds):
                self._catalogue = await self._listed(client)
        except Exception as error:  # noqa: BLE001 - whatever a server does is its own failure
            raise ServerError(f"{self._named()} cannot be listed: {_cause(error)}") from None
        return self._catalogue

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        progress: Callable[[str], Awaitable[None]],
        *,
        again: bool = False,
    ) -> CallToolResult:
        """Call a tool; a server that has ended meanwhile is started again.

        One that ends while it works on the call is asked `again`, once, where that does no harm: a
        call that changes something may have been done. A cancellation is told to the server.
        Raises ServerError.
        """
        try:
            return await self._call(tool, arguments, progress)
        except _Lost as lost:
            if not again:
                text = f"{self._named()} ended while it worked on {tool}; whether that was done is "
                raise ServerError(f"{text}not known{lost}") from None
        try:
            return await self._call(tool, arguments, progress)
        except _Lost as lost:
            raise ServerError(f"{self._named()} ended while it worked on {tool}{lost}") from None

    async def close(self) -> None:
        """End the server and all that it began; returns when that is done."""
        self._stopping = True
        self._wanted.set()
        self._leave.set()
        while self._running:
            await self._news.wait()

    # Inside.

    def _named(self) -> str:
        return f"the MCP server {self.config.name!r}"

    def _say(self, state: State, error: str = "") -> None:
        self.state, self.error = state, error
        self._news.set()
        self._news = anyio.Event()

    async def _ready(self) -> Client:
        if self._stopping or self.state == "closed":
            raise ServerError(f"{self._named()} is closed")
        if self.state != "ready":
            if self.state in ("idle", "failed"):
                self._say("starting")
            self._wanted.set()
        while self.state == "starting":
            await self._news.wait()
        if self.state != "ready" or self._client is None:
            raise ServerError(self.error or f"{self._named()} is {self.state}")
        return self._client

    async def _call(
        self, tool: str, arguments: Mapping[str, object], say: Callable[[str], Awaitable[None]]
    ) -> CallToolResult:
        from mcp import MCPError

        client = await self._ready()

        async def told(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            await say(f"{message} ({share})" if message else share)

        seconds = self.config.call_seconds
        try:
            with anyio.fail_after(seconds):
                return await client.call_tool(tool, dict(arguments), progress_callback=told)
        except TimeoutError:
            text = f"{self._named()} did not answer {tool} within {seconds:g} seconds"
            raise ServerError(text) from None
        except MCPError as error:
            if error.code == _LOST:
                await self._lose()
                raise _Lost(self._last_words()) from None
            raise ServerError(f"{self._named()}: {str(error)[:500]}") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._lose()
            raise _Lost(self._last_words()) from None
        except ValueError as error:  # pydantic's, for a result that is none
            text = str(error).partition("\n")[0][:200]
            raise ServerError(f"{self._named()} answered {tool} with no result: {text}") from None

    async def _lose(self) -> None:
        """The connection is gone: let the task close it, so that it can be opened again."""
        leave = self._leave
        leave.set()
        while self.state == "ready" and self._leave is leave:
            await self._news.wait()

    def _last_words(self) -> str:
        line = self._tail.last_line()
        return f"; it last said: {line}" if line else ""

    async def _session(self) -> None:
        config = self.config
        self._leave, self._wanted = anyio.Event(), anyio.Event()
        self._say("starting")
        try:
            with anyio.fail_after(config.start_seconds) as scope:
                async with self._opened() as client:
                    self._catalogue = await self._listed(client)
                    self._client = client
                    scope.deadline = math.inf
                    self._say("ready")
                    await self._leave.wait()
        except TimeoutError:
            text = f"did not list its tools within {config.start_seconds:g} seconds"
            self._fail(f"{self._named()} {text}{self._last_words()}")
        except Exception as error:  # noqa: BLE001 - whatever a server does is its own failure
            self._fail(f"{self._named()} cannot be started: {_cause(error)}{self._last_words()}")
        else:
            self._client = None
            self._say("idle")

    def _fail(self, text: str) -> None:
        self._client = None
        if self.state == "ready":  # it was lost, not refused: the next call may start it again
            self._say("idle", text)
        else:
            self._say("failed", text)

    async def _listed(self, client: Client) -> Catalogue:
        from .listing import catalogue_of

        for _ in range(3):
            self.changed = False
            found = await catalogue_of(self.config, client)
            if not self.changed:  # a server that is still adding tools is listed again
                break
        return found

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Client]:
        from mcp import Client
        from mcp.types import Implementation, ListRootsResult, Root

        async def roots(context: object) -> ListRootsResult:
            return ListRootsResult(roots=[Root(uri=self.cwd.as_uri(), name=self.cwd.name)])  # type: ignore[arg-type]  # pydantic reads the address

        async def heard(message: object) -> None:
            if "ToolListChanged" in type(getattr(message, "root", message)).__name__:
                self.changed = True

        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            client = Client(
                transport,
                message_handler=heard,
                list_roots_callback=roots,
                client_info=Implementation(name="unipi", version="0.1.0"),
                cache=None,
            )
            opened = await stack.enter_async_context(client)
            if self._log is not None:
                self._log.close()  # the server has its own; when that is closed too it has ended
            yield opened

    async def _transport(self, stack: AsyncExitStack) -> Any:
        """The SDK's transport for this kind of server; its types are the SDK's own."""
        config = self.config
        if config.transport == "stdio":
            from mcp import StdioServerParameters, stdio_client

            path = config.env.get("PATH")
            if shutil.which(config.command, path=path) is None:
                raise ServerError(f"there is no command {config.command!r} here")
            self._tail = Tail()
            leave = self._leave
            self._log = await stack.enter_async_context(listening(self._tail, leave.set))
            command, args = guarded(config.command, config.args)
            where = config.cwd or self.cwd
            parameters = StdioServerParameters(
                command=command,
                args=args,
                env=dict(config.env),
                cwd=where,
                encoding_error_handler="replace",
            )
            return stdio_client(parameters, errlog=self._log)
        if config.transport == "sse":
            from mcp.client.sse import sse_client

            return sse_client(config.url, headers=dict(config.headers), timeout=_HTTP_SECONDS)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        limits = httpx2.Timeout(_HTTP_SECONDS, read=None)
        http = httpx2.AsyncClient(headers=dict(config.headers), timeout=limits)
        await stack.enter_async_context(http)
        return streamable_http_client(config.url, http_client=http, max_sse_event_size=_SSE_EVENT)


class _Lost(Exception):  # noqa: N818 - it never leaves this file
    """The connection was closed while a call waited."""


async def probe(config: ServerConfig) -> Catalogue:
    """Start a server, list its tools, end it. Raises ServerError."""
    from pathlib import Path

    connection = Connection(config, Path.cwd())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        try:
            found: Catalogue | ServerError = await connection.catalogue()
        except ServerError as error:
            found = error
        with anyio.CancelScope(shield=True):
            await connection.close()
    if isinstance(found, ServerError):
        raise found
    return found


def _cause(error: BaseException) -> str:
    """The innermost of what went wrong, in a line; an address in it may hold a key and is cut."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    response = getattr(error, "response", None)
    if response is not None:
        return f"it answered with status {response.status_code}"
    text = str(error).partition("\n")[0]
    return " ".join("…" if "://" in w else w for w in text.split())[:300] or type(error).__name__
