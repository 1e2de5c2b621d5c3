"""`unipi cache audit`: one session's misses, many sessions' money, or bare request bodies."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .audit import CAUSES, Auditor
from .audit_files import session_files, spend
from .audit_money import Spending
from .audit_records import iso
from .cli_text import money, plain, share
from .readers import NotASessionError, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from unipi_hookspecs import CliHost

    from .audit import Judged
    from .audit_money import Sums
    from .requests_audit import Row


def one(host: CliHost, path: Path, ttl: float | None, *, as_json: bool) -> None:
    """The misses of one session."""
    auditor = Auditor(ttl)
    try:
        _, records = read(path)
        misses = [judged for judged in auditor.judge(records) if judged.missed]
    except NotASessionError as error:
        host.fail(plain(str(error), 1_000), 2)
    except OSError as error:
        host.fail(f"{plain(str(path), 1_000)}: {error.strerror or 'cannot be read'}", 2)
    if as_json:
        host.print_json(_one_json(auditor, misses))
        return
    if misses:
        _print_misses(host, misses)
    unreported = f", {auditor.unreported} without cache figures" if auditor.unreported else ""
    click.echo(
        f"{auditor.answered:,} answered{unreported}, {len(misses)} misses, "
        f"{sum(miss.lost for miss in misses):,} tokens paid again, "
        f"{auditor.share:.1%} of all prompt tokens read from the cache"
    )


def many(
    host: CliHost, paths: Sequence[Path], ttl: float | None, since: str | None, *, as_json: bool
) -> None:
    """Where the money went, over files and folders."""
    spending = gather(host, paths, ttl, since)
    if as_json:
        host.print_json(spending_json(spending))
    else:
        print_spending(host, spending)


def gather(host: CliHost, paths: Sequence[Path], ttl: float | None, since: str | None) -> Spending:
    """Add up every session under `paths`, with a bar on the terminal while it takes its time."""
    from .cli import prices

    spending = Spending(prices(host), since=_since(host, since))
    files = session_files(paths)
    with _progress(files) as step:
        spend(spending, files, ttl, step)
    if not spending.files:
        why = f": {plain(spending.problems[0], 1_000)}" if spending.problems else ""
        host.fail(f"no session was found there{why}", 2)
    return spending


def requests(host: CliHost, path: Path, *, as_json: bool) -> None:
    """Request bodies, each compared with the one that it goes on from."""
    from .requests_audit import Row, compare_file, summary

    rows: list[Row] = []
    skipped: list[int] = []
    try:
        for found in compare_file(path):
            if isinstance(found, Row):
                rows.append(found)
            else:
                skipped.append(found.line)
    except OSError as error:
        host.fail(f"{plain(str(path), 1_000)}: {error.strerror or 'cannot be read'}", 2)
    if not rows:
        host.fail(f"{plain(str(path), 1_000)} holds no request body, one a line", 2)
    counts = summary(rows)
    if as_json:
        document = {**counts, "skipped_lines": skipped[:100]}
        host.print_json({**document, "rows": [row.to_json() for row in rows]})
        return
    _print_requests(host, rows)
    lines = f", {len(skipped):,} lines hold none" if skipped else ""
    click.echo(
        f"{counts['requests']:,} requests in {counts['conversations']:,} conversations, "
        f"{counts['breaks']:,} broke the prefix{lines}"
    )


def _print_requests(host: CliHost, rows: Sequence[Row]) -> None:
    host.print_table(
        "Requests",
        ("request", "transition", "location", "kind", "surviving bytes"),
        [
            (
                row.index,
                row.finding.transition,
                plain(row.finding.location, 400) or "-",
                " ".join(filter(None, (row.finding.kind, _in_brackets(row.finding.detail)))) or "-",
                row.finding.surviving_bytes,
            )
            for row in rows
        ],
    )


def _in_brackets(detail: str) -> str:
    return f"({plain(detail)})" if detail else ""


def _one_json(auditor: Auditor, misses: Sequence[Judged]) -> dict[str, object]:
    names = [cause for cause in CAUSES if any(miss.cause == cause for miss in misses)]
    names += sorted({miss.cause for miss in misses} - set(CAUSES))
    causes: dict[str, object] = {}
    for name in names:
        own = [miss for miss in misses if miss.cause == name]
        causes[plain(name)] = {"misses": len(own), "tokens": sum(miss.lost for miss in own)}
    return {
        "answered": auditor.answered,
        "misses": len(misses),
        "tokens_paid_again": sum(miss.lost for miss in misses),
        "recorded_share": round(auditor.share, 6),
        "by_cause": causes,
        "rows": [
            {
                "index": miss.index,
                "line": miss.answer.line,
                "entry": plain(miss.answer.entry),
                "timestamp": iso(miss.answer.time),
                "seconds": miss.seconds,
                "tokens": miss.lost,
                "cause": plain(miss.cause),
                "owner": plain(miss.owner) or None,
                "at": miss.at,
                "lane": plain(miss.answer.lane),
            }
            for miss in misses
        ],
        "unreported": auditor.unreported,
    }


def _print_misses(host: CliHost, misses: Sequence[Judged]) -> None:
    host.print_table(
        "Misses",
        ("answer", "entry", "time", "after s", "paid again", "cause"),
        [
            (
                miss.index,
                plain(miss.answer.entry, 12),
                iso(miss.answer.time)[:16].replace("T", " "),
                round(miss.seconds),
                miss.lost,
                plain(miss.cause),
            )
            for miss in misses
        ],
    )
    causes: dict[str, list[int]] = {}
    for miss in misses:
        causes.setdefault(plain(miss.cause), []).append(miss.lost)
    ordered = sorted(causes.items(), key=lambda item: (-sum(item[1]), item[0]))
    host.print_table(
        "By cause",
        ("cause", "misses", "tokens paid again"),
        [(cause, len(lost), sum(lost)) for cause, lost in ordered],
    )


def print_spending(host: CliHost, spending: Spending) -> None:
    """Where the money went, as tables."""
    total = spending.total
    for title, name, table in (
        ("By day (UTC)", "day", sorted(spending.days.items())),
        ("By project", "project", _dearest(spending.projects)),
    ):
        host.print_table(
            title,
            (name, "requests", "read", "misses", "paid again", "cost", "lost"),
            [
                (
                    plain(key),
                    sums.requests,
                    share(sums.read, sums.told),
                    sums.misses,
                    sums.repaid,
                    money(sums.cost),
                    money(sums.loss),
                )
                for key, sums in table
            ],
        )
    for title, name, table in (
        ("By cause of a miss", "cause", _dearest(spending.causes)),
        ("By owner of a boundary", "owner", _dearest(spending.owners)),
    ):
        if table:
            host.print_table(
                title,
                (name, "misses", "paid again", "lost"),
                [(plain(key), s.misses, s.repaid, money(s.loss)) for key, s in table],
            )
    skipped = f", {spending.skipped:,} files were no sessions" if spending.skipped else ""
    unpriced = f", {total.unpriced:,} answers without a price" if total.unpriced else ""
    click.echo(
        f"{spending.files:,} sessions{skipped}, {total.requests:,} requests{unpriced}, "
        f"{total.misses:,} misses, {total.repaid:,} tokens paid again, "
        f"{money(total.loss)} lost of {money(total.cost)}"
    )


def spending_json(spending: Spending) -> dict[str, object]:
    """Where the money went, as one document."""
    return {
        "files": spending.files,
        "skipped": spending.skipped,
        "problems": [plain(problem, 1_000) for problem in spending.problems],
        "copies": spending.copies,
        "total": _sums_json(spending.total),
        "by_day": {plain(k): _sums_json(s) for k, s in sorted(spending.days.items())},
        "by_project": {plain(k, 1_000): _sums_json(s) for k, s in _dearest(spending.projects)},
        "by_cause": {plain(k): _sums_json(s) for k, s in _dearest(spending.causes)},
        "by_owner": {plain(k): _sums_json(s) for k, s in _dearest(spending.owners)},
        "worst_files": [
            {
                "file": plain(row.name),
                "project": plain(row.project, 1_000),
                "requests": row.requests,
                "misses": row.misses,
                "tokens_paid_again": row.repaid,
                "cost": round(row.cost, 6),
                "loss": round(row.loss, 6),
            }
            for row in sorted(spending.worst, reverse=True)
        ],
    }


def _sums_json(sums: Sums) -> dict[str, object]:
    return {
        "requests": sums.requests,
        "prompt_tokens": sums.prompt,
        "read_tokens": sums.read,
        "written_tokens": sums.written,
        "fresh_tokens": sums.fresh,
        "output_tokens": sums.output,
        "read_share": None if sums.share is None else round(sums.share, 6),
        "cost": round(sums.cost, 6),
        "unpriced": sums.unpriced,
        "misses": sums.misses,
        "tokens_lost": sums.lost,
        "tokens_paid_again": sums.repaid,
        "loss": round(sums.loss, 6),
        "avoidable": sums.avoidable,
    }


def _dearest(table: Mapping[str, Sums]) -> list[tuple[str, Sums]]:
    """Names and sums, the most money first, then the most tokens paid again."""
    return sorted(
        table.items(), key=lambda item: (-item[1].cost, -item[1].loss, -item[1].repaid, item[0])
    )


def _since(host: CliHost, text: str | None) -> int:
    from .audit_records import milliseconds

    if text is None:
        return 0
    found = milliseconds(text)
    if not found:
        host.fail(f"--since takes a date such as 2026-11-01, not {plain(text)!r}", 2)
    return found


@contextmanager
def _progress(files: Sequence[Path]) -> Iterator[Callable[[int], None] | None]:
    """A bar over all bytes on standard error, where that is a terminal and there are many files."""
    if len(files) < 2 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    total = 0
    for path in files:
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it is reported when its turn comes
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{len(files):,} files", total=total or None)
        yield lambda size: progress.advance(task, size)
