"""What a replay found: shares, epochs, and each miss with its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi.sim import Profile
    from unipi_hookspecs import JSON, Boundary


_SHARE: Final = 0.9


@frozen
class Sent:
    """One request as the simulator saw it.

    `gap` is the seconds since the request before, on the recording's clock; `boundary` is the one
    that this request crossed.
    """

    model: str
    gap: float
    prompt: int
    cached: int
    boundary: Boundary | None
    user_text: bool
    answered: bool


@frozen
class Epoch:
    """A stretch of requests with one prefix, and why it began."""

    number: int
    cause: str
    owner: str
    avoidable: bool
    tokens_lost: int = 0
    price: float | None = None

    @classmethod
    def of(cls, boundary: Boundary) -> Epoch:
        """The epoch that a boundary begins."""
        return cls(
            boundary.number,
            boundary.cause,
            boundary.owner,
            boundary.avoidable,
            boundary.tokens_lost,
            boundary.price,
        )


@frozen
class Miss:
    """An answer that read under 90 % of the prompt of the answer before; `index` counts answers
    from 0, `tokens` were paid for again.
    """

    index: int
    cause: str
    tokens: int


@frozen
class ReplayReport:
    """A replay's result; shares are of prompt tokens, from 0 to 1.

    `recorded_share` is that of `unipi cache audit`, `attained_share` read / (read + written +
    fresh) over the answered requests. `unsent` counts recorded answers to no question: nothing
    stood before them that a host could have sent.
    """

    file: str
    api: str
    requests: int
    answered: int
    recorded_share: float
    recorded_misses: int
    recorded_tokens: int
    attained_share: float
    violations: int
    epochs: tuple[Epoch, ...]
    misses: tuple[Miss, ...]
    unsent: int = 0

    @property
    def tokens_paid_again(self) -> int:
        return sum(miss.tokens for miss in self.misses)

    def to_json(self) -> dict[str, JSON]:
        """The report as `unipi replay --json` prints it."""
        return {
            "requests": self.requests,
            "recorded_share": round(self.recorded_share, 6),
            "attained_share": round(self.attained_share, 6),
            "violations": self.violations,
            "epochs": [
                {
                    "number": epoch.number,
                    "cause": epoch.cause,
                    "owner": epoch.owner,
                    "avoidable": epoch.avoidable,
                }
                for epoch in self.epochs
            ],
            "misses": [
                {"index": miss.index, "cause": miss.cause, "tokens": miss.tokens}
                for miss in self.misses
            ],
            "api": self.api,
            "file": self.file,
            "answered": self.answered,
            "unsent": self.unsent,
        }


def find_misses(requests: Sequence[Sent], profile: Profile) -> tuple[Miss, ...]:
    """The misses among requests in the order sent; the first cause that holds is given.

    A cause is that of the boundary crossed since the answer before; else `idle` (the entries had
    outlived the provider's TTL), `minimum` (the prompt before was too short to be kept),
    `granularity` (only what the provider rounds off was lost), `thinking_stripped` (the model drops
    old thinking from its prompt), `unexplained`.
    """
    misses: list[Miss] = []
    before: Sent | None = None
    since: list[Sent] = []
    index = 0
    for request in requests:
        since.append(request)
        if not request.answered:
            continue  # but what it sent is cached as well
        if before is not None and request.cached < _SHARE * before.prompt:
            cause = _cause(before, since, profile)
            misses.append(Miss(index, cause, before.prompt - request.cached))
        before, since = request, []
        index += 1
    return tuple(misses)


def _cause(before: Sent, since: Sequence[Sent], profile: Profile) -> str:
    request = since[-1]
    for sent in since:
        if sent.boundary is not None:
            return sent.boundary.cause
    if profile.ttl is not None and any(sent.gap > profile.ttl for sent in since):
        return "idle"
    if before.prompt < profile.minimum(request.model):
        return "minimum"
    if before.prompt - request.cached < profile.granularity:
        return "granularity"
    strips = request.model.startswith(profile.strips_thinking)
    if strips and any(sent.user_text for sent in since):
        return "thinking_stripped"
    return "unexplained"
