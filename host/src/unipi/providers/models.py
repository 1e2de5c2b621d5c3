"""The models the host knows, as data, and what a thinking level is on each API.

Prices and minimums change several times a year: the table is example data with its day and source,
and a `models.json` of the user's goes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi_hookspecs import Model, Prices

from .api import has_trait
from .dialects import DIALECTS, dialect_of, effort_of
from .keeping import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON, ThinkingLevel

_AS_OF = "2026-12-01"
_SOURCE = "price map shipped in litellm 1.110.2"


def _prices(
    *, fresh: float, output: float, read: float, write: float, long: float | None = None
) -> Prices:
    return Prices(
        input=fresh,
        output=output,
        cache_read=read,
        cache_write=write,
        cache_write_1h=long,
        as_of=_AS_OF,
        source=_SOURCE,
    )


def _anthropic(
    model_id: str,
    prices: Prices,
    *,
    minimum: int,
    max_tokens: int,
    dialect: str = "",
    binds_thinking: bool = False,
    verbs: tuple[str, ...] = (),
) -> Model:
    return Model(
        provider="anthropic",
        id=model_id,
        api="anthropic-messages",
        base_url="https://api.anthropic.com",
        context_window=200_000,
        max_tokens=max_tokens,
        reasoning=True,
        input=("text", "image"),
        min_cache_tokens=minimum,
        prices=prices,
        dialect=dialect,
        api_key_env="ANTHROPIC_API_KEY",
        binds_thinking=binds_thinking,
        verbs=verbs,
    )


def _chat(
    provider: str,
    model_id: str,
    prices: Prices,
    *,
    minimum: int = 1_024,
    pictures: bool = True,
    verbs: tuple[str, ...] = (),
    traits: str = "",
) -> Model:
    # OpenAI's input costs twice as much above 272k tokens: its dialect's window ends there.
    dialect = DIALECTS[provider]
    return Model(
        provider=provider,
        id=model_id,
        api="openai-chat-completions",
        base_url=dialect.base_url,
        context_window=dialect.context_window,
        max_tokens=64_000,
        reasoning=True,
        input=("text", "image") if pictures else ("text",),
        min_cache_tokens=minimum,
        prices=prices,
        dialect=f"{provider} {traits}".strip(),
        api_key_env=dialect.api_key_env,
        verbs=verbs,
    )


# What a model takes at the end of a conversation; see `verbs`. Claude: Mid-conversation system
# messages (not Sonnet 5, nor anything up to 4.7), Per-message effort. OpenAI: developer messages, and
# `additional_tools` over Responses, from GPT-4.1 on (@langchain/openai 1.6.3, model profiles).
_CLAUDE_5_5 = ("system", "tool_addition", "tool_removal", "effort")
_GPT = ("system", "tool_addition")

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        _anthropic(
            "claude-opus-5-5",
            _prices(fresh=4.0, output=20.0, read=0.20, write=5.0, long=8.0),
            minimum=512,
            max_tokens=64_000,
            binds_thinking=True,  # Anthropic, Preserved thinking (2026-09-02)
            verbs=_CLAUDE_5_5,
        ),
        _anthropic(
            "claude-sonnet-5",
            _prices(fresh=2.0, output=10.0, read=0.20, write=2.5, long=4.0),
            minimum=1_024,
            max_tokens=64_000,
        ),
        _anthropic(
            "claude-haiku-4-5",
            _prices(fresh=1.0, output=5.0, read=0.10, write=1.25, long=2.0),
            minimum=4_096,
            max_tokens=64_000,
            dialect="budget-thinking",
        ),
        _chat(
            "openai",
            "gpt-6.1-sol",
            _prices(fresh=2.0, output=10.0, read=0.10, write=2.5, long=5.0),
            verbs=_GPT,
            traits=OPTIONS,  # from GPT-5.6 on
        ),
        _chat(
            "openai",
            "gpt-6-luna",
            _prices(fresh=0.10, output=0.50, read=0.01, write=0.125, long=0.25),
            verbs=_GPT,
            traits=OPTIONS,  # from GPT-5.6 on
        ),
        _chat(
            "deepseek",
            "deepseek-v4-pro",
            _prices(fresh=1.32, output=3.96, read=0.044, write=0.0),
            minimum=0,  # whole prefix units instead of a minimum (Context Caching guide)
            pictures=False,
        ),
        # Neither publishes a minimum; writes are listed nowhere, so they cost what input costs.
        _chat("xai", "grok-4.7", _prices(fresh=2.0, output=6.0, read=0.50, write=2.0), minimum=0),
        _chat(
            "mistral",
            "mistral-large-4",
            _prices(fresh=0.70, output=2.10, read=0.07, write=0.70),
            minimum=0,
        ),
    )
}

_BUDGETS: Mapping[ThinkingLevel, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
}
_EFFORTS: Mapping[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}
_LEAST_BUDGET = 1_024


def anthropic_thinking(model: Model, level: ThinkingLevel, max_tokens: int) -> dict[str, JSON]:
    """The head members of a thinking level on the Messages API; none for "off".

    A model of the dialect `budget-thinking` gets a token budget, which must stay under
    `max_tokens` (half of it at most here); the others think as they see fit, with an effort.
    """
    if level == "off" or not model.reasoning:
        return {}
    if not has_trait(model, "budget-thinking"):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS[level]}}
    budget = min(_BUDGETS[level], max_tokens // 2)
    if budget < _LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def chat_effort(model: Model, level: ThinkingLevel) -> str | None:
    """The `reasoning_effort` of a thinking level on Chat Completions; None for "off"."""
    return effort_of(dialect_of(model), level) if model.reasoning else None


def effort_told(model: Model, level: ThinkingLevel) -> str:
    """The effort that a thinking level is, in the API's word; "" for none, or a token budget."""
    if model.api != "anthropic-messages":
        return chat_effort(model, level) or ""
    if level == "off" or not model.reasoning or has_trait(model, "budget-thinking"):
        return ""
    return _EFFORTS[level]


