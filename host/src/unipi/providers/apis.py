"""The wire APIs by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.redaction import guard

from .anthropic_messages import AnthropicMessages
from .connections import is_secret_header
from .dialects import affinity_headers
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .verbs import betas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import Model, RequestInfo

    from .api import ProviderApi
    from .secrets import Secret

APIS: Mapping[str, ProviderApi] = {
    "anthropic-messages": AnthropicMessages(),
    "openai-chat-completions": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
}

_BETA = "anthropic-beta"


class UnknownApiError(LookupError):
    """A model names a wire API that the host does not speak; the text lists those it does."""


def api_for(name: str) -> ProviderApi:
    """Find a wire API. Raises UnknownApiError."""
    try:
        return APIS[name]
    except KeyError:
        raise UnknownApiError(
            f"no wire API is called {name!r}; there are {', '.join(sorted(APIS))}"
        ) from None


def request_headers(
    model: Model, secret: Secret | None, info: RequestInfo, *, lineage: str = ""
) -> dict[str, str]:
    """The headers of one request; those of the model go before ours.

    `x-client-request-id` carries the request's id, so that a proxy's log can be joined; `lineage`
    is the session's routing key, sent where the dialect has a header for it.
    """
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "user-agent": "unipi",
        **api_for(model.api).auth_headers(secret),
        "x-client-request-id": info.request_id,
        **affinity_headers(model, lineage),
    }
    if asked := betas(model):
        headers[_BETA] = asked
    for name, value in model.headers.items():
        joined = name.lower() == _BETA and _BETA in headers
        headers[name.lower()] = f"{headers[_BETA]},{value}" if joined else value
        if is_secret_header(name):
            guard(value.removeprefix("Bearer "))
    return headers
