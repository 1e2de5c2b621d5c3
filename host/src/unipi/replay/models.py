"""The models of a recorded session, as the simulator serves them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import evolve

from unipi.providers import MODELS
from unipi.sim import PROFILES
from unipi_hookspecs import AssistantMessage, Model, Prices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.sim import Profile
    from unipi_hookspecs import Entry

PROFILE_OF: Mapping[str, str] = {
    "anthropic-messages": "anthropic",
    "openai-chat-completions": "openai_legacy",
    "openai-responses": "openai_legacy",
}
"""The simulator's cache rule for each API."""

_MAX_TOKENS = 32_000
_BUDGET_THINKERS = re.compile(r"claude-(3|[a-z]+-4-([0-5]|20)(\D|\d|$))")
"""Claude up to 4.5 thinks with a token budget, newer ones with an effort (Extended thinking)."""

_KEYS = {"x-api-key": "replay", "authorization": "Bearer replay"}


class Models:
    """Makes one model for each provider and id, with the provider's minimum and prices."""

    def __init__(self, api: str, base_url: str, entries: Sequence[Entry]) -> None:
        self._api = api
        self._base_url = base_url
        self._entries = entries
        self._made: dict[tuple[str, str], Model] = {}

    @property
    def profile(self) -> Profile:
        """The cache rule that the models of this API are served by."""
        return PROFILES[PROFILE_OF[self._api]]

    def find(self, provider: str, model_id: str) -> Model:
        """The model of a recorded name; the same object each time."""
        key = provider, model_id
        if key not in self._made:
            self._made[key] = self._make(provider, model_id)
        return self._made[key]

    def _make(self, provider: str, model_id: str) -> Model:
        known = MODELS.get(f"{provider}/{model_id}") or Model(
            provider, model_id, self._api, self._base_url, max_tokens=_MAX_TOKENS
        )
        dialect = "openai"
        if self._api == "anthropic-messages":
            dialect = "budget-thinking" if _BUDGET_THINKERS.match(model_id) else ""
        return evolve(
            known,
            api=self._api,
            base_url=self._base_url,
            reasoning=True,
            input=("text", "image"),
            min_cache_tokens=self.profile.minimum(model_id),
            prices=recorded_prices(self._entries, provider, model_id) or known.prices,
            dialect=dialect,
            api_key_env=None,
            headers=_KEYS,
            options={},
            verbs=(),
        )


def recorded_prices(entries: Sequence[Entry], provider: str, model_id: str) -> Prices | None:
    """The prices of a model in US dollars per million tokens, from what its answers cost.

    None when nothing was priced. A kind of token that was never paid for is free here.
    """
    tokens, dollars = [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]
    as_of = ""
    for entry in entries:
        answer = entry.message
        if not isinstance(answer, AssistantMessage) or answer.usage is None:
            continue
        cost = answer.usage.cost
        if cost is None or (answer.provider, answer.model) != (provider, model_id):
            continue
        used = answer.usage
        counts = (used.input, used.output, used.cache_read or 0, used.cache_write or 0)
        paid = (cost.input, cost.output, cost.cache_read, cost.cache_write)
        tokens = [a + b for a, b in zip(tokens, counts, strict=True)]
        dollars = [a + b for a, b in zip(dollars, paid, strict=True)]
        as_of = entry.timestamp[:10]
    if not any(dollars):
        return None
    fresh, output, read, write = (
        round(paid * 1e6 / count, 4) if count else 0.0
        for paid, count in zip(dollars, tokens, strict=True)
    )
    return Prices(fresh, output, read, write, as_of=as_of, source="the recorded session")
