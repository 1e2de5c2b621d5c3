"""What a model can be told at the end of a conversation instead of in its head.

    system         an instruction, as a system or developer message
    tool_addition  a tool, from here on
    tool_removal   a tool no more, from here on
    effort         another effort, from here on

Which of them a model has is data (`Model.verbs`); how an API writes them, and which it can write at
all, is its adapter's. A message whose verb the model lacks is sent as its text. Sources: Anthropic,
Mid-conversation system messages and tool changes (2026-09-22), Per-message effort; OpenAI, the types
of `additional_tools` and of developer messages (openai 3.57).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from unipi_hookspecs import AssistantMessage, CustomMessage, Text

from .miss_reason import BETA, asks
from .models import effort_told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import Message, Model, ThinkingLevel, Verb

VERBS = ("system", "tool_addition", "tool_removal", "effort")

_WRITTEN: Mapping[str, frozenset[str]] = {
    "anthropic-messages": frozenset(VERBS),
    "openai-chat-completions": frozenset({"system"}),
    "openai-responses": frozenset({"system", "tool_addition"}),
}
_BETAS = {
    "effort": "mid-conversation-output-config-2026-07-01",
    # Covers references to tools and removals too.
    "tool_addition": "inline-tools-2026-09-15",
    "tool_removal": "inline-tools-2026-09-15",
}


def verbs_of(model: Model) -> frozenset[str]:
    """The verbs that a model has over the API that it is reached by."""
    return _WRITTEN.get(model.api, frozenset()).intersection(model.verbs)


def betas(model: Model) -> str:
    """The `anthropic-beta` that a model needs; the same in every request, used or not.

    The set of active betas is part of what the cache goes by (Anthropic, Cache diagnostics).
    """
    if model.api != "anthropic-messages":
        return ""
    needed = {_BETAS[verb] for verb in verbs_of(model) if verb in _BETAS}
    if asks(model):
        needed.add(BETA)
    return ",".join(sorted(needed))


def kinds(verb: Verb) -> tuple[str, ...]:
    """The verbs that a message uses, by name."""
    used = (
        ("system", verb.system),
        ("tool_addition", verb.define or verb.offer),
        ("tool_removal", verb.withdraw),
        ("effort", verb.effort),
    )
    return tuple(name for name, uses in used if uses)


def is_told(message: Message, model: Model) -> TypeGuard[CustomMessage]:
    """Whether a message is sent to a model as its verb; else its text is."""
    if not isinstance(message, CustomMessage) or message.verb is None:
        return False
    if message.verb.system and not text_of(message).strip():
        return False
    return verbs_of(model).issuperset(kinds(message.verb))


def text_of(message: CustomMessage) -> str:
    """The text of a message; "" where it holds anything else, which no system message may."""
    if isinstance(message.content, str):
        return message.content
    parts = [part.text for part in message.content if isinstance(part, Text)]
    return "\n".join(parts) if len(parts) == len(message.content) else ""


def told_run(messages: Sequence[Message], at: int, model: Model) -> int:
    """How many messages from `at` on are told together by their verbs; 0: this one is not.

    Anthropic takes such a message behind a user's only, and before an answer or at the end.
    """
    run = 0
    while at + run < len(messages) and is_told(messages[at + run], model):
        run += 1
    following = messages[at + run] if at + run < len(messages) else None
    before = messages[at - 1] if at else None
    if isinstance(before, AssistantMessage):
        return 0
    return run if following is None or isinstance(following, AssistantMessage) else 0


def awaits_answer(message: Message, model: Model) -> bool:
    """Whether an answer has to stand between a message and the next that a user says."""
    return model.api == "anthropic-messages" and is_told(message, model)


def same_level(model: Model, before: ThinkingLevel, after: ThinkingLevel) -> bool:
    """Whether a head made for one thinking level serves another: a verb can say the difference."""
    if before == after:
        return True
    wanted = (effort_told(model, before), effort_told(model, after))
    return "effort" in verbs_of(model) and all(wanted)
