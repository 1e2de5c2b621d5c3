"""Between the fields of a line, in Pi's camelCase, and messages.

Ours in addition, which Pi ignores: `argumentsText` and `problem` on a tool call, `verb` on a custom
message, and `unreported` in a usage. Pi adds up `usage` and `usage.cost` of every answer without
looking whether they are there, so a number that the provider did not report is written as 0 and
named in `unreported`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Final, cast

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    Cost,
    CustomMessage,
    Image,
    SummaryMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

from .times import from_iso, to_iso

if TYPE_CHECKING:
    from unipi_hookspecs import JSON, AssistantContent, Message, UserContent, Verb
    from unipi_hookspecs._messages import StopReason

    Fields = Mapping[str, JSON]
    Object = dict[str, JSON]

# A file of 100 MB has these asked half a million times, and an abstract class answers slowly.
_OBJECT: Final = (dict, Mapping)
_SHOWN: Final = (Text, Image)
_ANSWERED: Final = (Text, Thinking, ToolCall)
_MOST: Final = 2**63
_STOP_REASONS: Final = frozenset({"stop", "length", "toolUse", "error", "aborted", "deferred"})


def message_to_fields(message: Message) -> dict[str, JSON]:
    """What an entry says of its own: `type` and the message, without id, parent and entry time.

    A custom message carries its time in the entry's `timestamp`, as Pi has it.
    """
    if isinstance(message, CustomMessage):
        fields: Object = {
            "type": "custom_message",
            "timestamp": to_iso(message.timestamp),
            "customType": message.custom_type,
            "content": _content_out(message.content),
            "display": message.display,
        }
        if message.details is not None:
            fields["details"] = message.details
        if message.verb is not None:
            from .verbs import verb_out

            fields["verb"] = verb_out(message.verb)
        return fields
    if isinstance(message, UserMessage):
        inner: Object = {
            "role": "user",
            "content": _content_out(message.content),
            "timestamp": message.timestamp,
        }
    elif isinstance(message, AssistantMessage):
        inner = _assistant_out(message)
    elif isinstance(message, ToolResultMessage):
        inner = _result_out(message)
    elif isinstance(message, BashMessage):
        inner = _bash_out(message)
    else:
        # As Pi holds it in memory. In files a summary is an entry of its own type.
        inner = {
            "role": f"{message.kind}Summary",
            "summary": message.summary,
            "timestamp": message.timestamp,
        }
    return {"type": "message", "message": inner}


def message_from_fields(fields: Fields) -> Message | None:
    """What a line says to the model, or None. Broken and missing fields read as empty ones."""
    kind = fields.get("type")
    if kind == "message":
        inner = fields.get("message")
        if not isinstance(inner, _OBJECT):
            return None
        read = _READERS.get(_text(inner, "role"))
        if read is None:
            return None
        return read(inner, _number(inner, "timestamp") or from_iso(fields.get("timestamp")))
    when = from_iso(fields.get("timestamp"))
    if kind == "custom_message":
        return _custom_in(fields, when)
    if kind == "compaction":
        return SummaryMessage("compaction", _text(fields, "summary"), when)
    if kind == "branch_summary":
        summary = _text(fields, "summary")
        return SummaryMessage("branch", summary, when) if summary else None
    return None


def replace_content(message: Message, content: JSON) -> Message:
    """The message with other content, as Pi's `context_edit` entries ask for.

    For answers and results a plain string stands for one text block; an answer's edit may hold
    any of its block types.
    """
    from attrs import evolve

    if isinstance(message, AssistantMessage):
        blocks: JSON = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return evolve(message, content=_answer_in(blocks))
    if isinstance(message, ToolResultMessage):
        return evolve(message, content=_blocks_in(content))
    if isinstance(message, UserMessage | CustomMessage):
        return evolve(message, content=_content_in(content))
    return message


def _content_out(content: str | Sequence[UserContent]) -> JSON:
    return content if isinstance(content, str) else [_block_out(block) for block in content]


def _block_out(block: UserContent | AssistantContent) -> Object:
    if isinstance(block, Text):
        fields: Object = {"type": "text", "text": block.text}
        _put(fields, "textSignature", block.signature)
    elif isinstance(block, Image):
        fields = {"type": "image", "data": block.data, "mimeType": block.mime_type}
    elif isinstance(block, Thinking):
        fields = {"type": "thinking", "thinking": block.thinking}
        _put(fields, "thinkingSignature", block.signature)
        _put(fields, "redacted", block.redacted or None)
    else:
        fields = {
            "type": "toolCall",
            "id": block.id,
            "name": block.name,
            "arguments": block.arguments,
        }
        _put(fields, "argumentsText", block.arguments_text)
        _put(fields, "problem", block.problem)
        _put(fields, "thoughtSignature", block.thought_signature)
    return fields


def _assistant_out(message: AssistantMessage) -> Object:
    fields: Object = {
        "role": "assistant",
        "content": [_block_out(block) for block in message.content],
        "api": message.api,
        "provider": message.provider,
        "model": message.model,
        "usage": _usage_out(message.usage),
        "stopReason": message.stop_reason,
        "timestamp": message.timestamp,
    }
    _put(fields, "responseId", message.response_id)
    _put(fields, "errorMessage", message.error_message)
    return fields


def _result_out(message: ToolResultMessage) -> Object:
    fields: Object = {
        "role": "toolResult",
        "toolCallId": message.tool_call_id,
        "toolName": message.tool_name,
        "content": [_block_out(block) for block in message.content],
        "isError": message.is_error,
        "timestamp": message.timestamp,
    }
    _put(fields, "details", message.details)
    return fields


def _bash_out(message: BashMessage) -> Object:
    fields: Object = {
        "role": "bashExecution",
        "command": message.command,
        "output": message.output,
        "cancelled": message.cancelled,
        "truncated": message.truncated,
        "timestamp": message.timestamp,
    }
    _put(fields, "exitCode", message.exit_code)
    _put(fields, "fullOutputPath", message.full_output_path)
    _put(fields, "excludeFromContext", message.exclude_from_context or None)
    return fields


def _usage_out(usage: Usage | None) -> Object:
    known = usage or Usage()
    cost = known.cost or Cost()
    fields: Object = {
        "input": known.input,
        "output": known.output,
        "cacheRead": known.cache_read or 0,
        "cacheWrite": known.cache_write or 0,
        "totalTokens": known.total_tokens,
        "cost": {
            "input": cost.input,
            "output": cost.output,
            "cacheRead": cost.cache_read,
            "cacheWrite": cost.cache_write,
            "total": cost.total,
        },
    }
    _put(fields, "cacheWrite1h", known.cache_write_1h)
    _put(fields, "reasoning", known.reasoning)
    _put(fields, "missReason", known.miss_reason)
    unreported: list[JSON] = []
    if usage is None:
        unreported += ["input", "output"]
    if known.cache_read is None:
        unreported.append("cacheRead")
    if known.cache_write is None:
        unreported.append("cacheWrite")
    if known.cost is None:
        unreported.append("cost")
    _put(fields, "unreported", unreported or None)
    return fields


def _put(fields: Object, key: str, value: JSON) -> None:
    if value is not None:
        fields[key] = value


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _name(fields: Fields, key: str) -> str:
    """A text of which a session has few: each is kept once."""
    value = fields.get(key)
    return intern(value) if value.__class__ is str else ""


def _optional(fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _count(fields: Fields, key: str) -> int | None:
    value = fields.get(key)
    if value.__class__ is int and 0 <= value < _MOST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        return None
    return int(value)


def _number(fields: Fields, key: str) -> int:
    return _count(fields, key) or 0


def _money(fields: Fields, key: str) -> float:
    value = fields.get(key)
    return float(value) if isinstance(value, int | float) and abs(value) < 2**63 else 0.0


def _content_in(value: JSON) -> str | tuple[UserContent, ...]:
    return value if isinstance(value, str) else _blocks_in(value)


def _blocks_in(value: JSON) -> tuple[UserContent, ...]:
    if isinstance(value, str):
        return (Text(value),)
    return tuple([b for b in map(_block_in, _items(value)) if isinstance(b, _SHOWN)])


def _answer_in(value: JSON) -> tuple[AssistantContent, ...]:
    if isinstance(value, str):
        return (Text(value),)
    blocks = map(_block_in, _items(value))
    return tuple([b for b in blocks if isinstance(b, _ANSWERED)])


def _items(value: JSON) -> Sequence[JSON]:
    return value if isinstance(value, list | tuple) else ()


def _block_in(block: JSON) -> UserContent | AssistantContent | None:
    if not isinstance(block, _OBJECT):
        return None
    kind = block.get("type")
    if kind == "text":
        return Text(_text(block, "text"), _optional(block, "textSignature"))
    if kind == "image":
        return Image(_text(block, "data"), _text(block, "mimeType"))
    if kind == "thinking":
        return Thinking(
            _text(block, "thinking"),
            _optional(block, "thinkingSignature"),
            block.get("redacted") is True,
        )
    if kind == "toolCall":
        arguments = block.get("arguments")
        return ToolCall(
            _text(block, "id"),
            _name(block, "name"),
            arguments if isinstance(arguments, _OBJECT) else {},
            _optional(block, "argumentsText"),
            _optional(block, "problem"),
            _optional(block, "thoughtSignature"),
        )
    return None


def _user_in(inner: Fields, when: int) -> Message:
    return UserMessage(_content_in(inner.get("content")), when)


def _assistant_in(inner: Fields, when: int) -> Message:
    reason = _text(inner, "stopReason")
    return AssistantMessage(
        content=_answer_in(inner.get("content")),
        api=_name(inner, "api"),
        provider=_name(inner, "provider"),
        model=_name(inner, "model"),
        usage=_usage_in(inner.get("usage")),
        stop_reason=cast("StopReason", intern(reason)) if reason in _STOP_REASONS else "stop",
        timestamp=when,
        response_id=_optional(inner, "responseId"),
        error_message=_optional(inner, "errorMessage"),
    )


def _result_in(inner: Fields, when: int) -> Message:
    return ToolResultMessage(
        tool_call_id=_text(inner, "toolCallId"),
        tool_name=_name(inner, "toolName"),
        content=_blocks_in(inner.get("content")),
        is_error=inner.get("isError") is True,
        details=inner.get("details"),
        timestamp=when,
    )


def _custom_in(inner: Fields, when: int) -> Message:
    return CustomMessage(
        custom_type=_text(inner, "customType"),
        content=_content_in(inner.get("content")),
        display=inner.get("display") is not False,
        details=inner.get("details"),
        timestamp=when,
        verb=_verb_in(inner["verb"]) if "verb" in inner else None,
    )


def _verb_in(value: JSON) -> Verb | None:
    from .verbs import verb_in

    return verb_in(value)


def _bash_in(inner: Fields, when: int) -> Message:
    return BashMessage(
        command=_text(inner, "command"),
        output=_text(inner, "output"),
        exit_code=_count(inner, "exitCode"),
        cancelled=inner.get("cancelled") is True,
        truncated=inner.get("truncated") is True,
        full_output_path=_optional(inner, "fullOutputPath"),
        exclude_from_context=inner.get("excludeFromContext") is True,
        timestamp=when,
    )


def _usage_in(value: JSON) -> Usage | None:
    if not isinstance(value, _OBJECT):
        return None
    unreported = _items(value.get("unreported"))
    if "input" in unreported:
        return None
    cost = value.get("cost")
    return Usage(
        input=_number(value, "input"),
        output=_number(value, "output"),
        cache_read=None if "cacheRead" in unreported else _count(value, "cacheRead"),
        cache_write=None if "cacheWrite" in unreported else _count(value, "cacheWrite"),
        cache_write_1h=_count(value, "cacheWrite1h"),
        reasoning=_count(value, "reasoning"),
        cost=_cost_in(cost) if isinstance(cost, _OBJECT) and "cost" not in unreported else None,
        miss_reason=_optional(value, "missReason"),
    )


def _cost_in(value: Fields) -> Cost:
    return Cost(*(_money(value, key) for key in ("input", "output", "cacheRead", "cacheWrite")))


_READERS: Final[Mapping[str, Callable[[Fields, int], Message]]] = {
    "user": _user_in,
    "assistant": _assistant_in,
    "toolResult": _result_in,
    "bashExecution": _bash_in,
    # What Pi makes of the other entries at run time; files of other programs hold them as messages.
    "custom": _custom_in,
    "hookMessage": _custom_in,
    "compactionSummary": lambda inner, when: SummaryMessage(
        "compaction", _text(inner, "summary"), when
    ),
    "branchSummary": lambda inner, when: SummaryMessage("branch", _text(inner, "summary"), when),
}
