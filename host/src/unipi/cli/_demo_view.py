"""How the demo is shown: a line a request while it runs, and then the tables."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from unipi.demo import PRICED_AS, Answered, Asked, ProviderChosen, RunBegins, Told, Warned
from unipi.demo.plans import CARELESS, PLANS

from ._output import console, print_table
from ._summary import printable

if TYPE_CHECKING:
    from pathlib import Path

    from unipi.demo import DemoReport, Plan, Provider
    from unipi_hookspecs import Boundary

_FIGURES = 31
"""Columns that number, tokens and share take."""
_HELD = 0.8
_LOST = 0.5


class View:
    """Shows the demo as it goes: told what happens by calling it."""

    def __init__(self) -> None:
        self._out = console()

    def __call__(self, event: object) -> None:
        match event:
            case ProviderChosen():
                self._provider(event.provider)
            case RunBegins():
                self._begin(event.number, event.plan)
            case Asked():
                self._out.print(Text(f"  > {event.text}", style="cyan"))
            case Answered():
                self._answered(event)
            case Warned():
                self._aside("! ", event.text, "yellow")
            case Told():
                self._aside("+ ", f"{event.custom_type}: {event.text}", "dim")
            case _:
                pass

    def end(self, report: DemoReport, keep: Path | None) -> None:
        """The tables, the culprit, and the conclusion."""
        self._out.print()
        _print_runs(report)
        _print_epochs(report)
        prices = report.provider.prices
        write = "" if prices.cache_write == prices.input else f"${prices.cache_write:.2f} written, "
        self._out.print(
            f"Example prices, {PRICED_AS} of {prices.as_of}, per million tokens: "
            f"${prices.input:.2f} fresh, {write}${prices.cache_read:.2f} read from cache, "
            f"${prices.output:.2f} output."
        )
        self._out.print()
        self._culprit(report)
        if keep is not None:
            self._out.print(f"Projects and session files are in {keep}.")
        self._out.print(Text(report.conclusion(), style="bold"))

    def _provider(self, provider: Provider) -> None:
        self._out.print(Text(f"Provider: the {provider.kind}, because {provider.why}"))
        self._aside("", f"{provider.title} ({provider.api})", "dim")

    def _begin(self, number: int, plan: Plan) -> None:
        self._out.print()
        names = ", ".join(name for name, _ in plan.plugins)
        title = f"{number} of {len(PLANS)}  {plan.name}: {plan.title} ({names})"
        self._out.print(Text(title, style="bold"))
        heads = f"{'#':>4}  {'prompt':>6}  {'cached':>6}  {'share':>6}  answer"
        heads += "new epoch: cause, owner".rjust(self._out.width - len(heads))
        self._out.print(Text(heads, style="dim"))

    def _aside(self, mark: str, text: str, style: str) -> None:
        lines = wrap(printable(text), self._out.width - 4 - len(mark))
        for number, line in enumerate(lines):
            lead = " " * len(mark) if number else mark
            self._out.print(Text(f"    {lead}{line}", style=style))

    def _answered(self, event: Answered) -> None:
        share = event.cache_read_tokens / event.prompt_tokens if event.prompt_tokens else 0.0
        line = Text(f"{event.number:>4}  {event.prompt_tokens:>6,}  ", no_wrap=True)
        line.append(f"{event.cache_read_tokens:>6,}  {share:>6.1%}  ", _style(event, share))
        crossed = _crossing(event.boundary)
        room = max(12, self._out.width - _FIGURES - (len(crossed) + 2 if crossed else 0))
        answer = printable(event.answer).replace("\n", " ")
        shown = answer if len(answer) <= room else f"{answer[: room - 1]}…"
        line.append(shown.ljust(room) if crossed else shown)
        if crossed:
            line.append(f"  {crossed}", "red")
        self._out.print(line, overflow="ellipsis")

    def _culprit(self, report: DemoReport) -> None:
        broken, held = report.record, report.enforce
        cost = sum(boundary.price or 0.0 for boundary in broken.broken)
        self._out.print(
            Text(
                f"Plugin {CARELESS!r} broke the prefix {len(broken.broken)} times under "
                f"`record`: {broken.tokens_lost:,} tokens paid again, ${cost:.4f}. Under "
                f"`enforce` it was {'refused and named' if held.named else 'not noticed'}, and "
                f"{held.requests - held.rewritten} of {held.requests} requests kept the prefix."
            )
        )


def _style(event: Answered, share: float) -> str:
    if event.number == 1:
        return "dim"
    return "green" if share >= _HELD else "red" if share < _LOST else "yellow"


def _crossing(boundary: Boundary | None) -> str:
    """What ended the last epoch; nothing for the first, which every session has."""
    if boundary is None or boundary.cause == "first":
        return ""
    return f"{boundary.cause}, {boundary.owner}"


def _print_runs(report: DemoReport) -> None:
    print_table(
        "The same session, three times",
        ("session", "requests", "prompt tokens", "read from cache", "share", "epochs", "cost"),
        [
            (
                run.plan.name,
                run.requests,
                run.prompt_tokens,
                run.cache_read_tokens,
                f"{run.share:.1%}",
                len(run.boundaries),
                f"${run.cost:.4f}",
            )
            for run in report.runs
        ],
    )


def _print_epochs(report: DemoReport) -> None:
    print_table(
        "Epochs, by what began them",
        ("session", "epochs", "cause", "owner", "avoidable", "lost", "price"),
        [
            (
                run.plan.name,
                group.count,
                group.cause,
                group.owner,
                "yes" if group.avoidable else "no",
                group.tokens_lost,
                f"${group.price:.4f}",
            )
            for run in report.runs
            for group in run.groups()
        ],
    )
