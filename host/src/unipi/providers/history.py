"""Which parts of the history go back to a model, whatever the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi_hookspecs import BashMessage, CustomMessage, SummaryMessage

from .plain import bash_text, summary_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import AssistantMessage, Model, UserContent, UserMessage


def is_left_out(message: AssistantMessage) -> bool:
    """Whether an answer never goes back to a model: it failed, or was aborted half-way."""
    return message.stop_reason in {"error", "aborted"}


def left_out_calls(message: AssistantMessage) -> frozenset[str]:
    """The ids of the calls that leave the conversation together with their answer."""
    if not is_left_out(message):
        return frozenset()
    return frozenset(block.id for block in message.content if block.type == "toolCall")


def is_native(message: AssistantMessage, model: Model) -> bool:
    """Whether an answer's thinking was made by the provider that it would go to.

    Another vendor's signature is refused, though it speaks the same API.
    """
    return message.api == model.api and message.provider == model.provider


def user_content(
    message: UserMessage | CustomMessage | SummaryMessage | BashMessage,
) -> str | Sequence[UserContent]:
    """What a message that is sent as the user's says; "" when the model must not see it.

    A change of the effort, where the model is not told it by a verb, is none of its business.
    """
    if isinstance(message, CustomMessage) and message.verb is not None and message.verb.effort:
        return ""
    if isinstance(message, SummaryMessage):
        return summary_text(message)
    if isinstance(message, BashMessage):
        return "" if message.exclude_from_context else bash_text(message)
    return message.content