_LEVELS: tuple[ThinkingLevel, ...] = ("minimal", "low", "medium", "high", "xhigh")


def thinking_levels(model: Model) -> Mapping[str, str]:
    """What each thinking level sends for a model; levels that send nothing are left out."""
    sent: dict[str, str] = {}
    for level in _LEVELS:
        if model.api != "anthropic-messages":
            said = chat_effort(model, level)
        elif not model.reasoning:
            said = None
        elif has_trait(model, "budget-thinking"):
            said = f"{_BUDGETS[level]} tokens"
        else:
            said = _EFFORTS[level]
        if said is not None:
            sent[level] = said
    return sent


def assumed(name: str) -> Model | None:
    """A model that nobody has described, of a provider that serves any: `ollama/qwen3`.

    Its window is the dialect's cautious guess; None for a name of any other provider.
    """
    provider, _, model_id = name.partition("/")
    dialect = DIALECTS.get(provider)
    if dialect is None or not dialect.any_model or not model_id:
        return None
    return Model(
        provider,
        model_id,
        api="openai-chat-completions",
        base_url=dialect.base_url,
        context_window=dialect.context_window,
        min_cache_tokens=0,
        dialect=provider,
        api_key_env=dialect.api_key_env,
    )


class ModelError(Exception):
    """A model is unknown. The text says which names are known and how to add one."""


def find_model(name: str, models: Mapping[str, Model] = MODELS) -> Model:
    """Find a model by `provider/id`, or by the id alone where one provider has it.

    A provider that serves any model (a gateway, a server of one's own) is taken at its word.
    Raises ModelError.
    """
    found = models.get(name)
    if found is not None:
        return found
    by_id = [model for model in models.values() if model.id == name]
    if len(by_id) == 1:
        return by_id[0]
    if not by_id and (guess := assumed(name)) is not None:
        return guess
    import difflib

    known = sorted(models)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    what = "several providers have" if by_id else "unknown"
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}."
    raise ModelError(f'{what} model {name!r}: {hint} Add others under "models" in models.json.')
