"""Our completions as prompt_toolkit takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.completion import Completer, Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from .console import Choice


class Completions(Completer):
    """Asks `choices`. While somebody types, it offers commands and `@` files alone: a menu that
    springs up at each word is in the way. Tab offers all.
    """

    def __init__(self, choices: Callable[[str], Sequence[Choice]]) -> None:
        self._choices = choices

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before.rsplit(maxsplit=1)[-1] if before.strip() else ""
        if not event.completion_requested and not (before.startswith("/") or word.startswith("@")):
            return
        for each in self._choices(before):
            yield Completion(each.text, -each.back, display_meta=" ".join(each.about.split())[:80])
