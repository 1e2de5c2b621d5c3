"""A report as one HTML page that needs nothing else: no script, no font, no address.

A content security policy forbids whatever is not on the page, its style is allowed by its hash,
and every text that comes from a session is stripped of keys and control characters and escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from .audit_records import iso
from .cli_text import money, pause, plain, share
from .page_chart import Band, Bar, chart, tokens
from .page_style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .audit_money import Spending, Sums
    from .audit_report import Report, Stretch

_MOST_ROWS: Final = 200
_WIDE_ONLY: Final = ("requests", "prompt tokens")
"""Columns that a narrow screen does without."""

_UNDER: Final = ("owner", "where")
"""Columns that stand under the others on a narrow screen, where the table allows it."""

_FORMATS: Final = {"pi": "Pi's format", "claude-code": "Claude Code", "codex": "Codex"}


def session_page(report: Report) -> str:
    """The page of one session."""
    sums = report.sums
    name = plain(report.path.name)
    bars = [
        Bar(
            f"#{row.index} {iso(row.answer.time)[:16].replace('T', ' ')}".strip(),
            row.answer.read or 0,
            row.answer.written or 0,
            row.answer.fresh,
        )
        for row in report.rows
    ]
    bands = [
        Band(s.number, s.first, f"{s.number}: {plain(s.cause)}", _bad(s)) for s in report.stretches
    ]
    place = " · ".join(
        text
        for text in (plain(report.project), _FORMATS[report.format], ", ".join(report.models))
        if text
    )
    return _page(
        f"Cache report: {name}",
        [
            f"<h1>Cache report</h1><p class=sub>{escape(name)}<br>{escape(place)}</p>",
            _tiles(sums),
            "<h2>Prompt tokens per request</h2>",
            _legend("the numbers are the stretches listed below"),
            chart(bars, bands, "Prompt tokens per request, by what the provider did with them"),
            "<h2>Why the prefix could not go on</h2>",
            _stretches(report),
            _causes("By cause", "cause", report.causes),
            _causes("By owner", "owner", report.owners),
        ],
    )


def spending_page(spending: Spending, title: str) -> str:
    """The page of many sessions: a bar a day."""
    days = sorted((day, sums) for day, sums in spending.days.items())
    bars = [Bar(day, sums.read, sums.written, sums.fresh) for day, sums in days]
    rows = [
        (
            day,
            sums.requests,
            sums.prompt,
            _share(sums),
            sums.misses,
            money(sums.cost),
            money(sums.loss),
        )
        for day, sums in days
    ]
    projects = sorted(spending.projects.items(), key=lambda item: (-item[1].cost, item[0]))
    return _page(
        f"Where the money went: {plain(title)}",
        [
            f"<h1>Where the money went</h1><p class=sub>{escape(plain(title))}<br>"
            f"{spending.files:,} sessions</p>",
            _tiles(spending.total),
            "<h2>Prompt tokens per day</h2>",
            _legend("days are those of UTC"),
            chart(bars, [], "Prompt tokens per day, by what the provider did with them"),
            _causes("By cause of a miss", "cause", spending.causes),
            _causes("By owner of a boundary", "owner", spending.owners),
            "<h2>By project</h2>",
            _table(
                ("project", "requests", "read", "misses", "cost", "lost"),
                [
                    (
                        name,
                        sums.requests,
                        _share(sums),
                        sums.misses,
                        money(sums.cost),
                        money(sums.loss),
                    )
                    for name, sums in projects
                ],
            ),
            "<h2>By day</h2>",
            _table(("day", "requests", "prompt tokens", "read", "misses", "cost", "lost"), rows),
        ],
    )


def _page(title: str, parts: Iterable[str]) -> str:
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n<footer>Made by <code>unipi cache report --html</code> from the usage that the "
        "provider reported. Prices are those of the recording, else examples.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def _tiles(sums: Sums) -> str:
    read = "not reported" if sums.share is None else f"{sums.share:.1%}"
    tiles = (
        (read, "of prompt tokens read from the cache"),
        (f"{sums.requests:,}", f"requests, {tokens(sums.prompt)} prompt tokens"),
        (f"{sums.misses:,}", f"misses, {tokens(sums.repaid)} tokens paid again"),
        (money(sums.loss), f"lost by misses, of {money(sums.cost)}"),
    )
    return (
        "<dl class=tiles>"
        + "".join(f"<div><dt>{escape(t)}</dt><dd>{escape(v)}</dd></div>" for v, t in tiles)
        + "</dl>"
    )


def _legend(note: str) -> str:
    names = {"read": "read", "written": "written", "fresh": "fresh (neither)"}
    keys = "".join(f'<span><i class="{k}"></i>{escape(text)}</span>' for k, text in names.items())
    return f"<p class=legend>{keys}<span>{escape(note)}</span></p>"


def _bad(stretch: Stretch) -> bool:
    return stretch.avoidable or stretch.cause == "unexplained"


def _stretches(report: Report) -> str:
    """The stretches as a table; of very many, the dearest, in their order."""
    shown = report.stretches
    note = ""
    if len(shown) > _MOST_ROWS:
        dearest = sorted(shown, key=lambda s: (s.loss or 0, s.repaid), reverse=True)[:_MOST_ROWS]
        shown = sorted(dearest, key=lambda s: s.number)
        note = f"<p class=sub>The dearest {_MOST_ROWS} of {len(report.stretches):,}.</p>"
    owned = any(stretch.owner for stretch in shown)
    rows = []
    for stretch in shown:
        row = report.rows[stretch.first]
        behind = f"after {pause(row.seconds)}" if stretch.first else ""
        where = {"prompt": "at a new prompt", "run": "within a run"}.get(row.at, "")
        if stretch.recorded:
            where = plain(stretch.detail)
        cells: list[object] = [stretch.number, plain(stretch.cause)]
        if owned:
            cells.append(plain(stretch.owner) + (" (avoidable)" * stretch.avoidable))
        cells += [stretch.requests, stretch.repaid, money(stretch.loss) if stretch.lost else "-"]
        rows.append([*cells, ", ".join(text for text in (behind, where) if text)])
    owner = ("owner",) if owned else ()
    heads = ("no.", "cause", *owner, "requests", "paid again", "lost", "where")
    return _table(heads, rows, "stack") + note


def _causes(title: str, name: str, table: Mapping[str, Sums]) -> str:
    if not table:
        return ""
    ordered = sorted(table.items(), key=lambda item: (-item[1].loss, -item[1].repaid, item[0]))
    rows = [(plain(k), s.misses, s.repaid, money(s.loss)) for k, s in ordered]
    return f"<h2>{escape(title)}</h2>" + _table((name, "misses", "paid again", "lost"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]], kind: str = "plain") -> str:
    if not rows:
        return "<p class=sub>Nothing.</p>"
    right = [all(_number(row[index]) for row in rows) for index in range(len(heads))]
    marks = [_classes(flush, name) for flush, name in zip(right, heads, strict=True)]
    top = "".join(f"<th{m}>{escape(text)}</th>" for m, text in zip(marks, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{m}>{escape(_cell(cell))}</td>" for m, cell in zip(marks, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table class={kind}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _classes(flush: bool, name: str) -> str:
    kinds = (("n", flush), ("wide", name in _WIDE_ONLY), ("under", name in _UNDER))
    names = [kind for kind, holds in kinds if holds]
    return f' class="{" ".join(names)}"' if names else ""


def _number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value[:1] in ("$", "-"))


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else plain(str(value))


def _share(sums: Sums) -> str:
    return share(sums.read, sums.told)
