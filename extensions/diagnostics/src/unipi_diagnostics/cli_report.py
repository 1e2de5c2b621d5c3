"""`unipi cache report`: a session's stretches and their causes, as tables, JSON or a page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .audit_report import make_report, to_json
from .cli_text import money, pause, plain, share
from .readers import NotASessionError, read

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import CliHost

    from .audit_report import Report


def one(host: CliHost, path: Path, ttl: float | None, html: Path | None, *, as_json: bool) -> None:
    """Report one session."""
    from .cli import prices

    try:
        kind, records = read(path)
        report = make_report(path, kind, records, prices(host), ttl)
    except NotASessionError as error:
        host.fail(plain(str(error), 1_000), 2)
    except OSError as error:
        host.fail(f"{plain(str(path), 1_000)}: {error.strerror or 'cannot be read'}", 2)
    if html is not None:
        from .page import session_page

        _write(host, html, session_page(report))
    if as_json:
        host.print_json(to_json(report))
    elif html is None:
        _print(host, report)


def everything(
    host: CliHost, ttl: float | None, since: str | None, html: Path | None, *, as_json: bool
) -> None:
    """Report all sessions of the user."""
    from .cli_audit import gather, print_spending, spending_json

    if not host.sessions_dir.is_dir():
        host.fail(f"no session lies under {host.sessions_dir}; begin with `unipi run`", 2)
    spending = gather(host, [host.sessions_dir], ttl, since)
    if html is not None:
        from .page import spending_page

        title = f"all sessions since {since}" if since else "all sessions"
        _write(host, html, spending_page(spending, title))
    if as_json:
        host.print_json(spending_json(spending))
    elif html is None:
        print_spending(host, spending)


def _write(host: CliHost, path: Path, page: str) -> None:
    """Write the page, readable by its owner alone, whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(page)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        host.fail(f"{path} cannot be written: {error.strerror or error}")
    click.echo(f"wrote {path}", err=True)


def _print(host: CliHost, report: Report) -> None:
    sums = report.sums
    _print_stretches(host, report)
    for title, name, table in (
        ("By cause", "cause", report.causes),
        ("By owner", "owner", report.owners),
    ):
        if table:
            ordered = sorted(table.items(), key=lambda item: (-item[1].loss, -item[1].repaid))
            host.print_table(
                title,
                (name, "misses", "lost", "paid again", "cost"),
                [(plain(k), s.misses, s.lost, s.repaid, money(s.loss)) for k, s in ordered],
            )
    silent = f" ({report.unreported} answers without cache figures)" if report.unreported else ""
    click.echo(
        f"{sums.requests:,} requests{silent}, {sums.prompt:,} prompt tokens: "
        f"{sums.read:,} read, {sums.written:,} written, {sums.fresh:,} fresh; "
        f"{share(sums.read, sums.told)} read from the cache"
    )
    click.echo(
        f"{sums.misses:,} misses, {sums.lost:,} tokens lost, {sums.repaid:,} of them paid again, "
        f"{money(sums.loss)} of {money(sums.cost)}"
    )


def _print_stretches(host: CliHost, report: Report) -> None:
    """The stretches as the provider's figures show them, then what the host's ledger adds."""
    rows: list[list[object]] = []
    for stretch in report.stretches:
        first = report.rows[stretch.first]
        rows.append(
            [
                stretch.number,
                f"#{stretch.first}",
                plain(stretch.cause),
                stretch.repaid,
                money(stretch.loss) if stretch.lost else "-",
                pause(first.seconds) if first.at != "start" else "-",
                first.at,
            ]
        )
    heads = ("no.", "from", "cause", "paid again", "cost", "after", "at")
    host.print_table("Why the prefix could not go on", heads, rows)
    recorded = [stretch for stretch in report.stretches if stretch.recorded]
    if recorded:
        host.print_table(
            "Boundaries that the host recorded",
            ("no.", "cause", "owner", "avoidable", "expected", "detail"),
            [
                (
                    stretch.number,
                    plain(stretch.cause),
                    plain(stretch.owner),
                    "yes" if stretch.avoidable else "no",
                    stretch.expected,
                    plain(stretch.detail) or "-",
                )
                for stretch in recorded
            ],
        )
