"""Models and prices, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import Factory, field, frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON

Purpose: TypeAlias = Literal[
    "turn",
    "compaction",
    "branch_summary",
    "helper",
    "side_thread",
    "title",
    "keep_warm",
    "other",
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
    that the model can be told at the end of a conversation. With `asks_miss_reason` the provider is
    asked what it thinks has changed since the last request, where its API has a place for that.
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
    asks_miss_reason: bool = False

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


@shown
@frozen(repr=False)
class ContextUsage:
    """How full the model's window is. Sizes are in tokens.

    `tokens` is what the provider reported last and an estimate of what came since; `reported` is the
    first of the two, None before any report. `off_by` is how far such estimates were off so far: the
    sum of their errors over what was then reported, None before the first comparison.
    """

    tokens: int
    window: int
    reported: int | None = None
    off_by: float | None = None


@shown
@frozen(repr=False)
class CacheState:
    """What is known of the provider's cache of a session, at the moment of asking.

    `cold` says that nothing of the prompt is kept any longer; None: the provider promises no time, so
    nobody knows. `why` it is cold: `first` (nothing was sent), `idle` (its time is over), `minimum`
    (the prompt is too short to be kept). `boundary_due` says that the next request begins an epoch
    anyway. `tokens` and `price` (US dollars, None without prices) are what a rewrite would have to
    pay for again: 0 where the cache is cold. `kept_seconds` is the time that the provider promises,
    `seconds_left` the rest of it, negative when it is over.
    """

    cold: bool | None
    why: Literal["", "first", "idle", "minimum"] = ""
    boundary_due: bool = False
    tokens: int = 0
    price: float | None = None
    kept_seconds: int | None = None
    seconds_left: float | None = None

    @property
    def rewrite_is_free(self) -> bool:
        """Whether history can be rewritten now without paying for anything again."""
        return bool(self.cold) or self.boundary_due
