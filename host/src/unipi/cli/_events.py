"""The events of `unipi run --json`: one JSON object a line. The keys are documented and stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent import Compacted, Notice, Saved
from unipi.session import message_to_fields
from unipi_hookspecs import (
    AssistantMessage,
    EpochBoundaryEvent,
    MessageEndEvent,
    MessageUpdateEvent,
    ProviderResponseEndEvent,
    Text,
    ToolExecutionEndEvent,
    ToolExecutionStartEvent,
    ToolExecutionUpdateEvent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import UserContent


def to_json(event: object) -> dict[str, object] | None:
    """One event as it is printed, or None for those that are not."""
    match event:
        case MessageUpdateEvent():
            return {"type": "message_update", "kind": event.kind, "delta": event.delta}
        case MessageEndEvent():
            return {"type": "message_end", "entry": message_to_fields(event.message)}
        case ToolExecutionStartEvent():
            return {
                "type": "tool_execution_start",
                "tool_call_id": event.tool_call_id,
                "tool_name": event.tool_name,
                "args": event.args,
            }
        case ToolExecutionUpdateEvent():
            return {
                "type": "tool_execution_update",
                "tool_call_id": event.tool_call_id,
                "tool_name": event.tool_name,
                "partial_result": event.partial_result,
            }
        case ToolExecutionEndEvent():
            return {
                "type": "tool_execution_end",
                "tool_call_id": event.tool_call_id,
                "tool_name": event.tool_name,
                "is_error": event.is_error,
                "duration_ms": round(event.duration_ms, 3),
            }
        case EpochBoundaryEvent():
            boundary = event.boundary
            return {
                "type": "epoch_boundary",
                "number": boundary.number,
                "cause": boundary.cause,
                "owner": boundary.owner,
                "avoidable": boundary.avoidable,
                "tokens_lost": boundary.tokens_lost,
                "price": boundary.price,
                "detail": boundary.detail,
            }
        case ProviderResponseEndEvent():
            return _response(event)
        case Notice():
            return {
                "type": "notice",
                "level": event.level,
                "text": event.text,
                "plugin": event.plugin,
            }
        case Compacted():
            return {
                "type": "compaction",
                "status": event.status,
                "why": event.why,
                "reason": event.reason,
                "plugin": event.plugin,
                "entry_id": event.entry_id,
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
            }
        case Saved():
            return {"type": "saved", "entry_id": event.entry_id}
        case _:
            return None


def _response(event: ProviderResponseEndEvent) -> dict[str, object]:
    usage = event.usage
    return {
        "type": "provider_response_end",
        "request_id": event.info.request_id,
        "attempt": event.info.attempt,
        "purpose": event.info.purpose,
        "model": f"{event.info.provider}/{event.info.model}",
        "epoch": event.info.epoch,
        "stop_reason": event.stop_reason,
        "error": event.error,
        "duration_ms": round(event.duration_ms, 3),
        "usage": None
        if usage is None
        else {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
        },
    }


def text_of(content: str | Sequence[UserContent] | AssistantMessage) -> str:
    """The plain text of a message's content."""
    if isinstance(content, str):
        return content
    parts = content.content if isinstance(content, AssistantMessage) else content
    return "".join(part.text for part in parts if isinstance(part, Text))
