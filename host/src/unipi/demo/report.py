"""What the three sessions came to, and whether each did what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import asdict, frozen

from .plans import CARELESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import Boundary

    from .plans import Plan
    from .provider import Provider


@frozen
class EpochGroup:
    """Epochs of one session that began for the same cause, by the same owner."""

    cause: str
    owner: str
    avoidable: bool
    count: int
    tokens_lost: int
    price: float


@frozen
class Run:
    """One session. Tokens are the provider's count, `cost` is in US dollars at example prices.

    `rewritten` counts requests that are not the last one plus a tail, `violations` those of them
    inside an epoch. `warnings` are pairs: the plugin that the host named, and what it said.
    """

    plan: Plan
    prompts: int
    requests: int
    prompt_tokens: int
    cache_read_tokens: int
    cost: float
    boundaries: Sequence[Boundary]
    rewritten: int
    violations: int
    state_messages: int
    warnings: Sequence[tuple[str, str]]
    strayed: str

    @property
    def share(self) -> float:
        """Prompt tokens read from the cache, from 0 to 1."""
        return self.cache_read_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def broken(self) -> Sequence[Boundary]:
        """The boundaries that need not have been."""
        return [boundary for boundary in self.boundaries if boundary.avoidable]

    @property
    def tokens_lost(self) -> int:
        """Tokens that avoidable boundaries took out of the cache."""
        return sum(boundary.tokens_lost for boundary in self.broken)

    @property
    def named(self) -> Sequence[str]:
        """The plugins that the host named, in order of name."""
        return sorted({plugin for plugin, _ in self.warnings})

    def groups(self) -> list[EpochGroup]:
        """The epochs by cause and owner, in the order in which the first of each began."""
        found: dict[tuple[str, str, bool], list[Boundary]] = {}
        for item in self.boundaries:
            found.setdefault((item.cause, item.owner, item.avoidable), []).append(item)
        return [
            EpochGroup(
                *key,
                count=len(items),
                tokens_lost=sum(item.tokens_lost for item in items),
                price=sum(item.price or 0.0 for item in items),
            )
            for key, items in found.items()
        ]

    def to_json(self) -> dict[str, object]:
        """The documented keys of one run (docs/demo.md)."""
        return {
            "name": self.plan.name,
            "policy": self.plan.policy,
            "plugins": [name for name, _ in self.plan.plugins],
            "prompts": self.prompts,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "read_share": self.share,
            "cost": self.cost,
            "epochs": [asdict(boundary) for boundary in self.boundaries],
            "avoidable": len(self.broken),
            "tokens_lost": self.tokens_lost,
            "rewritten": self.rewritten,
            "violations": self.violations,
            "state_messages": self.state_messages,
            "named": list(self.named),
            "warnings": [text for _, text in self.warnings],
        }


@frozen
class DemoReport:
    """All three sessions, in the order of `PLANS`, and who answered."""

    provider: Provider
    steady: Run
    record: Run
    enforce: Run

    @property
    def runs(self) -> tuple[Run, Run, Run]:
        return self.steady, self.record, self.enforce

    def problems(self) -> list[str]:
        """What did not come out as it must; nothing when all is well."""
        found = [f"{run.plan.name}: {run.strayed}" for run in self.runs if run.strayed]
        for run in self.runs:
            if run.violations:
                found.append(
                    f"{run.plan.name}: {run.violations} requests do not extend the last one "
                    "of their epoch, byte for byte"
                )
        for run in (self.steady, self.enforce):
            if len(run.boundaries) != 1:
                found.append(f"{run.plan.name}: {len(run.boundaries)} epochs where 1 was due")
            if run.rewritten:
                found.append(f"{run.plan.name}: {run.rewritten} requests do not extend the last")
        if self.steady.state_messages < 2:
            found.append("steady: the model was not told of the changing state")
        if self.steady.warnings:
            found.append(f"steady: the host complained: {self.steady.warnings[0][1]}")
        owners = sorted({boundary.owner for boundary in self.record.broken})
        if owners != [CARELESS]:
            who = ", ".join(owners) or "nobody"
            found.append(f"record: the broken prefix is owned by {who}, not by {CARELESS!r}")
        for run in (self.record, self.enforce):
            if CARELESS not in run.named:
                found.append(f"{run.plan.name}: {CARELESS!r} was not named")
        return found

    def conclusion(self) -> str:
        """The demo in one line, with its numbers."""
        steady, record, enforce = self.runs
        return (
            f"Held: {steady.share:.1%} from cache, ${steady.cost:.4f}. "
            f"Broken by {CARELESS!r}: {record.share:.1%}, ${record.cost:.4f}, "
            f"{record.tokens_lost:,} tokens paid again. "
            f"Refused: {enforce.share:.1%}, ${enforce.cost:.4f}."
        )

    def to_json(self) -> dict[str, object]:
        """The document of `unipi demo --json` (docs/demo.md)."""
        problems = self.problems()
        return {
            "provider": {
                "kind": self.provider.kind,
                "title": self.provider.title,
                "why": self.provider.why,
                "api": self.provider.api,
            },
            "prices": asdict(self.provider.prices),
            "runs": [run.to_json() for run in self.runs],
            "conclusion": self.conclusion(),
            "problems": problems,
            "ok": not problems,
        }
