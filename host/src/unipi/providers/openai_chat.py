"""The byte shape of OpenAI's Chat Completions API and of the servers that copy it.

What differs from server to server is data: see `dialects`. Where reasoning is replayed it goes out
with every turn that called a tool and no other (DeepSeek, Thinking Mode: such a turn without it is
refused), as an empty text where there was none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.prefix.canonical import string
from unipi.prefix.wire import Head
from unipi_hookspecs import AssistantMessage, Text, ToolResultMessage

from .api import endpoint
from .dialects import dialect_of, wants_markers
from .head import envelope
from .history import is_left_out, is_native, left_out_calls, user_content
from .keeping import member
from .models import chat_effort
from .openai_chat_stream import ChatDecoder
from .plain import image_note, takes_images
from .tool_calls import arguments_text, exact_id, wire_id
from .verbs import is_told, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.prefix.wire import HeadSpec, ToolSpec
    from unipi_hookspecs import (
        JSON,
        BashMessage,
        CustomMessage,
        Message,
        Model,
        RequestInfo,
        SummaryMessage,
        ToolCall,
        UserMessage,
    )

    from .secrets import Secret


class OpenAIChat:
    """`openai-chat-completions`; implements `ProviderApi`."""

    name = "openai-chat-completions"

    def url(self, model: Model) -> str:
        return endpoint(model.base_url, "/chat/completions")

    def auth_headers(self, secret: Secret | None) -> Mapping[str, str]:
        return {} if secret is None else {"authorization": f"Bearer {secret.reveal()}"}

    def decoder(self, model: Model, info: RequestInfo, started_ms: int) -> ChatDecoder:
        return ChatDecoder(model, info, started_ms)

    def head(self, spec: HeadSpec) -> Head:
        model = spec.model
        dialect = dialect_of(model)
        _check_options(spec)
        marked = wants_markers(model)
        members: dict[str, JSON] = {
            "model": model.id,
            "stream": True,
            "stream_options": {"include_usage": True} if dialect.stream_options else None,
            dialect.limit: spec.max_tokens,
            dialect.cache_key or "prompt_cache_key": spec.lineage or None
            if dialect.cache_key
            else None,
            "reasoning_effort": chat_effort(model, spec.thinking),
            **member(model, spec.ttl),
        }
        if marked:
            members["cache_control"] = {"type": "ephemeral"}
        tools = b",".join(_tool(tool) for tool in spec.tools)
        system = "\n\n".join(text for text in spec.system if text)
        return Head(
            envelope(spec, members)
            + (b'"tools":[%b],' % tools if tools else b"")
            + b'"messages":['
            + (_system(system, marked=marked) if system else b""),
            leading=bool(system),
        )

    def marker(self, spec: HeadSpec) -> None:
        """None: the implicit entry at the newest message is all that an append needs."""

    def block_ends(self, fragment: bytes) -> list[int]:
        return []

    def without_thinking(self, fragment: bytes) -> bytes:
        """The message as it is: here reasoning is bound to nothing before it."""
        return fragment

    def fragments(self, messages: Sequence[Message], model: Model) -> list[tuple[int, bytes]]:
        """Convert messages; see `WireApi.fragments`.

        A tool message carries text alone: a picture in a result becomes a note. Results of calls
        whose answer is left out are left out with it, as far as it is among `messages`.
        """
        found: list[tuple[int, bytes]] = []
        gone: frozenset[str] = frozenset()
        for message in messages:
            if isinstance(message, ToolResultMessage):
                fragment = b"" if message.tool_call_id in gone else _result(message, model)
            elif isinstance(message, AssistantMessage):
                gone = left_out_calls(message)
                fragment = _assistant(message, model)
            else:
                fragment = _user(message, model)
            found.append((1, fragment))
        return found


def _check_options(spec: HeadSpec) -> None:
    dialect = dialect_of(spec.model)
    refused = sorted(dialect.refused & (spec.model.options.keys() | spec.options.keys()))
    if refused:
        raise ValueError(
            f"model {spec.model.name}: {dialect.name} answers the option {refused[0]!r} with an "
            "error; remove it from its options in models.json"
        )


def _system(text: str, *, marked: bool) -> bytes:
    if not marked:
        return b'{"role":"system","content":%b}' % string(text)
    return (
        b'{"role":"system","content":[{"type":"text","text":%b'
        b',"cache_control":{"type":"ephemeral"}}]}' % string(text)
    )


def _tool(tool: ToolSpec) -> bytes:
    return b'{"type":"function","function":{"name":%b,"description":%b,"parameters":%b}}' % (
        string(tool.name),
        string(tool.description),
        tool.schema,
    )


def _user(
    message: UserMessage | CustomMessage | SummaryMessage | BashMessage, model: Model
) -> bytes:
    if is_told(message, model):
        role = string(dialect_of(model).instructs)
        return b'{"role":%b,"content":%b}' % (role, string(text_of(message)))
    content = user_content(message)
    if isinstance(content, str):
        return b'{"role":"user","content":%b}' % string(content) if content else b""
    pictures = takes_images(model)
    parts: list[bytes] = []
    for block in content:
        if isinstance(block, Text):
            if block.text:
                parts.append(_text(block.text))
        elif pictures:
            url = string(f"data:{block.mime_type};base64,{block.data}")
            parts.append(b'{"type":"image_url","image_url":{"url":%b}}' % url)
        else:
            parts.append(_text(image_note(block)))
    return b'{"role":"user","content":[%b]}' % b",".join(parts) if parts else b""


def _text(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % string(text)


def _result(result: ToolResultMessage, model: Model) -> bytes:
    text = "\n".join(
        block.text if isinstance(block, Text) else image_note(block) for block in result.content
    )
    return b'{"role":"tool","tool_call_id":%b,"content":%b}' % (
        _id(result.tool_call_id, model),
        string(text),
    )


def _assistant(message: AssistantMessage, model: Model) -> bytes:
    if is_left_out(message):
        return b""
    # One answer of this API is one string; several blocks come from another API.
    text = "\n\n".join(b.text for b in message.content if b.type == "text" and b.text)
    calls = b",".join(_call(block, model) for block in message.content if block.type == "toolCall")
    if not calls:
        return b'{"role":"assistant","content":%b}' % string(text) if text else b""
    return b'{"role":"assistant","content":%b%b,"tool_calls":[%b]}' % (
        string(text) if text else b"null",
        _reasoning(message, model),
        calls,
    )


def _reasoning(message: AssistantMessage, model: Model) -> bytes:
    if not (model.reasoning and dialect_of(model).replays_reasoning):
        return b""
    thoughts = (b.thinking for b in message.content if b.type == "thinking")
    text = "".join(thoughts) if is_native(message, model) else ""
    return b',"reasoning_content":%b' % string(text)


def _id(call_id: str, model: Model) -> bytes:
    length = dialect_of(model).call_id_length
    return string(wire_id(call_id) if length is None else exact_id(call_id, length))


def _call(call: ToolCall, model: Model) -> bytes:
    return b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}' % (
        _id(call.id, model),
        string(call.name),
        string(arguments_text(call)),
    )
