"""The lean transport over TLS: verified, kept alive, and refused when nobody vouches for it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.streams.tls import TLSListener

from unipi.providers.direct import DirectTransport

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a key")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ],
        check=True,
        capture_output=True,
    )
    return key, cert


@asynccontextmanager
async def tls_server(certificate):
    key, cert = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    plain = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners[0]
    listener = TLSListener(plain, context, standard_compatible=False)
    connections = []

    async def serve(stream):
        connections.append(stream)
        async with stream:
            seen = b""
            while True:
                try:
                    seen += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
                if seen.endswith(b"body"):
                    seen = b""
                    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"https://localhost:{port}/v1", connections
        tasks.cancel_scope.cancel()


async def post(transport, url):
    answer = await transport.handle_async_request(httpx2.Request("POST", url, content=b"body"))
    text = b"".join([piece async for piece in answer.stream])
    await answer.aclose()
    return text


async def test_two_requests_share_one_verified_connection(certificate):
    def trusting():
        return ssl.create_default_context(cafile=certificate[1])

    async with tls_server(certificate) as (url, connections):
        transport = DirectTransport(5.0, 60.0, trusting)
        assert [await post(transport, url) for _ in range(2)] == [b"ok", b"ok"]
        assert len(connections) == 1
        await transport.aclose()


async def test_a_certificate_that_nobody_vouches_for_is_refused(certificate):
    async with tls_server(certificate) as (url, _):
        transport = DirectTransport(5.0, 60.0, ssl.create_default_context)
        with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate verify failed"):
            await post(transport, url)
        await transport.aclose()
