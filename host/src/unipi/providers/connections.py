"""HTTP connections: opened late, kept alive, and what their errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .errors import ProviderError, bounded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from urllib.parse import SplitResult

    import httpx2

    from unipi_hookspecs import Model

_KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept: a tool may run between two requests. A connection that
the server closed meanwhile is noticed before it is used."""

_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "set-cookie"}
)
_SECRET_ENDINGS = ("-key", "-token", "-secret", "-auth", "-authorization")


@frozen
class Moments:
    """What the caller does while a request goes out.

    `ready` is called when all but the last bytes of the body have been handed over: what it does
    takes its time while the network works, and when it raises the request is never completed.
    `sent` is awaited when the last ones have gone.
    """

    ready: Callable[[], None] | None = None
    sent: Callable[[], Awaitable[None]] | None = None


class Connections:
    """A lean transport for addresses that are reached directly, httpx2's own for each proxy."""

    def __init__(self, connect_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self._pools: dict[str | None, httpx2.AsyncBaseTransport] = {}
        self._known: dict[str, tuple[httpx2.AsyncBaseTransport, httpx2.URL]] = {}

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, moments: Moments
    ) -> httpx2.Response:
        import httpx2

        known = self._known.get(url)
        if known is None:
            known = self._known[url] = (self._pool(url), httpx2.URL(url))
        pool, address = known
        timeout = {
            "connect": self._connect_timeout,
            "pool": self._connect_timeout,
            # The exchange keeps its own watch over sending and receiving.
            "read": None,
            "write": None,
        }
        if isinstance(pool, httpx2.AsyncHTTPTransport):
            await _beforehand(moments)
        request = httpx2.Request(
            "POST",
            address,
            headers=headers,
            content=body,
            extensions={"timeout": timeout, "moments": moments},
        )
        return await pool.handle_async_request(request)

    async def aclose(self) -> None:
        import anyio

        self._known.clear()
        while self._pools:
            _, pool = self._pools.popitem()
            with anyio.move_on_after(2.0, shield=True):
                await pool.aclose()

    def _pool(self, url: str) -> httpx2.AsyncBaseTransport:
        from urllib.parse import urlsplit

        import httpx2

        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise httpx2.UnsupportedProtocol(url)
        proxy = _proxy(parts)
        if proxy not in self._pools:
            self._pools[proxy] = self._open(proxy)
        return self._pools[proxy]

    def _open(self, proxy: str | None) -> httpx2.AsyncBaseTransport:
        import httpx2

        if proxy is None:
            from .direct import DirectTransport

            return DirectTransport(self._connect_timeout, _KEEP_ALIVE, httpx2.create_ssl_context)
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE
        )
        return httpx2.AsyncHTTPTransport(proxy=proxy, limits=limits)


async def _beforehand(moments: Moments) -> None:
    """What httpx2's own transport knows no moment for happens before the request goes out."""
    if moments.ready is not None:
        moments.ready()
    if moments.sent is not None:
        await moments.sent()


def _proxy(parts: SplitResult) -> str | None:
    """The proxy that the environment names for an address (`https_proxy`, `no_proxy`, …)."""
    from urllib.request import getproxies, proxy_bypass

    host = parts.hostname or ""
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or host in {"localhost", "127.0.0.1", "::1"} or proxy_bypass(host):
        return None
    return found if "://" in found else f"http://{found}"


def translated(error: Exception, model: Model, *, mid_stream: bool) -> ProviderError | None:
    """What an error of the HTTP client means; None for one that is not its own."""
    import httpx2

    address = shown_address(model.base_url)
    if isinstance(error, httpx2.TimeoutException):
        return ProviderError("timeout", f"no connection to {address} in time")
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ProviderError(
            "invalid", f"the base_url {address!r} of {model.name} is no http(s) address"
        )
    if isinstance(error, httpx2.LocalProtocolError):
        # Its text quotes the offending header, which may be the key.
        return ProviderError("invalid", "the request's headers are not valid HTTP")
    if isinstance(error, httpx2.RemoteProtocolError) and mid_stream:
        return ProviderError("stream", f"the stream was cut: {bounded(str(error))}")
    if isinstance(error, httpx2.TransportError):
        text = bounded(str(error)) or type(error).__name__
        untrusted = "certificate verify failed" in text.lower()
        where = "the connection was lost" if mid_stream else f"cannot reach {address}"
        return ProviderError("network", f"{where}: {text}", retryable=not untrusted)
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return ProviderError("stream", bounded(str(error)) or type(error).__name__)
    return None


def shown_address(address: str) -> str:
    """An address without what may be a credential in it."""
    scheme, mark, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + mark + host.rpartition("@")[2] + slash + path.partition("?")[0]


def is_secret_header(name: str) -> bool:
    """Whether a header's value may be a credential."""
    name = name.lower()
    return name in _SECRET_HEADERS or name.endswith(_SECRET_ENDINGS)


def redacted(headers: Mapping[str, str]) -> dict[str, str]:
    """A copy of headers that may be shown: values that may be credentials are left out."""
    return {
        name: "[redacted]" if is_secret_header(name) else value for name, value in headers.items()
    }


def clean(text: str, headers: Mapping[str, str]) -> str:
    """Take the credentials that a request carried out of a text that a server sent back."""
    for name, value in headers.items():
        if is_secret_header(name):
            for secret in (value, value.partition(" ")[2]):
                if len(secret) > 3:
                    text = text.replace(secret, "[redacted]")
    return text
