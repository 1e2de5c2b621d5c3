"""The byte shape of OpenAI's Responses API, stateless: the whole conversation in every request.

A message becomes as many input items as the model wrote: reasoning, text, calls. Each is a fragment
of its own. Items go back as they came, in their order (OpenAI, Reasoning guide, "Keeping reasoning
items in context"): a reasoning item as the very text of its JSON, kept as the signature of its
block; ids, `status` and `phase` of the others beside their text and in the ids of their calls.

What another model wrote goes back as plain text and calls: its reasoning is left out, and ids that
would tie the rest to it too.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from unipi.prefix.canonical import string
from unipi.prefix.wire import Head, ToolSpec
from unipi_hookspecs import AssistantMessage, Text, Thinking, ToolResultMessage

from .api import endpoint
from .dialects import dialect_of
from .head import envelope
from .history import is_left_out, is_native, left_out_calls, user_content
from .keeping import member
from .models import chat_effort
from .openai_responses_items import TextItem, read_text_item, reasoning_source, split_call_id
from .openai_responses_stream import ResponsesDecoder
from .plain import image_note, takes_images
from .tool_calls import arguments_text, wire_id
from .verbs import is_told, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.prefix.wire import HeadSpec
    from unipi_hookspecs import (
        JSON,
        AssistantContent,
        BashMessage,
        CustomMessage,
        Message,
        Model,
        RequestInfo,
        SummaryMessage,
        ToolCall,
        UserContent,
        UserMessage,
    )

    from .secrets import Secret


class OpenAIResponses:
    """`openai-responses`; implements `ProviderApi`."""

    name = "openai-responses"

    def url(self, model: Model) -> str:
        return endpoint(model.base_url, "/responses")

    def auth_headers(self, secret: Secret | None) -> Mapping[str, str]:
        return {} if secret is None else {"authorization": f"Bearer {secret.reveal()}"}

    def decoder(self, model: Model, info: RequestInfo, started_ms: int) -> ResponsesDecoder:
        return ResponsesDecoder(model, info, started_ms)

    def head(self, spec: HeadSpec) -> Head:
        model = spec.model
        effort = chat_effort(model, spec.thinking)
        members: dict[str, JSON] = {
            "model": model.id,
            "stream": True,
            "store": False,
            "max_output_tokens": spec.max_tokens,
            "reasoning": {"effort": effort, "summary": "auto"} if effort else None,
            "include": ["reasoning.encrypted_content"] if model.reasoning else None,
            **member(model, spec.ttl),
        }
        if spec.lineage and (key := _lineage_member(model)):
            members[key] = spec.lineage
        system = "\n\n".join(text for text in spec.system if text)
        tools = b",".join(_tool(tool) for tool in spec.tools)
        return Head(
            envelope(spec, members)
            + (b'"instructions":%b,' % string(system) if system else b"")
            + (b'"tools":[%b],' % tools if tools else b"")
            + b'"input":['
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

        Results of calls whose answer is left out are left out with it, as far as it is among
        `messages`.
        """
        found: list[tuple[int, bytes]] = []
        gone: frozenset[str] = frozenset()
        for message in messages:
            if isinstance(message, ToolResultMessage):
                left_out = message.tool_call_id in gone
                found.append((1, b"" if left_out else _result(message, model)))
            elif isinstance(message, AssistantMessage):
                gone = left_out_calls(message)
                items = _assistant(message, model) or [b""]
                found += [(0, item) for item in items[:-1]]
                found.append((1, items[-1]))
            elif is_told(message, model):
                items = _told(message)
                found += [(0, item) for item in items[:-1]]
                found.append((1, items[-1]))
            else:
                found.append((1, _user(message, model)))
        return found


def _lineage_member(model: Model) -> str | None:
    # xAI takes the key here by OpenAI's name, where Chat Completions has a header (Prompt caching).
    dialect = dialect_of(model)
    return dialect.cache_key or ("prompt_cache_key" if dialect.affinity_header else None)


def _tool(tool: ToolSpec) -> bytes:
    # Unless told otherwise this API makes schemas strict, which changes what they allow.
    return b'{"type":"function","name":%b,"description":%b,"parameters":%b,"strict":false}' % (
        string(tool.name),
        string(tool.description),
        tool.schema,
    )


def _told(message: CustomMessage) -> list[bytes]:
    """An instruction, tools, or both, as items of their own."""
    items: list[bytes] = []
    if message.verb is not None and message.verb.define:
        specs = (ToolSpec(t.name, t.description, t.schema.encode()) for t in message.verb.define)
        tools = b",".join(map(_tool, specs))
        items.append(b'{"type":"additional_tools","role":"developer","tools":[%b]}' % tools)
    if message.verb is not None and message.verb.system:
        text = _input_text(text_of(message))
        items.append(b'{"type":"message","role":"developer","content":[%b]}' % text)
    return items or [b""]


