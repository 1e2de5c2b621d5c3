"""A request body as digests: what of it a provider reads, and what of it is only notation.

Works on the bodies of the Messages, Chat Completions and Responses APIs and keeps no part of
them. Every value has three digests, HMAC-SHA-256 under the caller's key (RFC 2104), whole:

`raw`       its source text, cache markers taken out
`rendered`  what a provider puts into the prompt: escapes and white space do not matter, the order
            of keys and the form of numbers do where the provider hands them on as they came (in
            tool definitions and tool arguments)
`meaning`   the JSON value: no order of keys, numbers by value

Cache markers are set aside and kept apart: moving one moves no cached byte. Plain text stands for
one block of text. On the Messages API a conversation is its blocks, since neighbours of one role
are joined (Anthropic, "Messages", 2026); elsewhere it is its messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import field, frozen

from .structure_scan import Node, Scanner

if TYPE_CHECKING:
    from collections.abc import Mapping

Api: TypeAlias = Literal["anthropic-messages", "openai-chat-completions", "openai-responses"]

SEQUENCES: Final = ("messages", "input")
"""The fields with the conversation, in the order they are looked for."""

_SYSTEM: Final = ("system", "instructions")


@frozen
class Item:
    """A tool, a block of the system prompt, or a piece of the conversation.

    `path` says where it stands (`messages[2].content[0]`), `voice` is the role it is said in and
    `size` its bytes in the body.
    """

    path: str
    node: Node = field(repr=False)
    size: int
    voice: str = ""

    @property
    def rendered(self) -> tuple[str, bytes]:
        return self.voice, self.node.rendered

    @property
    def raw(self) -> bytes:
        return self.node.raw


@frozen
class Structure:
    """All of a request body, as digests.

    `sequence` names the field with the conversation, or is `none`. `envelope` holds the fields
    that are neither conversation, tools nor system prompt. `markers` are the paths of cache
    markers and digests of what they say. `size` is in bytes.
    """

    api: Api
    sequence: str
    envelope: Mapping[str, Node] = field(repr=False)
    tools: tuple[Item, ...] = field(repr=False)
    system: tuple[Item, ...] = field(repr=False)
    messages: tuple[Item, ...] = field(repr=False)
    markers: tuple[tuple[str, bytes], ...] = field(repr=False)
    size: int


def parse(body: bytes, key: bytes) -> Structure:
    """Digest a request body. Two structures compare only under one key.

    Raises ValueError when the body is not one JSON object.
    """
    text = body.decode("utf-8", "surrogatepass")
    scanner = Scanner(text, key)
    fields = scanner.document()
    sequence = next((name for name in SEQUENCES if name in fields), "none")
    api = _api(scanner, fields, sequence)
    system = next((name for name in _SYSTEM if name in fields), "")
    conversation: tuple[Item, ...] = ()
    if sequence != "none":
        conversation = _conversation(scanner, sequence, fields[sequence], api)
    taken = {sequence, system, "tools"}
    return Structure(
        api=api,
        sequence=sequence,
        envelope={name: node for name, node in fields.items() if name not in taken},
        tools=_listed(scanner, "tools", fields.get("tools")),
        system=_listed(scanner, system, fields.get(system)),
        messages=conversation,
        markers=tuple(scanner.markers),
        size=len(body),
    )


def _api(scanner: Scanner, fields: Mapping[str, Node], sequence: str) -> Api:
    """Which API a body is for: the names that only one of them has decide."""
    if sequence == "input" or "instructions" in fields:
        return "openai-responses"
    tools = fields["tools"].children if "tools" in fields else ()
    own = any(tool.child("input_schema") for _, tool in tools)
    if "system" in fields or "anthropic_version" in fields or own or scanner.saw_anthropic_block:
        return "anthropic-messages"
    return "openai-chat-completions"


def _listed(scanner: Scanner, name: str, node: Node | None) -> tuple[Item, ...]:
    if node is None or not name:
        return ()
    if node.kind != "array":
        return (Item(name, node, scanner.size(node)),)
    return tuple(
        Item(f"{name}[{index}]", child, scanner.size(child))
        for index, (_, child) in enumerate(node.children)
    )


def _conversation(scanner: Scanner, name: str, node: Node, api: Api) -> tuple[Item, ...]:
    items = _listed(scanner, name, node)
    if api != "anthropic-messages":
        return items
    blocks: list[Item] = []
    for item in items:
        content = item.node.child("content")
        if content is None or not content.children:
            blocks.append(item)
            continue
        voice = item.node.role
        one = len(content.children) == 1
        for index, (_, block) in enumerate(content.children):
            size = item.size if one else scanner.size(block)
            path = f"{item.path}.content[{index}]"
            blocks.append(Item(path, block, size, voice))
    return tuple(blocks)
