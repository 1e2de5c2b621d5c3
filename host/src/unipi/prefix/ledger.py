"""The epoch ledger: every boundary has a number, a cause, an owner and a price.

A boundary is not necessarily a defect. An unrecorded or avoidable one is (the specification,
"Explicit cache boundaries").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import asdict, frozen

from unipi_hookspecs import Boundary

if TYPE_CHECKING:
    from unipi_hookspecs import JSON, Prices

    from .wire import HeadSpec

Cause: TypeAlias = Literal[
    "first",
    "model",
    "thinking",
    "sampling",
    "system_prompt",
    "tools",
    "workspace",
    "compaction",
    "branch_summary",
    "new",
    "resume",
    "fork",
    "tree",
    "reload",
    "payload_shape",
    "plugin_rewrite",
]
ENTRY_TYPE = "unipi.epoch"


@frozen
class Reason:
    """Why an epoch is about to end. Only what a plugin did without asking is avoidable."""

    cause: str
    owner: str
    avoidable: bool = False
    detail: str = ""


class Ledger:
    """Counts epochs and prices what each boundary lost."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.boundaries: list[Boundary] = []
        self.last_prompt = 0  # tokens of the last prompt, as the provider counted them

    def saw_prompt(self, tokens: int) -> None:
        """Remember the size of the last prompt, in tokens as the provider counted them."""
        self.last_prompt = tokens

    def cross(
        self, reason: Reason, *, surviving: int, total: int, prices: Prices | None
    ) -> Boundary:
        """Begin the next epoch.

        `surviving` of the `total` bytes of the last request are still a prefix of the next one.
        Where the provider reported no prompt size, four bytes count as a token.
        """
        self.number += 1
        share_lost = 1 - surviving / total if total else 0.0
        lost = round((self.last_prompt or total // 4) * share_lost)
        boundary = Boundary(
            number=self.number,
            cause=reason.cause,
            owner=reason.owner,
            avoidable=reason.avoidable,
            tokens_lost=lost,
            price=self.price_of(lost, prices),
            detail=reason.detail,
        )
        self.boundaries.append(boundary)
        return boundary

    @staticmethod
    def price_of(tokens: int, prices: Prices | None) -> float | None:
        """What it costs, in US dollars, to pay for tokens again that could have been read.

        Where writing is free they cost what fresh ones do.
        """
        if prices is None:
            return None
        return tokens * (max(prices.cache_write, prices.input) - prices.cache_read) / 1e6


def to_data(boundary: Boundary) -> dict[str, JSON]:
    """The ledger's line in the session, in the file's camelCase."""
    data: dict[str, JSON] = asdict(boundary)
    data["tokensLost"] = data.pop("tokens_lost")
    return data


def head_change(before: HeadSpec, after: HeadSpec) -> Cause | None:
    """What changed between two heads, the dearest cause first; None when nothing did."""
    if (before.model.provider, before.model.api, before.model.id, before.model.base_url) != (
        after.model.provider,
        after.model.api,
        after.model.id,
        after.model.base_url,
    ):
        return "model"
    if before.thinking != after.thinking:
        return "thinking"
    if (before.max_tokens, before.options) != (after.max_tokens, after.options):
        return "sampling"
    if before.system != after.system:
        return "system_prompt"
    if before.tools != after.tools:
        return "tools"
    return None
