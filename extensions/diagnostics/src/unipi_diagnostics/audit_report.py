"""One session's requests, and the stretches between what ended the cached prefix.

A stretch begins at the first request, at a boundary that the host recorded, and at every miss. In
a session of ours that is an epoch, or a part of one in which the provider lost what it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen

from .audit import Auditor, Judged
from .audit_money import Sums
from .audit_records import Answer, iso
from .cli_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .audit_rates import PriceBook
    from .audit_records import Record


@frozen
class Stretch:
    """Requests `first` to `last` (indices of `Report.rows`), and why they could not go on before.

    `lost` and `repaid` are from the provider's own figures, `loss` is money above a read. For a
    boundary of the host's ledger `owner` and `avoidable` are its own, and `expected` the tokens
    that it reckoned with.
    """

    number: int
    first: int
    last: int
    cause: str
    owner: str = ""
    avoidable: bool = False
    lost: int = 0
    repaid: int = 0
    loss: float | None = None
    expected: int = 0
    detail: str = ""
    recorded: bool = False

    @property
    def requests(self) -> int:
        return self.last - self.first + 1


@define
class Report:
    """Everything that is shown of one session: numbers, names and times."""

    path: Path
    format: str
    project: str = ""
    session: str = ""
    models: list[str] = field(factory=list)
    rows: list[Judged] = field(factory=list)
    stretches: list[Stretch] = field(factory=list)
    sums: Sums = field(factory=Sums)
    causes: dict[str, Sums] = field(factory=dict)
    owners: dict[str, Sums] = field(factory=dict)
    unreported: int = 0

    @property
    def misses(self) -> list[Judged]:
        return [row for row in self.rows if row.missed]


def make_report(
    path: Path, kind: str, records: Iterable[Record], prices: PriceBook, ttl: float | None = None
) -> Report:
    """Judge a session's records and put the stretches together."""
    auditor, report = Auditor(ttl), Report(path, kind)
    failed: list[Answer] = []
    for record in records:
        judged = auditor.take(record)
        if isinstance(record, Answer):
            prices.learn(record)
            if judged is None:
                failed.append(record)
        if judged is not None:
            report.rows.append(judged)
    for answer in [*(row.answer for row in report.rows), *failed]:
        report.sums.answer(answer, prices.cost(answer))
        name = plain(answer.model)
        if name and name not in report.models:
            report.models.append(name)
    for row in report.rows:
        _stretch(report, row, prices)
        if row.missed:
            loss = prices.loss(row)
            _add(report.causes, row.cause, row, loss)
            report.sums.miss(row, loss)
            if row.owner:
                _add(report.owners, row.owner, row, loss)
    report.project, report.session = auditor.place.project, auditor.place.session
    report.unreported = auditor.unreported
    return report


def _add(table: dict[str, Sums], name: str, row: Judged, loss: float | None) -> None:
    table.setdefault(name, Sums()).miss(row, loss)


def _stretch(report: Report, row: Judged, prices: PriceBook) -> None:
    """Open a new stretch at this row, or let the open one go on."""
    stretches, boundary = report.stretches, row.boundary
    if stretches and boundary is None and not row.missed:
        stretches[-1] = evolve(stretches[-1], last=row.index)
        return
    cause = boundary.cause if boundary else row.cause
    stretches.append(
        Stretch(
            number=len(stretches) + 1,
            first=row.index,
            last=row.index,
            cause=cause or "first",
            owner=boundary.owner if boundary else "",
            avoidable=boundary.avoidable if boundary else False,
            lost=row.lost,
            repaid=row.repaid,
            loss=prices.loss(row) if row.missed else None,
            expected=boundary.tokens if boundary else 0,
            detail=boundary.detail if boundary else "",
            recorded=boundary is not None,
        )
    )


def to_json(report: Report) -> dict[str, object]:
    """The report as `unipi cache report --json` prints it."""
    sums = report.sums
    return {
        "file": plain(str(report.path), 1_000),
        "format": report.format,
        "session": plain(report.session),
        "project": plain(report.project, 1_000),
        "models": report.models,
        "requests": sums.requests,
        "prompt_tokens": sums.prompt,
        "read_tokens": sums.read,
        "written_tokens": sums.written,
        "fresh_tokens": sums.fresh,
        "output_tokens": sums.output,
        "read_share": _round(sums.share),
        "cost": _round(sums.cost),
        "unpriced": sums.unpriced,
        "misses": sums.misses,
        "tokens_lost": sums.lost,
        "tokens_paid_again": sums.repaid,
        "loss": _round(sums.loss),
        "avoidable": sum(stretch.avoidable for stretch in report.stretches),
        "unreported": report.unreported,
        "by_cause": sums_by_name(report.causes),
        "by_owner": sums_by_name(report.owners),
        "stretches": [_stretch_json(stretch) for stretch in report.stretches],
        "rows": [_row_json(row) for row in report.rows],
    }


def sums_by_name(table: dict[str, Sums]) -> dict[str, object]:
    """Misses by name, the dearest first."""
    ordered = sorted(table.items(), key=lambda item: (-item[1].loss, -item[1].repaid, item[0]))
    return {
        plain(name, 1_000): {
            "misses": sums.misses,
            "tokens_lost": sums.lost,
            "tokens_paid_again": sums.repaid,
            "loss": _round(sums.loss),
        }
        for name, sums in ordered
    }


def _stretch_json(stretch: Stretch) -> dict[str, object]:
    return {
        "number": stretch.number,
        "first": stretch.first,
        "last": stretch.last,
        "cause": plain(stretch.cause),
        "owner": plain(stretch.owner) or None,
        "avoidable": stretch.avoidable,
        "tokens_lost": stretch.lost,
        "tokens_paid_again": stretch.repaid,
        "loss": _round(stretch.loss),
        "expected_tokens": stretch.expected,
        "detail": plain(stretch.detail),
    }


def _row_json(row: Judged) -> dict[str, object]:
    answer = row.answer
    return {
        "index": row.index,
        "line": answer.line,
        "entry": plain(answer.entry),
        "timestamp": iso(answer.time),
        "seconds": row.seconds,
        "model": plain(answer.model),
        "lane": plain(answer.lane),
        "prompt": answer.prompt,
        "read": answer.read,
        "written": answer.written,
        "fresh": answer.fresh,
        "at": row.at,
        "cause": plain(row.cause) or None,
        "tokens_lost": row.lost,
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
