"""Models and prices, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import Factory, field, frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON

Purpose: TypeAlias = Literal[
    "turn", "compaction", "branch_summary", "helper", "side_thread", "title", "other"
]
ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@shown
@frozen(repr=False)
class Prices:
    """US dollars per million tokens; `as_of` is the day they were read, `source` where."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float | None = None
    as_of: str = ""
    source: str = ""


@shown
@frozen(repr=False)
class Model:
    """A model that a provider serves.

    `context_window` and `max_tokens` are in tokens; `min_cache_tokens` is the shortest prefix the
    provider caches. `options` are members added to the head of each request as they are. With
    `binds_thinking` the provider refuses thinking whose prefix has changed. `verbs` are the changes
    that the model can be told at the end of a conversation.
    """

    provider: str
    id: str
    api: str
    base_url: str
    context_window: int = 200_000
    max_tokens: int = 8_192
    reasoning: bool = False
    input: Sequence[str] = ("text",)
    min_cache_tokens: int = 1_024
    prices: Prices | None = None
    dialect: str = ""
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default=Factory(dict), repr=False)
    options: Mapping[str, JSON] = Factory(dict)
    binds_thinking: bool = False
    verbs: Sequence[str] = ()

    @property
    def name(self) -> str:
        """`provider/id`, the form that `--model` takes."""
        return f"{self.provider}/{self.id}"


@shown
@frozen(repr=False)
class RequestInfo:
    """The identity of one provider request. `attempt` counts from 0 and resends the same bytes."""

    request_id: str
    attempt: int
    purpose: Purpose
    provider: str
    api: str
    model: str
    epoch: int
