"""`unipi cache`: what the provider's cache did, from recorded sessions."""

from __future__ import annotations

import click

from unipi.session import Session, SessionError, find_session
from unipi.session.audit import CAUSES, DEFAULT_TTL, AuditReport, audit

from ._output import fail, print_json, print_table


@click.group()
def cache() -> None:
    """What the provider's cache did, from recorded sessions."""


@cache.command(name="audit")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--ttl",
    type=click.FloatRange(min=0),
    default=DEFAULT_TTL,
    show_default=True,
    help="Seconds for which the provider keeps a prompt.",
)
def audit_command(file: str, *, as_json: bool, ttl: float) -> None:
    """List the cache misses of a session FILE (or session id) and what they cost.

    A miss is an answer whose prompt was read from the cache for less than 90 % of the prompt
    before it.
    """
    from pathlib import Path

    try:
        with Session.open(find_session(file, Path.cwd()), read_only=True) as session:
            report = audit(session.entries(), ttl)
    except SessionError as error:
        fail(str(error), 2)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)


def _print(report: AuditReport) -> None:
    if report.rows:
        print_table(
            "Misses",
            ("answer", "entry", "time", "after s", "paid again", "cause"),
            [
                (
                    row.index,
                    row.entry_id,
                    row.timestamp[:16].replace("T", " "),
                    round(row.seconds),
                    row.tokens,
                    row.cause,
                )
                for row in report.rows
            ],
        )
        by_cause = [[row for row in report.rows if row.cause == cause] for cause in CAUSES]
        print_table(
            "By cause",
            ("cause", "misses", "tokens paid again"),
            [(rows[0].cause, len(rows), sum(r.tokens for r in rows)) for rows in by_cause if rows],
        )
    unreported = f", {report.unreported} without cache figures" if report.unreported else ""
    click.echo(
        f"{report.answered:,} answered{unreported}, {len(report.rows)} misses, "
        f"{report.tokens_paid_again:,} tokens paid again, "
        f"{report.recorded_share:.1%} of all prompt tokens read from the cache"
    )
