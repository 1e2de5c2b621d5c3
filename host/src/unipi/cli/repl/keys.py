"""What the keys of the prompt do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent


class Keyed(Protocol):
    """What keys can ask for."""

    @property
    def busy(self) -> bool: ...
    def enter(self, *, after: bool = False) -> None: ...
    def stop(self) -> None: ...
    def end(self) -> None: ...
    def expand(self) -> None: ...


def bindings(prompt: Keyed) -> KeyBindings:
    """The bindings that go before prompt_toolkit's own."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer, menu = event.current_buffer, event.current_buffer.complete_state
        if menu is not None and menu.current_completion and len(menu.completions) > 1:
            buffer.complete_state = None  # the choice stands; another Enter sends
        else:
            prompt.enter()

    @keys.add("escape", "enter", filter=Condition(lambda: prompt.busy))
    def send_after(event: KeyPressEvent) -> None:
        prompt.enter(after=True)

    @keys.add("escape", "enter", filter=Condition(lambda: not prompt.busy))
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def stop(event: KeyPressEvent) -> None:
        prompt.stop()

    @keys.add("c-d", filter=Condition(lambda: not _text()))
    def end(event: KeyPressEvent) -> None:
        prompt.end()

    @keys.add("c-o")
    def expand(event: KeyPressEvent) -> None:
        prompt.expand()

    return keys


def _text() -> str:
    from prompt_toolkit.application import get_app

    return get_app().current_buffer.text