def _user(
    message: UserMessage | CustomMessage | SummaryMessage | BashMessage, model: Model
) -> bytes:
    content = user_content(message)
    parts = _parts((Text(content),) if isinstance(content, str) else content, model)
    return b'{"type":"message","role":"user","content":[%b]}' % parts if parts else b""


def _parts(content: Sequence[UserContent], model: Model) -> bytes:
    pictures = takes_images(model)
    parts: list[bytes] = []
    for block in content:
        if isinstance(block, Text):
            if block.text:
                parts.append(_input_text(block.text))
        elif pictures:
            url = string(f"data:{block.mime_type};base64,{block.data}")
            parts.append(b'{"type":"input_image","detail":"auto","image_url":%b}' % url)
        else:
            parts.append(_input_text(image_note(block)))
    return b",".join(parts)


def _input_text(text: str) -> bytes:
    return b'{"type":"input_text","text":%b}' % string(text)


def _result(result: ToolResultMessage, model: Model) -> bytes:
    """An output is one text, or a list of parts where there is a picture to show."""
    shown = takes_images(model) and any(not isinstance(b, Text) for b in result.content)
    if shown:
        output = b"[%b]" % _parts(result.content, model)
    else:
        output = string(
            "\n".join(b.text if isinstance(b, Text) else image_note(b) for b in result.content)
        )
    return b'{"type":"function_call_output","call_id":%b,"output":%b}' % (
        string(wire_id(split_call_id(result.tool_call_id)[0])),
        output,
    )


def _assistant(message: AssistantMessage, model: Model) -> list[bytes]:
    if is_left_out(message):
        return []
    native = is_native(message, model) and message.model == model.id
    items: list[bytes] = []
    last = _last_said(message.content)
    place = 0
    while place <= last:
        block = message.content[place]
        if isinstance(block, Text):
            run = _same_item(message.content, place) if native else 1
            blocks = [b for b in message.content[place : place + run] if isinstance(b, Text)]
            items.append(_message(blocks, message, place, native=native))
            place += run
            continue
        if isinstance(block, Thinking):
            source = reasoning_source(block) if native else None
            if source is not None:
                items.append(source)
        else:
            items.append(_call(block, native=native))
        place += 1
    return [item for item in items if item]


def _last_said(content: Sequence[AssistantContent]) -> int:
    """The last block that is not reasoning; -1: there is none.

    Reasoning that nothing follows (an answer cut by its limit) is refused for ever: "Item 'rs_…' of
    type 'reasoning' was provided without its required following item" (continuedev/continue #8933).
    """
    said = (i for i in reversed(range(len(content))) if _is_said(content[i]))
    return next(said, -1)


def _is_said(block: AssistantContent) -> bool:
    return bool(block.text) if isinstance(block, Text) else not isinstance(block, Thinking)


def _same_item(content: Sequence[AssistantContent], place: int) -> int:
    """How many blocks from `place` on are parts of one message item."""
    first = content[place]
    assert isinstance(first, Text), "only texts are parts of a message item"
    item = read_text_item(first.signature)
    end = place + 1
    while item.id and end < len(content):
        block = content[end]
        if not isinstance(block, Text) or read_text_item(block.signature).id != item.id:
            break
        end += 1
    return end - place


def _message(
    blocks: Sequence[Text], message: AssistantMessage, place: int, *, native: bool
) -> bytes:
    parts = b",".join(
        _output_part(block, read_text_item(block.signature) if native else TextItem())
        for block in blocks
        if block.text
    )
    if not parts:
        return b""
    item = read_text_item(blocks[0].signature) if native else TextItem()
    return b'{"type":"message","id":%b,"role":"assistant","status":%b,"content":[%b]%b}' % (
        string(item.id or _made_id(message, place)),
        string(item.status),
        parts,
        b',"phase":%b' % string(item.phase) if item.phase else b"",
    )


def _output_part(block: Text, item: TextItem) -> bytes:
    if item.refusal:
        return b'{"type":"refusal","refusal":%b}' % string(block.text)
    return b'{"type":"output_text","text":%b,"annotations":[]}' % string(block.text)


def _made_id(message: AssistantMessage, place: int) -> str:
    """The id of a text that has none here: always the same one, and no other text's."""
    said = f"{message.timestamp} {message.response_id} {place} "
    block = message.content[place]
    text = said + (block.text if isinstance(block, Text) else "")
    return "msg_" + hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()


def _call(call: ToolCall, *, native: bool) -> bytes:
    call_id, item_id = split_call_id(call.id)
    return (
        b'{"type":"function_call",%b"call_id":%b,"name":%b,"arguments":%b,"status":"completed"}'
        % (
            b'"id":%b,' % string(item_id) if native and item_id else b"",
            string(wire_id(call_id)),
            string(call.name),
            string(arguments_text(call)),
        )
    )
