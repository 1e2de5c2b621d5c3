"""What can go wrong between a request and its whole answer, in words the agent loop acts on.

Sources: Anthropic API errors and rate limits; OpenAI error codes; the overflow texts that public
issues quote (reference/provider-caching.md §2.1, §2.2).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import AssistantMessage

ErrorKind: TypeAlias = Literal[
    "rate_limit",
    "overloaded",
    "server",
    "network",
    "timeout",
    "auth",
    "permission",
    "not_found",
    "quota",
    "overflow",
    "bound_thinking",
    "invalid",
    "stream",
    "cancelled",
]

Action: TypeAlias = Literal["retry", "compact", "unbind", "authenticate", "fail"]
"""What helps: the same bytes again; a shorter history; the history without its thinking; another
key; nothing the host can do."""

_HELPS: Mapping[ErrorKind, Action] = {
    "overflow": "compact",
    "bound_thinking": "unbind",
    "auth": "authenticate",
}

MAX_TEXT = 500
"""Characters of a foreign text that an error quotes."""

RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"rate_limit", "overloaded", "server", "network", "timeout", "stream"}
)


class ProviderError(Exception):
    """A request that brought no whole answer.

    `retryable` says whether the same bytes may succeed later; `retry_after` is the wait in seconds
    that the provider asked for; `partial` is what had arrived of the answer, or None.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        partial: AssistantMessage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.status = status
        self.retryable = kind in RETRYABLE if retryable is None else retryable
        self.retry_after = retry_after
        self.request_id = request_id
        self.partial = partial

    @property
    def action(self) -> Action:
        """What the loop does about it; one that may be retried is never anything else."""
        return "retry" if self.retryable else _HELPS.get(self.kind, "fail")

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status is not None else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        return f"{self.kind}{status}: {self.message}{request}"


_BY_STATUS: Mapping[int, ErrorKind] = {
    400: "invalid",
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",  # a lock that another request holds; both providers' own clients retry it
    413: "overflow",
    422: "invalid",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_BY_TYPE: Mapping[str, ErrorKind] = {
    "invalid_request_error": "invalid",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "billing_error": "quota",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "request_too_large": "overflow",
    "context_length_exceeded": "overflow",
    "exceed_context_size_error": "overflow",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "api_error": "server",
    "server_error": "server",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
}

_OVERFLOW = re.compile(
    r"prompt is too long"
    r"|exceed context limit"
    r"|maximum context length"
    r"|maximum prompt length"
    r"|longer than the model's context length"
    r"|exceeds the context length"
    r"|exceeds the context window"
    r"|exceeds the available context size"
    r"|context[_ ]length[_ ]exceeded"
    r"|input is too long for requested model",
    re.IGNORECASE,
)
# Anthropic, Preserved thinking; the second text is what older models say.
_BOUND = re.compile(
    r"invalid `?signature`? in `?thinking`? block"
    r"|bound to a different conversation"
    r"|blocks in the latest assistant message cannot be modified",
    re.IGNORECASE,
)
_SPENT = re.compile(
    r"spend(ing)? (cap|limit)|usage limit|credit balance|exceeded your current quota|billing",
    re.IGNORECASE,
)
_BUSY = re.compile(r"overloaded|slow down", re.IGNORECASE)


def bounded(text: str) -> str:
    """Cut a foreign text to MAX_TEXT characters and make it one line."""
    line = " ".join(text[: MAX_TEXT * 4].split())
    return line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + "…"


def is_overflow(message: str) -> bool:
    """Whether an error text says that the prompt does not fit the model's window."""
    return _OVERFLOW.search(message) is not None


def stream_error(code: str, message: str) -> ProviderError:
    """The error that an error event inside a running stream stands for."""
    kind = _BY_TYPE.get(code, "server")
    if is_overflow(message):
        kind = "overflow"
    elif kind == "server" and _BUSY.search(message):
        kind = "overloaded"
    return ProviderError(kind, bounded(message or code or "the stream reported an error"))


def response_error(
    status: int, headers: Mapping[str, str], body: bytes, *, now_ms: int, provider: str
) -> ProviderError:
    """The error that an HTTP answer other than 200 stands for.

    `headers` have lower-case names; `now_ms` (Unix milliseconds) turns a date in `retry-after`
    into a wait. The documents' rules: a spend-cap 429 of Anthropic has no `retry-after` and must
    not be retried, neither must OpenAI's `insufficient_quota`; `x-should-retry` decides if sent.
    """
    codes, message, request_id = _read_body(body)
    wait = _retry_after(headers, now_ms)
    kind = _kind(status, codes, message)
    if kind == "rate_limit" and wait is None and _is_spent(headers, message, provider):
        kind = "quota"
    retryable = kind in RETRYABLE
    asked = headers.get("x-should-retry")
    if asked in {"true", "false"} and kind not in {"overflow", "auth", "quota"}:
        retryable = asked == "true"
    if 300 <= status < 400:
        message = f"redirected to {headers.get('location', 'nowhere')}; correct the base_url"
    return ProviderError(
        kind,
        bounded(message) or "no explanation given",
        status=status,
        retryable=retryable,
        retry_after=wait,
        request_id=headers.get("request-id") or headers.get("x-request-id") or request_id,
    )


def _kind(status: int, codes: tuple[str, ...], message: str) -> ErrorKind:
    if status in {400, 413, 422, 500} and is_overflow(f"{' '.join(codes)} {message}"):
        return "overflow"
    if status == 400 and _BOUND.search(message):
        return "bound_thinking"
    named = next((_BY_TYPE[code] for code in codes if code in _BY_TYPE), None)
    if status == 429:
        return "quota" if named == "quota" else "rate_limit"
    if status == 503 and not _BUSY.search(message) and named != "overloaded":
        return "server"
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind
    if status >= 500:
        return named if named in RETRYABLE and named is not None else "server"
    return "invalid"


def _is_spent(headers: Mapping[str, str], message: str, provider: str) -> bool:
    if headers.get("x-should-retry") == "true":
        return False
    return provider == "anthropic" or _SPENT.search(message) is not None


def _read_body(body: bytes) -> tuple[tuple[str, ...], str, str | None]:
    """Codes, most telling first, message and request id of an error body of any shape."""
    import orjson

    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return (), body[: MAX_TEXT * 4].decode("utf-8", "replace"), None
    if not isinstance(parsed, dict):
        return (), body[: MAX_TEXT * 4].decode("utf-8", "replace"), None
    error = parsed.get("error", parsed)
    request_id = parsed.get("request_id")
    if not isinstance(request_id, str):
        request_id = None
    if not isinstance(error, dict):
        return (), str(error), request_id
    codes = tuple(c for c in (error.get("code"), error.get("type")) if isinstance(c, str))
    message = error.get("message") or error.get("detail")
    if not isinstance(message, str):
        message = body[: MAX_TEXT * 4].decode("utf-8", "replace")
    return codes, message, request_id


def _retry_after(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Seconds to wait: `retry-after-ms`, or `retry-after` in seconds or as a date (RFC 9110)."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if 0.0 <= seconds < float("inf"):
            return seconds
    date = headers.get("retry-after")
    if date is None:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now_ms / 1000)
    except ValueError:
        return None
