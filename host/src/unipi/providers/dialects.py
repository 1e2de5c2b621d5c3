"""What the servers that speak Chat Completions do differently, as data.

A model names its dialect by a word in `Model.dialect`; without one it gets `GENERIC`. Every rule
is a field read by one adapter: a new server is a new row, not a new branch. The sources are the
servers' own documents, or the refusals that public issues quote.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import Model, ThinkingLevel

_DETAILS = "usage.prompt_tokens_details.cached_tokens"
_TIMINGS = "timings.cache_n"
_UNITS = "usage.prompt_cache_hit_tokens"
_LOCAL_WINDOW = 32_768


@frozen
class Dialect:
    """One server's reading of Chat Completions.

    Attributes:
        name: the word in `Model.dialect`, and the provider's usual name.
        base_url: where it is reached by default; empty: nowhere in particular.
        api_key_env: the variable of its key by default, or None.
        context_window: tokens assumed for a model that nobody has described.
        any_model: any id may be asked for (a gateway, or whatever a local server has loaded).
        limit: the member that bounds the answer.
        stream_options: whether usage in a stream is asked for by `stream_options`.
        cache_key: the member that carries the session's lineage, or None.
        affinity_header: the header that carries it, or None.
        efforts: `reasoning_effort` of each thinking level; None: the level's own name, no entry:
            the member is left out.
        replays_reasoning: messages with calls carry `reasoning_content` (and no others do).
        call_id_length: calls are named by exactly so many letters and digits, or None.
        marked: beginnings of the ids of models that cache at `cache_control` only: the system
            message carries a marker, and a top-level one moves by itself, so that no message's
            bytes change.
        cached: where an answer states the tokens read from the cache; the first found counts.
        written: where it states those written to it.
        instructs: the role of an instruction in mid-conversation.
        refused: members that are answered by an error.
        overflow: how it says that a prompt is too long, in its own words.
        source: where this is stated.
    """

    name: str
    base_url: str = ""
    api_key_env: str | None = None
    context_window: int = 128_000
    any_model: bool = False
    limit: str = "max_tokens"
    stream_options: bool = True
    cache_key: str | None = None
    affinity_header: str | None = None
    efforts: Mapping[ThinkingLevel, str] | None = None
    replays_reasoning: bool = False
    call_id_length: int | None = None
    marked: tuple[str, ...] = ()
    cached: tuple[str, ...] = (_DETAILS,)
    written: tuple[str, ...] = ("usage.prompt_tokens_details.cache_write_tokens",)
    instructs: str = "system"
    refused: frozenset[str] = frozenset()
    overflow: tuple[str, ...] = ()
    source: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a server of one's own, on loopback by default."""
        return self.base_url.startswith("http://127.0.0.1:")


GENERIC = Dialect("", cached=(_DETAILS, _UNITS, _TIMINGS))
"""A server that nobody has described: nothing is sent that a strict one is known to refuse."""

_OPENAI_OVERFLOW = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in "
    "9001 tokens. Please reduce the length of the messages.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
)

_DIALECTS = (
    Dialect(
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        context_window=272_000,
        limit="max_completion_tokens",
        cache_key="prompt_cache_key",
        instructs="developer",
        overflow=_OPENAI_OVERFLOW,
        source="OpenAI, Prompt caching (2026-07-15) and the Chat Completions reference",
    ),
    Dialect(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        replays_reasoning=True,
        cached=(_UNITS, _DETAILS),
        overflow=_OPENAI_OVERFLOW[:1],
        source="DeepSeek, Context Caching and Thinking Mode guides",
    ),
    Dialect(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        any_model=True,
        cache_key="session_id",
        marked=("anthropic/", "~anthropic/"),
        overflow=(
            "This endpoint's maximum context length is 200000 tokens. However, you requested "
            "about 214000 tokens (150000 of text input, 64000 in the output).",
        ),
        source="OpenRouter, Prompt Caching and AnthropicCacheControlDirective",
    ),
    Dialect(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        stream_options=False,  # the last chunk of a stream holds the usage, asked for or not
        cache_key="prompt_cache_key",
        efforts=dict.fromkeys(("minimal", "low", "medium", "high", "xhigh"), "high"),
        call_id_length=9,
        refused=frozenset({"max_completion_tokens", "stream_options", "prompt_cache_options"}),
        overflow=(
            "Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 "
            "maximum context length",
        ),
        source="Mistral, Prompt caching; its 422 extra_forbidden (editor-code-assistant/eca #231); "
        "efforts none and high alone (anomalyco/models.dev PR #1986)",
    ),
    Dialect(
        "xai",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        limit="max_completion_tokens",
        affinity_header="x-grok-conv-id",
        efforts={},  # its newer models think as they see fit, and some refuse the member
        refused=frozenset({"reasoning_effort", "stop", "presence_penalty", "frequency_penalty"}),
        overflow=(
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        ),
        source="xAI, Prompt caching and Reasoning",
    ),
    Dialect(
        "vllm",
        "http://127.0.0.1:8000/v1",
        context_window=_LOCAL_WINDOW,
        any_model=True,
        overflow=(
            "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (4000 in the messages, 1000 in the completion).",
        ),
        source="vLLM, OpenAI-compatible server and prefix caching; counts need "
        "--enable-prompt-tokens-details",
    ),
    Dialect(
        "sglang",
        "http://127.0.0.1:30000/v1",
        context_window=_LOCAL_WINDOW,
        any_model=True,
        overflow=(
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "Requested token count exceeds the model's maximum context length of 8192 tokens.",
        ),
        source="SGLang, OpenAI APIs; counts need --enable-cache-report",
    ),
    Dialect(
        "llamacpp",
        "http://127.0.0.1:8080/v1",
        context_window=_LOCAL_WINDOW,
        any_model=True,
        cached=(_DETAILS, _TIMINGS),
        overflow=(
            "request (9000 tokens) exceeds the available context size (4096 tokens), try "
            "increasing it",
        ),
        source="llama.cpp, tools/server/README",
    ),
    Dialect(
        "ollama",
        "http://127.0.0.1:11434/v1",
        context_window=_LOCAL_WINDOW,
        any_model=True,
        overflow=("the input length exceeds the context length",),
        source="Ollama, OpenAI compatibility; it shortens a prompt unasked unless num_ctx is large",
    ),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({d.name: d for d in _DIALECTS})
"""The described servers by name."""


def dialect_of(model: Model) -> Dialect:
    """The dialect that a model's words name; `GENERIC` when none does."""
    return _named(model.dialect)


@lru_cache(maxsize=64)
def _named(words: str) -> Dialect:
    return next((DIALECTS[word] for word in words.split() if word in DIALECTS), GENERIC)


def effort_of(dialect: Dialect, level: ThinkingLevel) -> str | None:
    """The `reasoning_effort` of a thinking level; None: the member is left out."""
    if level == "off":
        return None
    return level if dialect.efforts is None else dialect.efforts.get(level)


def wants_markers(model: Model) -> bool:
    """Whether a model's prompt is cached only where `cache_control` says so."""
    return model.id.startswith(dialect_of(model).marked)


def affinity_headers(model: Model, lineage: str) -> Mapping[str, str]:
    """The header that keeps a session's requests on the server that has its prefix."""
    header = dialect_of(model).affinity_header
    return {header: lineage} if header and lineage else {}
