"""The prompt on a terminal: what is said scrolls by above a line to type on and a line of status.

One application runs from the start to the end. It never draws what scrolls: whole rows are printed
above it, and the row that an answer is still writing stands right above the status and the input.
The terminal stays in raw mode meanwhile, so that a key is the same key at any moment; and the status
is no toolbar of prompt_toolkit's, which would vanish at each row until the terminal has said where its
cursor is.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import deque
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import anyio
from attrs import define, field
from prompt_toolkit import PromptSession
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style

from unipi.prefix.canonical import repair
from unipi.redaction import scrub

from .completer import Completions
from .console import Line
from .keys import bindings
from .stray import Stray
from .wrap import rows, safe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskStatus
    from prompt_toolkit.history import History

    from .console import Driver, Kind

_STYLE = Style.from_dict(
    {
        "aside": "ansibrightblack",
        "user": "bold",
        "warning": "ansiyellow",
        "error": "ansired",
        "prompt": "bold",
        "question": "ansicyan",
        "status": "ansibrightblack",
    }
)


@define
class _Question:
    text: str
    draft: Document
    answered: anyio.Event = field(factory=anyio.Event)
    answer: str | None = None


@asynccontextmanager
async def _in_place_of_output(stray: Stray) -> AsyncIterator[None]:
    error = sys.stderr
    with redirect_stdout(stray), redirect_stderr(stray):
        try:
            yield
        finally:
            stray.end(lambda line: error.write(f"{safe(line)}\n"))
            await anyio.lowlevel.cancel_shielded_checkpoint()  # so that its last line is shown


class Terminal:
    """Implements `Console` on a real terminal. asyncio alone: prompt_toolkit knows no other."""

    live = True
    interactive = True

    def __init__(self, history: History) -> None:
        self._history = history
        self._driver: Driver | None = None
        self._lines, self._typed = anyio.create_memory_object_stream[Line](float("inf"))
        self._out: deque[tuple[Kind, str]] = deque()
        self._some = anyio.Event()
        self._rest = ""
        self._question: _Question | None = None
        self._asked_to_leave = False
        self._ended = anyio.Event()
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            style=_STYLE,
            history=history,
            completer=Completions(
                lambda text: driver.choices(text) if (driver := self._driver) else []
            ),
            complete_while_typing=True,
            key_bindings=bindings(self),
            multiline=True,
            prompt_continuation="  ",
            erase_when_done=True,
            enable_suspend=True,
        )

    # The console's side.

    async def serve(self, driver: Driver, *, task_status: TaskStatus[None]) -> None:
        self._driver = driver
        soon = asyncio.get_running_loop().call_soon_threadsafe
        stray = Stray(lambda line: soon(self.write, line))
        try:
            async with anyio.create_task_group() as tasks, _in_place_of_output(stray):
                tasks.start_soon(self._print_on)
                task_status.started()
                try:
                    await self._session.prompt_async()
                except EOFError:  # the terminal is gone
                    self.leave()
                tasks.cancel_scope.cancel()
        finally:
            if self._out:
                self._print_all()
            self._lines.close()
            self._typed.close()
            self._ended.set()

    async def close(self) -> None:
        self.end_stream()
        if self._session.app.is_running:
            self._session.app.exit(result="")
        await self._ended.wait()

    def leave(self) -> None:
        self._answer(None)
        self._lines.close()

    def write(self, text: str, kind: Kind = "aside") -> None:
        self.end_stream()
        self._show(kind, safe(text))

    def stream(self, delta: str) -> None:
        done, self._rest = rows(self._rest + delta, self._width)
        for row in done:
            self._show("answer", row)
        self.refresh()

    def end_stream(self) -> None:
        if self._rest:
            self._show("answer", safe(self._rest))
            self._rest = ""

    def prefill(self, text: str) -> None:
        if text:
            self._session.default_buffer.document = Document(repair(text))

    def refresh(self) -> None:
        self._session.app.invalidate()

    async def line(self) -> Line | None:
        try:
            return await self._typed.receive()
        except anyio.EndOfStream:
            return None

    async def ask(self, question: str, *, default: str = "") -> str | None:
        self.end_stream()
        buffer = self._session.default_buffer
        asked = self._question = _Question(safe(question), buffer.document)
        buffer.document = Document(repair(default))
        self.refresh()
        try:
            await asked.answered.wait()
        finally:
            self._question = None
            buffer.document = asked.draft
            self.refresh()
        self.write(f"{asked.text} {asked.answer or ''}", "user")
        return asked.answer

    # The keys' side.

    @property
    def busy(self) -> bool:
        """Whether Enter would queue."""
        return self._driver is not None and self._driver.busy

    def enter(self, *, after: bool = False) -> None:
        """Send what was typed, or answer with it."""
        buffer = self._session.default_buffer
        text, self._asked_to_leave = repair(buffer.text), False
        if self._question is not None:
            self._answer(text)
            return
        buffer.reset()
        if text.strip():
            self._history.append_string(scrub(text))
            self.write(f"> {text}" if not self.busy else f"> {text} (queued)", "user")
            self._send(Line(text, after))

    def stop(self) -> None:
        """Ctrl-C: no answer, no turn, no draft; and at an idle, empty prompt a second one leaves."""
        buffer = self._session.default_buffer
        asked = self._question is not None
        self._answer(None)
        stopped = self._driver is not None and self._driver.interrupt()
        if asked or stopped:
            return
        if buffer.text:
            buffer.reset()
        elif self._asked_to_leave:
            self.leave()
        else:
            self._asked_to_leave = True
            self.write("Ctrl-C again, or Ctrl-D, leaves")

    def end(self) -> None:
        """Ctrl-D on an empty line: no answer, or good-bye."""
        if self._question is not None:
            self._answer(None)
        else:
            self.leave()

    def expand(self) -> None:
        """Ctrl-O."""
        if self._question is None:
            self._send(Line("/expand"))

    # Inside.

    @property
    def _width(self) -> int:
        return max(shutil.get_terminal_size().columns - 1, 20)

    def _send(self, line: Line) -> None:
        try:
            self._lines.send_nowait(line)
        except anyio.ClosedResourceError:
            self.write("leaving; the line is not sent", "warning")

    def _answer(self, text: str | None) -> None:
        if self._question is not None:
            self._question.answer = text
            self._question.answered.set()

    def _message(self) -> FormattedText:
        rest = [("", f"{safe(self._rest)}\n")] if self._rest else []
        if self._driver is not None:
            done, status = rows(self._driver.status(), self._width)
            rest.append(("class:status", f"{(done or [safe(status)])[0]}\n"))
        if self._question is not None:
            return FormattedText([*rest, ("class:question", f"{self._question.text} ")])
        return FormattedText([*rest, ("class:prompt", "> ")])

    def _show(self, kind: Kind, text: str) -> None:
        self._out.append((kind, text))
        self._some.set()

    async def _print_on(self) -> None:
        while True:
            await self._some.wait()
            self._some = anyio.Event()
            self._print_all()

    def _print_all(self) -> None:
        shown = [(f"class:{kind}", f"{text}\n") for kind, text in self._out]
        self._out.clear()
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        print_formatted_text(app.output, FormattedText(shown), _STYLE, color_depth=app.color_depth)
        if app.is_running:
            app.renderer.reset()
            app.invalidate()
