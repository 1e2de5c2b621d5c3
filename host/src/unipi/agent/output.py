"""What a tool gave back, made fit for the model's sight and for the session (design 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from attrs import evolve

from unipi.prefix.canonical import repair
from unipi.redaction import scrub
from unipi.session import SessionError
from unipi.session.lines import encode
from unipi_hookspecs import Image, Text, ToolOutput, ToolResultMessage

from .pictures import fit_picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import JSON, Bounded, UserContent

MODEL_TEXT_LIMIT = 65_536
"""Bytes of one result that a model may see (design 4.5)."""


class Bound(Protocol):
    """Cuts text to the limit and keeps the whole of it elsewhere."""

    def __call__(self, raw: str | bytes, *, label: str = "output") -> Bounded: ...


def complaint(output: ToolOutput) -> str | None:
    """Why an output cannot be a result, in words for the model and the author; None when it can."""
    content: object = output.content
    if not isinstance(content, str):
        if not isinstance(content, list | tuple):
            return f"The result has content of type {type(content).__name__}, not text or blocks"
        for part in content:
            if not isinstance(part, Text | Image):
                return f"The result has a block of type {type(part).__name__}, not Text or Image"
    if output.details is not None:
        try:
            encode({"type": "details", "details": output.details})
        except SessionError as error:
            return f"The result has details that JSON cannot carry: {error}"
    return None


def bounded_content(
    content: str | Sequence[UserContent], label: str, bound: Bound
) -> tuple[Sequence[UserContent], bool]:
    """A result's content, repaired, its text parts together within the model's bound.

    The second value says whether it was cut.
    """
    if isinstance(content, str):
        content = (Text(content),)
    repaired = tuple(_repaired(part) for part in content)
    if sum(_size(part) for part in repaired) <= MODEL_TEXT_LIMIT:
        return repaired, False
    # The raw text, so that an artifact has the bytes as they came, but for a key.
    raw = "\n".join(part.text for part in content if isinstance(part, Text))
    whole = bound(scrub(raw), label=label)
    return (Text(whole.text), *(part for part in repaired if isinstance(part, Image))), True


def fitted(
    new: ToolResultMessage, old: ToolResultMessage, bound: Bound
) -> tuple[ToolResultMessage, str | None]:
    """A plugin's version of a result as it may stand in the history: for the same call, bounded.

    The second value says why `old` stands instead.
    """
    problem = complaint(ToolOutput(new.content, new.details))
    if problem is not None:
        return old, problem
    content, _ = bounded_content(new.content, old.tool_name, bound)
    same = evolve(new, content=content, tool_call_id=old.tool_call_id, tool_name=old.tool_name)
    return same, None


def without_copies(details: JSON, label: str, bound: Bound) -> JSON:
    """The details of a result that was cut: texts over the bound are cut too, not kept again."""
    if isinstance(details, str):
        return bound(details, label=label).text
    if isinstance(details, Mapping):
        return {key: without_copies(value, label, bound) for key, value in details.items()}
    if isinstance(details, list | tuple):
        return [without_copies(value, label, bound) for value in details]
    return details


def _repaired(part: UserContent) -> UserContent:
    if not isinstance(part, Text):
        return fit_picture(part)
    text = scrub(part.text if part.text.isascii() else repair(part.text))
    return part if text is part.text else Text(text)


def _size(part: UserContent) -> int:
    if not isinstance(part, Text):
        return 0
    return len(part.text) if part.text.isascii() else len(part.text.encode())
