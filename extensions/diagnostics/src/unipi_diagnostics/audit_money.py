"""Where the money went: sums by day, project and cause that grow with none of the sessions."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from .audit_records import day

if TYPE_CHECKING:
    from pathlib import Path

    from .audit import Auditor, Judged
    from .audit_rates import PriceBook
    from .audit_records import Answer

TOP: Final = 20
"""Files and faults that are listed by name; of the rest only the sums are kept."""

_REMEMBERED: Final = 200_000
"""Answers of one folder that are known again when another file has a copy of them."""


@define
class Sums:
    """Totals of answers, in tokens and US dollars.

    `read` and the rest of a prompt cover every answer that states its usage. `told` counts the
    prompt tokens of the answers whose provider reports what it read; a share is of those.
    `unpriced` answers are in no sum of money. `lost` is what the prompts before had and was not
    read back, `repaid` what of it was paid for again, `loss` what that cost above a read.
    """

    requests: int = 0
    prompt: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0
    output: int = 0
    told: int = 0
    cost: float = 0.0
    unpriced: int = 0
    misses: int = 0
    lost: int = 0
    repaid: int = 0
    loss: float = 0.0
    avoidable: int = 0

    def answer(self, answer: Answer, cost: float | None) -> None:
        self.requests += 1
        if cost is None:
            self.unpriced += 1
        else:
            self.cost += cost
        if not answer.reported:
            return
        self.prompt += answer.prompt
        self.read += answer.read or 0
        self.written += answer.written or 0
        self.fresh += answer.fresh
        self.output += answer.output
        self.told += answer.prompt if answer.read is not None else 0

    def miss(self, judged: Judged, loss: float | None) -> None:
        self.misses += 1
        self.lost += judged.lost
        self.repaid += judged.repaid
        self.loss += loss or 0.0
        self.avoidable += judged.avoidable

    @property
    def share(self) -> float | None:
        """Read over the prompts of those who report it, from 0 to 1; None where nobody does."""
        return self.read / self.told if self.told else None


@frozen(order=True)
class FileSums:
    """One file's part. The order is that of money lost, then of tokens."""

    loss: float
    repaid: int
    name: str
    project: str
    misses: int
    requests: int
    cost: float


@define
class Spending:
    """Sums over many files. `since` (Unix milliseconds) leaves out what is older."""

    prices: PriceBook
    since: int = 0
    files: int = 0
    copies: int = 0
    total: Sums = field(factory=Sums)
    days: dict[str, Sums] = field(factory=dict)
    projects: dict[str, Sums] = field(factory=dict)
    causes: dict[str, Sums] = field(factory=dict)
    owners: dict[str, Sums] = field(factory=dict)
    worst: list[FileSums] = field(factory=list)
    skipped: int = 0
    problems: list[str] = field(factory=list)
    _folder: str = ""
    _known: set[int] = field(factory=set)

    def skip(self, problem: str) -> None:
        """Count a file that could not be read; the first few are remembered by name."""
        self.skipped += 1
        if len(self.problems) < TOP:
            self.problems.append(problem)

    def start(self, path: Path) -> OneFile:
        """Begin a file. Copies of an answer are known again within one folder."""
        folder = str(path.parent)
        if folder != self._folder:
            self._folder = folder
            self._known.clear()
        return OneFile(self, path.name)

    def is_copy(self, answer: Answer) -> bool:
        """Whether an answer was counted before: forks and resumed sessions carry the old ones."""
        mark = hash((answer.key or answer.time, answer.model, answer.prompt, answer.output))
        if mark in self._known:
            return True
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.add(mark)
        return False


@define
class OneFile:
    """Adds the records of one file to the whole."""

    whole: Spending
    name: str
    sums: Sums = field(factory=Sums)

    def failed(self, answer: Answer, project: str) -> None:
        """An answer that failed or was aborted: what it cost is paid."""
        self._count(answer, project)

    def judged(self, judged: Judged, project: str) -> None:
        self._count(judged.answer, project, judged)

    def end(self, auditor: Auditor) -> None:
        """Close the file, and keep it by name if it is one of the worst."""
        whole, sums = self.whole, self.sums
        whole.files += 1
        row = FileSums(
            sums.loss,
            sums.repaid,
            self.name,
            auditor.place.project,
            sums.misses,
            sums.requests,
            sums.cost,
        )
        if sums.misses and len(whole.worst) < TOP:
            heapq.heappush(whole.worst, row)
        elif sums.misses:
            heapq.heappushpop(whole.worst, row)

    def _count(self, answer: Answer, project: str, judged: Judged | None = None) -> None:
        whole = self.whole
        whole.prices.learn(answer)
        if answer.time < whole.since or whole.is_copy(answer):
            whole.copies += answer.time >= whole.since
            return
        cost = whole.prices.cost(answer)
        places = [
            self.sums,
            whole.total,
            whole.days.setdefault(day(answer.time), Sums()),
            whole.projects.setdefault(project or "unknown", Sums()),
        ]
        for sums in places:
            sums.answer(answer, cost)
        if judged is None or not judged.missed:
            return
        places.append(whole.causes.setdefault(judged.cause, Sums()))
        if judged.owner:
            places.append(whole.owners.setdefault(judged.owner, Sums()))
        loss = whole.prices.loss(judged)
        for sums in places:
            sums.miss(judged, loss)
