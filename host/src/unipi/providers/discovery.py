"""Asking a server which models it serves: `GET /v1/models`, bounded in time and size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import orjson
from attrs import frozen

from .api import endpoint
from .apis import api_for
from .connections import clean, translated
from .errors import ProviderError, response_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import Model

    from .secrets import Secret

TIMEOUT = 5.0
"""Seconds that a server may take for the whole list."""

MAX_BODY = 8 * 1024 * 1024
MAX_MODELS = 2_000
_MAX_ID = 200
# Where servers state a window: OpenRouter, vLLM, Mistral, Anthropic; llama.cpp below `meta`.
_WINDOWS = ("context_length", "max_model_len", "max_context_length", "max_input_tokens")
_META_WINDOWS = ("n_ctx", "n_ctx_train")


@frozen
class Found:
    """A model that a server says it serves; `context_window` in tokens, None where unstated."""

    provider: str
    id: str
    context_window: int | None = None


async def discover(
    model: Model, secret: Secret | None, *, timeout: float = TIMEOUT
) -> Sequence[Found]:
    """The models of the server behind `model`, by id.

    Raises ProviderError, without the key in its text, when the server is down, silent, refuses, or
    answers something else.
    """
    headers = {
        "accept": "application/json",
        "user-agent": "unipi",
        **api_for(model.api).auth_headers(secret),
        **{name.lower(): value for name, value in model.headers.items()},
    }
    try:
        with anyio.fail_after(timeout):
            body = await _get(model, headers, timeout)
        return _read(model, body)
    except TimeoutError:
        raise ProviderError("timeout", f"no list of models within {timeout:g} s") from None
    except ProviderError as error:
        raise ProviderError(
            error.kind, clean(error.message, headers), status=error.status
        ) from None


async def _get(model: Model, headers: Mapping[str, str], timeout: float) -> bytes:
    import httpx2

    url = endpoint(model.base_url, "/models")
    try:
        async with (
            httpx2.AsyncClient(timeout=timeout, follow_redirects=False) as client,
            client.stream("GET", url, headers=dict(headers)) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_BODY:
                    raise ProviderError("invalid", f"the list of models is over {MAX_BODY} bytes")
            if response.status_code != 200:
                raise response_error(
                    response.status_code,
                    dict(response.headers),
                    bytes(body),
                    now_ms=int(time.time() * 1000),
                    provider=model.provider,
                )
            return bytes(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        known = translated(error, model, mid_stream=False)
        raise known or ProviderError("network", type(error).__name__) from None


def _read(model: Model, body: bytes) -> Sequence[Found]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ProviderError("invalid", "the list of models is not JSON; check base_url") from None
    listed = document.get("data") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise ProviderError("invalid", "the answer holds no list of models; check base_url")
    found: dict[str, Found] = {}
    for item in listed[:MAX_MODELS]:
        name = item.get("id") if isinstance(item, dict) else None
        # A name from outside is shown in terminals and typed in commands.
        if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _MAX_ID:
            found[name] = Found(model.provider, name, _window(item))
    return [found[name] for name in sorted(found)]


def _window(item: Mapping[str, object]) -> int | None:
    meta = item.get("meta")
    stated = [item.get(key) for key in _WINDOWS]
    if isinstance(meta, dict):
        stated += [meta.get(key) for key in _META_WINDOWS]
    return next((n for n in stated if type(n) is int and n > 0), None)
