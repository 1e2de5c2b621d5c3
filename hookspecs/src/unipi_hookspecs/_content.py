"""Content blocks: what messages are made of.

Field names follow Pi's in snake_case. Text that a provider authored (thinking, signatures, the
source text of tool-call arguments) is kept exactly as received and never re-encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Any JSON value, read-only."""


@shown
@frozen(repr=False)
class Text:
    """A run of text, kept byte for byte: no trimming, no normalisation."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    signature: str | None = None


@shown
@frozen(repr=False)
class Image:
    """A picture: base64 `data` and its `mime_type`, such as `image/png`."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str


@shown
@frozen(repr=False)
class Thinking:
    """A provider's reasoning block, replayed verbatim (an empty text with a signature included).

    A `redacted` block carries the provider's opaque data in `signature` and no text.
    """

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str
    signature: str | None = None
    redacted: bool = False


@shown
@frozen(repr=False)
class ToolCall:
    """A tool call that the model asked for.

    `arguments` is the parsed object (`{}` when the text was no JSON object). `arguments_text` is
    the source text as received, or None when it equals the compact form of `arguments`.
    `problem` says in one line why the text could not be used; such a call is never run.
    """

    type: ClassVar[Literal["toolCall"]] = "toolCall"
    id: str
    name: str
    arguments: Mapping[str, JSON]
    arguments_text: str | None = None
    problem: str | None = None
    thought_signature: str | None = None


UserContent: TypeAlias = Text | Image
AssistantContent: TypeAlias = Text | Thinking | ToolCall
