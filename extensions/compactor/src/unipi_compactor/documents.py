"""From a line of a session file to what is indexed of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import orjson
from attrs import frozen

from .calls import target
from .history import NAME, RECALL, text_of_json
from .text import clean

if TYPE_CHECKING:
    from unipi_hookspecs import JSON

Kind: TypeAlias = Literal["user", "assistant", "result", "bash", "summary"]
CHUNK: Final = 1_500
"""Characters of one piece of a long text, about; a piece ends with a line where it can."""
LONGEST: Final = 262_144
"""Characters of an entry that are indexed; the host bounds what tools return far below it."""
_FAILED: Final = ("error", "aborted")


@frozen
class Document:
    """An entry's words: whose they are, when they were said (ISO, as stored), about what."""

    entry: str
    kind: Kind
    stamp: str
    title: str
    text: str

    def chunks(self) -> Iterator[str]:
        """The text in pieces; nothing is lost between them."""
        text, at = self.text, 0
        while at < len(text):
            end = at + CHUNK
            if end < len(text):
                line = text.rfind("\n", at + CHUNK // 2, end)
                end = line + 1 if line > 0 else end
            yield text[at:end]
            at = end


def decode(line: bytes) -> Mapping[str, JSON] | None:
    """One line of a session, or None when it is no JSON object."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:  # lone surrogates, NaN and the like, which other programs have written
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def document(
    fields: Mapping[str, JSON], entry: str, calls: dict[str, tuple[str, str]]
) -> Document | None:
    """What is searched of an entry, or None.

    Plugins' own messages are not, nor what the user kept from the model, failed answers, and our own
    recalls and summaries. `calls` is carried from line to line: name and target by id of call.
    """
    kind = fields.get("type")
    stamp = _text(fields, "timestamp")
    if kind in ("compaction", "branch_summary"):
        details = fields.get("details")
        if isinstance(details, Mapping) and details.get("compactor") == NAME:
            return None
        return _made(entry, "summary", stamp, str(kind), _text(fields, "summary"))
    message = fields.get("message")
    if kind != "message" or not isinstance(message, Mapping):
        return None
    role = message.get("role")
    if role == "user":
        return _made(entry, "user", stamp, "", text_of_json(message.get("content")))
    if role == "assistant":
        return _assistant(message, entry, stamp, calls)
    if role == "toolResult":
        name, about = calls.pop(_text(message, "toolCallId"), (_text(message, "toolName"), ""))
        if name == RECALL:
            return None
        title = f"{name} {about}".strip()
        return _made(entry, "result", stamp, title, text_of_json(message.get("content")))
    if role == "bashExecution" and message.get("excludeFromContext") is not True:
        text = f"$ {_text(message, 'command')}\n{_text(message, 'output')}"
        return _made(entry, "bash", stamp, "", text)
    return None


def _assistant(
    message: Mapping[str, JSON], entry: str, stamp: str, calls: dict[str, tuple[str, str]]
) -> Document | None:
    if message.get("stopReason") in _FAILED:
        return None
    content = message.get("content")
    parts = [text_of_json(content)]
    about = []
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, Mapping) or block.get("type") != "toolCall":
            continue
        name, arguments = _text(block, "name"), block.get("arguments")
        known = arguments if isinstance(arguments, Mapping) else {}
        calls[_text(block, "id")] = (name, target(known))
        if name != RECALL:
            about.append(f"{name} {target(known)}")
            parts.append(_called(name, known))
    return _made(entry, "assistant", stamp, "; ".join(about), "\n".join(p for p in parts if p))


def _called(name: str, arguments: Mapping[str, JSON]) -> str:
    lines = [f"→ {name}"]
    for key, value in arguments.items():
        shown = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        lines.append(f"{key}: {shown}")
    return "\n".join(lines)


def _made(entry: str, kind: Kind, stamp: str, title: str, text: str) -> Document | None:
    text = clean(text[:LONGEST]).replace("\0", " ")
    if not text.strip():
        return None
    return Document(entry, kind, stamp, clean(title), text)


def _text(fields: Mapping[str, JSON], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
