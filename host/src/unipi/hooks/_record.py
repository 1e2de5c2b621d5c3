"""Who did what, how long it took, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.redaction import scrub

from ._types import Failure, FailureKind, PluginStats

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_NS = 50_000_000
"""A step that holds the event loop for longer than this is slow (field report F65; design 3.2)."""

# A row of figures is a plain list of integers, since dispatch updates it for every call.
COUNT, ERRORS, TOTAL, MAX, SLOW, NOTABLE = range(6)
# NOTABLE is min(MAX, SLOW_NS): one comparison says whether a call needs a closer look.

_LONGEST_TEXT = 200
_NOT_ERRORS = ("slow", "over_budget")


def describe(error: BaseException) -> str:
    """`TypeName: first line of the message`, whatever the exception's own `__str__` does."""
    name = type(error).__name__
    try:
        text = scrub(str(error).strip())  # before it is cut, which might leave half a key
    except Exception:  # noqa: BLE001 - a plugin's exception may fail to print itself
        text = "(its message cannot be shown)"
    line = text.splitlines()[0][:_LONGEST_TEXT] if text else ""
    return f"{name}: {line}" if line else name


class Recorder:
    """Keeps the figures, and reports each kind of failure of a plugin's hook once."""

    def __init__(self, report: Callable[[Failure], None] | None) -> None:
        self._report = report
        self._reported: set[tuple[str, str, FailureKind]] = set()
        self._rows: dict[tuple[str, str], list[int]] = {}

    def row(self, plugin: str, hook: str) -> list[int]:
        """The figures of one plugin's implementation of one hook, to be updated in place."""
        return self._rows.setdefault((plugin, hook), [0] * (NOTABLE + 1))

    def fail(
        self,
        plugin: str,
        hook: str,
        kind: FailureKind,
        error: str,
        *,
        elapsed_ns: int = 0,
        exception: BaseException | None = None,
    ) -> Failure:
        """Count a failure, and report it if it is the first of its kind."""
        if exception is not None:
            note = f"in {hook} of plugin {plugin}"
            if note not in getattr(exception, "__notes__", ()):
                exception.add_note(note)
        failure = Failure(plugin, hook, kind, error, elapsed_ns / 1e6, exception)
        if kind not in _NOT_ERRORS:
            self.row(plugin, hook)[ERRORS] += 1
        key = (plugin, hook, kind)
        if key not in self._reported:
            self._reported.add(key)
            if self._report is not None:
                self._report(failure)
        return failure

    def took_long(
        self, plugin: str, hook: str, budget: float, *, elapsed_ns: int, held_ns: int
    ) -> None:
        """Look closer at a call: `held_ns` is how long it held the event loop without a break."""
        row = self.row(plugin, hook)
        if elapsed_ns > row[MAX]:
            row[MAX] = elapsed_ns
            row[NOTABLE] = min(elapsed_ns, SLOW_NS)
        if held_ns <= SLOW_NS:
            return
        row[SLOW] += 1
        held = f"held the event loop for {held_ns / 1e6:.0f} ms"
        self.fail(plugin, hook, "slow", held, elapsed_ns=elapsed_ns)
        if held_ns > budget * 1e9:
            over = f"{held}, over its budget of {budget:g} s, and could not be stopped"
            self.fail(plugin, hook, "over_budget", over, elapsed_ns=elapsed_ns)

    def stats(self) -> list[PluginStats]:
        """All figures, in the order in which the rows were made."""
        return [
            PluginStats(plugin, hook, row[COUNT], row[ERRORS], row[TOTAL], row[MAX], row[SLOW])
            for (plugin, hook), row in self._rows.items()
        ]
