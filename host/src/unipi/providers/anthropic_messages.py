"""The byte shape of Anthropic's Messages API.

Cache markers: the top-level automatic `cache_control` moves by itself, so no byte of an earlier
message ever changes; two explicit ones stand on the last tool and the last system block. That leaves
one of the four allowed for a block inside the messages, where a turn is wider than the 20 blocks
that a lookup goes back (Anthropic, Prompt caching).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.prefix.canonical import compact, string
from unipi.prefix.marks import Marker
from unipi.prefix.wire import Head, ToolSpec
from unipi_hookspecs import AssistantMessage, CustomMessage, Text, Thinking, ToolResultMessage, Verb

from .anthropic_stream import AnthropicDecoder
from .api import endpoint
from .head import envelope
from .history import is_left_out, is_native, left_out_calls, user_content
from .models import anthropic_thinking
from .parts import as_list, as_object, as_text, read_json
from .plain import image_note, takes_images
from .tool_calls import arguments_object, items, members, wire_id
from .verbs import text_of, told_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.prefix.wire import HeadSpec
    from unipi_hookspecs import (
        JSON,
        BashMessage,
        Image,
        Message,
        Model,
        RequestInfo,
        SummaryMessage,
        ToolCall,
        UserContent,
        UserMessage,
    )

    from .secrets import Secret

VERSION = "2023-06-01"
"""The version that all compatible servers take; 2026-10-21 refuses `temperature` and its kin."""

_MARKERS = 4
_LOOK_BACK = 20
_UNMARKED = ("thinking", "redacted_thinking")
_SYSTEM = b'{"role":"system",'


class AnthropicMessages:
    """`anthropic-messages`; implements `ProviderApi`."""

    name = "anthropic-messages"

    def url(self, model: Model) -> str:
        return endpoint(model.base_url, "/messages")

    def auth_headers(self, secret: Secret | None) -> Mapping[str, str]:
        version = {"anthropic-version": VERSION}
        return version if secret is None else {**version, "x-api-key": secret.reveal()}

    def decoder(self, model: Model, info: RequestInfo, started_ms: int) -> AnthropicDecoder:
        return AnthropicDecoder(model, info, started_ms)

    def head(self, spec: HeadSpec) -> Head:
        model = spec.model
        max_tokens = model.max_tokens if spec.max_tokens is None else spec.max_tokens
        members: dict[str, JSON] = {
            "model": model.id,
            "max_tokens": max_tokens,
            "stream": True,
            "cache_control": _cache_control(spec),
            **anthropic_thinking(model, spec.thinking, max_tokens),
        }
        system = [b'{"type":"text","text":' + string(t) for t in spec.system if t.strip()]
        tools = [_tool(tool) for tool in spec.tools]
        return Head(
            envelope(spec, members)
            + _marked(b'"system":[', system, spec)
            + _marked(b'"tools":[', tools, spec)
            + b'"messages":['
        )

    def marker(self, spec: HeadSpec) -> Marker:
        taken = 1 + bool(spec.tools) + any(text.strip() for text in spec.system)
        return Marker(_marker(spec), _MARKERS - taken, _LOOK_BACK)

    def block_ends(self, fragment: bytes) -> list[int]:
        """Where each block's marker would stand; thinking takes none, nor does a bare text.

        Nor do system messages: whether each of their blocks may have one is not documented.
        """
        text = fragment.decode("latin-1")  # a character a byte, and no byte of a string is a quote
        at = next(start for key, start, _ in members(text) if key == "content")
        if text[at] == '"':
            return [-1]
        kinds = [as_text(as_object(b).get("type")) for b in as_list(read_json(fragment)["content"])]
        plain = not fragment.startswith(_SYSTEM)
        return [
            end - 1 if plain and kind not in _UNMARKED else -1
            for kind, (_, end) in zip(kinds, items(text, at), strict=True)
        ]

    def without_thinking(self, fragment: bytes) -> bytes:
        """The message without its thinking, the rest of it byte for byte; none where all is."""
        if b'thinking"' not in fragment:
            return fragment
        text = fragment.decode("latin-1")
        at = next(start for key, start, _ in members(text) if key == "content")
        if text[at] == '"':
            return fragment
        blocks = [text[start:end].encode("latin-1") for start, end in items(text, at)]
        kept = [block for block in blocks if read_json(block).get("type") not in _UNMARKED]
        if len(kept) == len(blocks):
            return fragment
        end = at + 1 + sum(map(len, blocks)) + len(blocks) - 1
        return b"%b[%b%b" % (fragment[:at], b",".join(kept), fragment[end:]) if kept else b""

    def fragments(self, messages: Sequence[Message], model: Model) -> list[tuple[int, bytes]]:
        """Convert messages; see `WireApi.fragments`.

        Results of calls whose answer is left out (it failed or was aborted) are left out with it,
        as far as that answer is among `messages`.
        """
        found: list[tuple[int, bytes]] = []
        gone: frozenset[str] = frozenset()
        at = 0
        while at < len(messages):
            message = messages[at]
            if isinstance(message, ToolResultMessage):
                run = [message]
                while at + len(run) < len(messages):
                    following = messages[at + len(run)]
                    if not isinstance(following, ToolResultMessage):
                        break
                    run.append(following)
                found.append((len(run), _results(run, model, gone)))
                at += len(run)
                continue
            told = told_run(messages, at, model)
            if told:
                found.append((told, _told(messages[at : at + told])))
                at += told
                continue
            if isinstance(message, AssistantMessage):
                gone = left_out_calls(message)
                found.append((1, _assistant(message, model)))
            else:
                found.append((1, _user(message, model)))
            at += 1
        return found


def _cache_control(spec: HeadSpec) -> dict[str, JSON]:
    # One time to live for all markers: a longer one may not stand behind a shorter one.
    return {"ttl": spec.ttl, "type": "ephemeral"} if spec.ttl else {"type": "ephemeral"}


def _marker(spec: HeadSpec) -> bytes:
    return b',"cache_control":' + compact(_cache_control(spec))


def _marked(opening: bytes, unclosed: Sequence[bytes], spec: HeadSpec) -> bytes:
    if not unclosed:
        return b""
    return opening + b"},".join(unclosed) + _marker(spec) + b"}],"


def _tool(tool: ToolSpec) -> bytes:
    return b'{"name":%b,"description":%b,"input_schema":%b' % (
        string(tool.name),
        string(tool.description),
        tool.schema,
    )


def _told(run: Sequence[Message]) -> bytes:
    """One system message for all that is told at this place: two in a row are not allowed."""
    blocks: list[bytes] = []
    effort = ""
    for message in run:
        assert isinstance(message, CustomMessage), "only these are told by a verb"
        verb = message.verb or Verb()
        if verb.system:
            blocks.append(_text(text_of(message)))
        blocks += [_change(b"tool_removal", _reference(name)) for name in verb.withdraw]
        blocks += [_change(b"tool_addition", _reference(name)) for name in verb.offer]
        for tool in verb.define:
            made = _tool(ToolSpec(tool.name, tool.description, tool.schema.encode())) + b"}"
            definition = b'{"type":"tool_definition","definition":%b}' % made
            blocks.append(_change(b"tool_addition", definition))
        effort = verb.effort or effort
    config = b',"output_config":{"effort":%b}' % string(effort) if effort else b""
    return _SYSTEM + b'"content":[%b]%b}' % (b",".join(blocks), config)


def _change(kind: bytes, tool: bytes) -> bytes:
    return b'{"type":"%b","tool":%b}' % (kind, tool)


def _reference(name: str) -> bytes:
    return b'{"type":"tool_reference","name":%b}' % string(name)


def _user(
    message: UserMessage | CustomMessage | SummaryMessage | BashMessage, model: Model
) -> bytes:
    content = user_content(message)
    if isinstance(content, str):
        # The API refuses text that is nothing but white space.
        return b'{"role":"user","content":%b}' % string(content) if content.strip() else b""
    blocks = _blocks(content, model)
    return b'{"role":"user","content":[%b]}' % blocks if blocks else b""


def _blocks(content: Sequence[UserContent], model: Model) -> bytes:
    pictures = takes_images(model)
    written: list[bytes] = []
    for block in content:
        if isinstance(block, Text):
            if block.text.strip():
                written.append(_text(block.text))
        elif pictures:
            written.append(_image(block))
        else:
            written.append(_text(image_note(block)))
    return b",".join(written)


def _text(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % string(text)


def _image(image: Image) -> bytes:
    return b'{"type":"image","source":{"type":"base64","media_type":%b,"data":%b}}' % (
        string(image.mime_type),
        string(image.data),
    )


def _results(run: Sequence[ToolResultMessage], model: Model, gone: frozenset[str]) -> bytes:
    written = b",".join(_result(r, model) for r in run if r.tool_call_id not in gone)
    return b'{"role":"user","content":[%b]}' % written if written else b""


def _result(result: ToolResultMessage, model: Model) -> bytes:
    blocks = _blocks(result.content, model)
    return b'{"type":"tool_result","tool_use_id":%b,"content":%b%b}' % (
        string(wire_id(result.tool_call_id)),
        b"[%b]" % blocks if blocks else b'""',
        b',"is_error":true' if result.is_error else b"",
    )


def _assistant(message: AssistantMessage, model: Model) -> bytes:
    if is_left_out(message):
        return b""
    native = is_native(message, model)
    written: list[bytes] = []
    for block in message.content:
        if isinstance(block, Text):
            if block.text.strip():
                written.append(_text(block.text))
        elif isinstance(block, Thinking):
            if native and block.signature is not None:
                written.append(_thinking(block, block.signature))
        else:
            written.append(_call(block))
    return b'{"role":"assistant","content":[%b]}' % b",".join(written) if written else b""


def _thinking(block: Thinking, signature: str) -> bytes:
    if block.redacted:
        return b'{"type":"redacted_thinking","data":%b}' % string(signature)
    return b'{"type":"thinking","thinking":%b,"signature":%b}' % (
        string(block.thinking),
        string(signature),
    )


def _call(call: ToolCall) -> bytes:
    return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % (
        string(wire_id(call.id)),
        string(call.name),
        arguments_object(call),
    )
