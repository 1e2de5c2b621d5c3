"""What the simulator is to answer: what the session recorded, block for block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.prefix.canonical import compact, repair
from unipi.sim import Answer, Call, Say, Think

if TYPE_CHECKING:
    from unipi.sim import Part
    from unipi_hookspecs import AssistantContent, AssistantMessage

_WHOLE = 1 << 20
"""Characters a delta: streams are cut elsewhere; here they would only cost time."""

_STOPS = {"stop": "stop", "length": "length", "toolUse": "tool_use"}


def recorded_answer(message: AssistantMessage) -> Answer:
    """Script a recorded answer: its ids, its thinking with signatures, its argument texts.

    Lone surrogates, which no provider can send, are repaired.
    """
    parts = tuple(_part(block) for block in message.content)
    return Answer(parts, stop=_STOPS.get(message.stop_reason), chunk=_WHOLE)


def _part(block: AssistantContent) -> Part:
    if block.type == "text":
        return Say(repair(block.text))
    if block.type == "thinking":
        signature = None if block.signature is None else repair(block.signature)
        return Think(repair(block.thinking), signature, block.redacted)
    text = block.arguments_text
    if text is None:
        text = compact(block.arguments).decode()
    return Call(repair(block.name), repair(text), repair(block.id) or None)
