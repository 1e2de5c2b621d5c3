"""A chart of prompt tokens as inline SVG: stacked bars, bands behind them, numbers above.

The drawing stretches with the page while its text keeps its size: bars stand in a nested `svg`
that may be distorted, labels at percentages in the outer one. Colours come from the page's CSS.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BARS: Final = 500
"""More requests than that share bars: each is the one of its group that read least, so that no
miss disappears in a mean."""

_TOP, _HEIGHT, _BOTTOM = 26, 220, 22
_TALL = 1_000
_NEAREST: Final = 4.5
"""Percent of the width that two numbers above the bars keep between them."""

KINDS: Final = ("read", "written", "fresh")


@frozen
class Bar:
    """Tokens of one request (or day); `label` names it in the tool tip."""

    label: str
    read: int
    written: int
    fresh: int

    @property
    def total(self) -> int:
        return self.read + self.written + self.fresh


@frozen
class Band:
    """Bars from `first` on stand behind a boundary; `bad` ones were avoidable or unexplained."""

    number: int
    first: int
    label: str
    bad: bool = False


def chart(bars: Sequence[Bar], bands: Sequence[Band], title: str) -> str:
    """The chart as an `svg` element; an empty text when there is nothing to draw."""
    if not bars:
        return ""
    shown, per_bar = _gather(bars)
    count = len(bars) / per_bar  # the last bar may stand for fewer
    top = _nice(max(bar.total for bar in shown) or 1)
    parts = [
        f'<svg class="chart" role="img" width="100%" height="{_TOP + _HEIGHT + _BOTTOM}">',
        f"<title>{escape(title)}</title>",
        f'<svg x="0" y="{_TOP}" width="100%" height="{_HEIGHT}" '
        f'viewBox="0 0 {_number(count)} {_TALL}" preserveAspectRatio="none">',
        *_backgrounds(bands, len(bars), per_bar),
        *(_bars(shown, kind, top) for kind in KINDS),
        *_starts(bands, per_bar),
        *_tips(shown),
        "</svg>",
        *_grid(top),
        *_numbers(bands, len(bars)),
        *_ends(bars),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def tokens(value: float) -> str:
    """A number of tokens in few characters: `950`, `12k`, `1.5M`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


def _gather(bars: Sequence[Bar]) -> tuple[list[Bar], int]:
    size = -(-len(bars) // MOST_BARS)
    if size == 1:
        return list(bars), 1
    gathered: list[Bar] = []
    for start in range(0, len(bars), size):
        group = bars[start : start + size]
        worst = max(group, key=lambda bar: (bar.written + bar.fresh, bar.total))
        gathered.append(worst)
    return gathered, size


def _nice(value: int) -> int:
    """The next round number, whose half is a round one too."""
    power = 10 ** (len(str(value)) - 1)
    return next(
        int(power * step)
        for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
        if value <= power * step
    )


def _bars(bars: Sequence[Bar], kind: str, top: int) -> str:
    """All bars of a kind as one path; each begins where the kinds below it end."""
    below = KINDS[: KINDS.index(kind)]
    path: list[str] = []
    for x, bar in enumerate(bars):
        height = getattr(bar, kind) * _TALL / top
        if height:
            foot = _TALL - sum(getattr(bar, name) for name in below) * _TALL / top
            path.append(f"M{_number(x + 0.08)} {_number(foot)}h.84v-{_number(height)}h-.84z")
    return f'<path class="{kind}" d="{"".join(path)}"/>' if path else ""


def _backgrounds(bands: Sequence[Band], count: int, per_bar: int) -> list[str]:
    starts = [band.first for band in bands]
    ends = [*starts[1:], count] if starts else []
    return [
        f'<rect class="band" x="{_number(start / per_bar)}" y="0" '
        f'width="{_number((end - start) / per_bar)}" height="{_TALL}"/>'
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
        if index % 2
    ]


def _starts(bands: Sequence[Band], per_bar: int) -> list[str]:
    return [
        f'<path class="{"bad" if band.bad else "start"}" '
        f'd="M{_number(band.first / per_bar)} 0v{_TALL}"/>'
        for band in bands
        if band.first
    ]


def _tips(bars: Sequence[Bar]) -> list[str]:
    return [
        f'<rect class="tip" x="{x}" y="0" width="1" height="{_TALL}"><title>{escape(bar.label)}: '
        f"{bar.read:,} read, {bar.written:,} written, {bar.fresh:,} fresh</title></rect>"
        for x, bar in enumerate(bars)
    ]


def _grid(top: int) -> list[str]:
    lines: list[str] = []
    for part in (0, 0.5, 1):
        y = _TOP + _HEIGHT * (1 - part)
        lines.append(f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        if part:
            lines.append(f'<text class="axis" x="4" y="{y + 13:.1f}">{tokens(top * part)}</text>')
    return lines


def _numbers(bands: Sequence[Band], count: int) -> list[str]:
    """The bands' numbers, those left out that would stand on one another."""
    parts: list[str] = []
    free = 0.0
    for band in bands:
        at = band.first / count * 100
        if at < free or at > 100 - _NEAREST / 2:
            continue
        free = at + _NEAREST
        kind = "number bad" if band.bad else "number"
        parts.append(
            f'<text class="{kind}" x="{at:.2f}%" y="{_TOP - 8}"><title>{escape(band.label)}'
            f"</title>{band.number}</text>"
        )
    return parts


def _ends(bars: Sequence[Bar]) -> list[str]:
    y = _TOP + _HEIGHT + 16
    parts = [f'<text class="axis" x="0" y="{y}">{escape(bars[0].label)}</text>']
    if len(bars) > 1:
        parts.append(f'<text class="axis end" x="100%" y="{y}">{escape(bars[-1].label)}</text>')
    return parts


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
