"""What a line of a session file says, in Pi's format or in Claude Code's, and how to say it otherwise.

Lines are JSON objects; what a cure changes is changed in a copy of the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

# The values are JSON of other programs, of which nothing can be promised.
Line: TypeAlias = dict[str, Any]
Name = Literal["pi", "claude-code"]

_CARRIED: Final = ("sessionId", "cwd", "version", "isSidechain")
_NOT_SENT: Final = ("error", "aborted")
"""How Pi marks answers that are never sent again."""
_NOT_RUN: Final = "not run: the session ended, or was damaged, before this call had a result"


@frozen
class Format:
    """The names by which a format says the same things."""

    name: Name
    id: str
    parent: str
    call: str
    arguments: str


PI: Final = Format("pi", "id", "parentId", "toolCall", "arguments")
CLAUDE: Final = Format("claude-code", "uuid", "parentUuid", "tool_use", "input")


def format_of(lines: Sequence[Line]) -> Format | None:
    """Whose file it is, by its first lines; None: nobody's that is known here."""
    if lines and lines[0].get("type") == "session" and isinstance(lines[0].get("id"), str):
        return PI
    if any("sessionId" in line or "parentUuid" in line for line in lines[:20]):
        return CLAUDE
    return None


def message_of(line: Line) -> Line | None:
    """The message of a line, or None."""
    message = line.get("message")
    return message if isinstance(message, dict) and isinstance(message.get("role"), str) else None


def blocks_of(line: Line) -> list[Line]:
    """The blocks of a line's message; a text alone has none."""
    content = (message_of(line) or line).get("content")
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def with_blocks(line: Line, blocks: list[Line]) -> Line:
    """The line with other blocks."""
    message = message_of(line)
    if message is None:
        return {**line, "content": blocks}
    return {**line, "message": {**message, "content": blocks}}


def calls_of(form: Format, line: Line) -> list[Line]:
    """The blocks of an answer that call a tool; those of an answer that failed were never run."""
    message = message_of(line)
    if message is None or message["role"] != "assistant":
        return []
    if message.get("stopReason") in _NOT_SENT:
        return []
    return [block for block in blocks_of(line) if block.get("type") == form.call]


def results_of(form: Format, line: Line) -> list[str]:
    """The ids of the calls that a line has results of."""
    message = message_of(line)
    if message is None:
        return []
    if form is PI:
        return [str(message.get("toolCallId"))] if message["role"] == "toolResult" else []
    found = (b for b in blocks_of(line) if b.get("type") == "tool_result")
    return [str(block.get("tool_use_id")) for block in found]


def without_result(form: Format, line: Line, call_id: str) -> Line | None:
    """The line without the result of a call; None: nothing of it is left."""
    if form is PI:
        return None
    kept = [
        b
        for b in blocks_of(line)
        if not (b.get("type") == "tool_result" and b.get("tool_use_id") == call_id)
    ]
    return with_blocks(line, kept) if kept else None


def result_for(form: Format, line: Line, call: Line) -> Line:
    """A result that says that a call of `line` was not run; it has no id and no parent yet."""
    common = {"timestamp": line.get("timestamp")}
    if form is PI:
        message = {
            "role": "toolResult",
            "toolCallId": call.get("id"),
            "toolName": call.get("name"),
            "content": [{"type": "text", "text": _NOT_RUN}],
            "isError": True,
            "timestamp": (message_of(line) or {}).get("timestamp", 0),
        }
        return {"type": "message", **common, "message": message}
    block = {
        "type": "tool_result",
        "tool_use_id": call.get("id"),
        "content": _NOT_RUN,
        "is_error": True,
    }
    kept: Line = {k: line[k] for k in _CARRIED if k in line}
    return {**kept, "type": "user", **common, "message": {"role": "user", "content": [block]}}


def is_unsigned(line: Line, block: Line) -> bool:
    """Whether a block is thinking that Anthropic would refuse, as it has no signature.

    Pi names the API of each answer; other providers' thinking is sent as text or not at all.
    """
    if block.get("type") != "thinking" or block.get("redacted") is True:
        return False
    message = message_of(line) or {}
    if message.get("role") != "assistant" or message.get("stopReason") in _NOT_SENT:
        return False
    if message.get("api", "anthropic-messages") != "anthropic-messages":
        return False
    return not (block.get("thinkingSignature") or block.get("signature"))


def picture_bytes(block: Line) -> int:
    """Bytes of a picture, about; 0 for what is none."""
    if block.get("type") != "image":
        return 0
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else block.get("data")
    return len(data) * 3 // 4 if isinstance(data, str) else 0


def texts_of(value: object) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_of(key)
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
