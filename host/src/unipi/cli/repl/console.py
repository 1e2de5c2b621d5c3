"""Between the shell and where it is shown: two protocols, so that neither knows the other's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskStatus

Kind: TypeAlias = Literal["answer", "user", "aside", "warning", "error"]


@frozen
class Line:
    """What was typed. `after` asks that it wait until the running turn is done."""

    text: str
    after: bool = False


@frozen
class Choice:
    """A completion: `text` takes the place of the last `back` characters before the cursor."""

    text: str
    back: int
    about: str = ""


class Driver(Protocol):
    """What a console asks of the shell."""

    @property
    def busy(self) -> bool:
        """Whether a turn runs, so that a line typed now waits for its place."""

    def status(self) -> str:
        """One line: model, context, cache, last boundary."""

    def interrupt(self) -> bool:
        """Stop what runs; False when nothing does."""

    def choices(self, before: str) -> Sequence[Choice]:
        """The completions at a cursor behind `before`."""


class Console(Protocol):
    """Where lines come from and text goes to. All text is data: each console makes it harmless."""

    @property
    def live(self) -> bool:
        """Whether lines can come while a turn runs."""

    @property
    def interactive(self) -> bool:
        """Whether somebody can answer a question."""

    async def serve(self, driver: Driver, *, task_status: TaskStatus[None]) -> None:
        """Run until `close`."""

    async def close(self) -> None:
        """Show what is left and give the terminal back."""

    def leave(self) -> None:
        """Let `line` say that the user has gone."""

    def write(self, text: str, kind: Kind = "aside") -> None:
        """Show whole lines."""

    def stream(self, delta: str) -> None:
        """Show the next piece of an answer."""

    def end_stream(self) -> None:
        """The answer is over; what follows begins a line."""

    def prefill(self, text: str) -> None:
        """Put text where the user types, to be changed and sent."""

    def refresh(self) -> None:
        """The status may be another one."""

    async def line(self) -> Line | None:
        """The next line; None when the user has gone."""

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """The answer to a question; None when there is none."""
