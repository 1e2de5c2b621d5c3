"""Reads JSON text once and digests every value in it, with its place in the text.

The standard library's reader forgets how a value was written; here that is half of the matter.
"""

from __future__ import annotations

import hmac
import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind: TypeAlias = Literal["object", "array", "text", "number", "constant"]

MARKERS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})

_VERBATIM: Final = frozenset({"tools", "input_schema", "parameters", "schema", "arguments"})
"""Fields whose inner order of keys goes into the prompt as it is; so does a tool call's `input`."""

_STRINGS: Final = JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: Final = ("true", "false", "null")
_ANTHROPIC: Final = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_ROLES: Final = frozenset({"user", "assistant", "system", "developer", "tool"})
_TYPES: Final = _ANTHROPIC | {"text", "image", "input_text", "output_text", "function_call"}


@frozen(eq=False)
class Node:
    """A value: its digests, its children by name (or `[0]`), and its span in the text.

    `ordered` says that the order of its keys is part of what is rendered. `role` and `type` are
    kept where they are well-known words, and empty otherwise.
    """

    kind: Kind
    raw: bytes = field(repr=False)
    rendered: bytes = field(repr=False)
    meaning: bytes = field(repr=False)
    start: int
    end: int
    children: tuple[tuple[str, Node], ...] = field(default=(), repr=False)
    ordered: bool = False
    role: str = ""
    type: str = ""

    def child(self, name: str) -> Node | None:
        return next((node for known, node in self.children if known == name), None)


class Scanner:
    """Scans one document. `markers` are filled in as they are met, with their paths."""

    def __init__(self, text: str, key: bytes) -> None:
        self._text = text
        self._key = key
        self._ascii = text.isascii()
        self.markers: list[tuple[str, bytes]] = []
        self.saw_anthropic_block = False

    def document(self) -> dict[str, Node]:
        """The members of the one object that the text is.

        Raises ValueError when it is something else.
        """
        try:
            node, at = self._value(self._skip(0), "", ordered=False)
        except (RecursionError, IndexError, StopIteration):
            raise ValueError("the body is no JSON that can be read") from None
        if self._skip(at) != len(self._text) or node.kind != "object":
            raise ValueError("the body is not one JSON object")
        return dict(node.children)

    def size(self, node: Node) -> int:
        """A value's bytes in UTF-8."""
        if self._ascii:
            return node.end - node.start
        return len(self._text[node.start : node.end].encode("utf-8", "surrogatepass"))

    def _digest(self, *parts: str | bytes) -> bytes:
        """A digest of parts that cannot run into one another: each says how long it is."""
        data = bytearray()
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            data += b"%d:" % len(encoded)
            data += encoded
        return hmac.digest(self._key, bytes(data), "sha256")

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _value(self, at: int, path: str, *, ordered: bool) -> tuple[Node, int]:
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at, path, ordered=ordered)
        if opening == "[":
            return self._array(at, path, ordered=ordered)
        if opening == '"':
            return self._string(at)
        return self._scalar(at)

    def _text_at(self, at: int) -> tuple[str, int]:
        """A quoted text and where it ends; the caller has seen its first quote."""
        value, end = _STRINGS.raw_decode(self._text, at)
        return str(value), end

    def _string(self, at: int) -> tuple[Node, int]:
        value, end = self._text_at(at)
        rendered = self._digest("text", value)
        raw = self._digest("source", self._text[at:end])
        return Node("text", raw, rendered, rendered, at, end), end

    def _scalar(self, at: int) -> tuple[Node, int]:
        for name in _CONSTANTS:
            if self._text.startswith(name, at):
                digest = self._digest(name)
                return Node("constant", digest, digest, digest, at, at + len(name)), at + len(name)
        match = _NUMBER.match(self._text, at)
        if match is None:
            raise ValueError(f"character {at} begins no JSON value")
        source = match[0]
        rendered = self._digest("number", source)
        meaning = self._digest("number", _by_value(source))
        return Node("number", rendered, rendered, meaning, at, match.end()), match.end()

    def _array(self, start: int, path: str, *, ordered: bool) -> tuple[Node, int]:
        children: list[tuple[str, Node]] = []
        spaces: list[str] = []
        at = self._space(start + 1, spaces)
        while self._text[at] != "]":
            if children:
                at = self._comma(at, spaces)
            name = f"[{len(children)}]"
            node, at = self._value(at, path + name, ordered=ordered)
            children.append((name, node))
            at = self._space(at, spaces)
        nodes = [node for _, node in children]
        return Node(
            "array",
            self._digest("array", _blanks(spaces), *(node.raw for node in nodes)),
            self._digest("array", *(node.rendered for node in nodes)),
            self._digest("array", *(node.meaning for node in nodes)),
            start,
            at + 1,
            tuple(children),
        ), at + 1

    def _object(self, start: int, path: str, *, ordered: bool) -> tuple[Node, int]:
        members: list[tuple[str, str, Node]] = []  # name, its source, value
        spaces: list[str] = []
        words: dict[str, str] = {}
        at, first = self._space(start + 1, spaces), True
        while self._text[at] != "}":
            if not first:
                at = self._comma(at, spaces)
            first, key_at = False, at
            if self._text[at] != '"':
                raise ValueError(f"character {at} begins no key")
            name, at = self._text_at(at)
            source = self._text[key_at:at]
            at = self._space(at, spaces)
            if self._text[at] != ":":
                raise ValueError(f"character {at} should be a colon")
            at = self._space(at + 1, spaces)
            inner = ordered or name in _VERBATIM or (name == "input" and path != "")
            node, at = self._value(at, f"{path}.{name}" if path else name, ordered=inner)
            if name in MARKERS and node.kind != "text" and (not ordered or _is_tool(path)):
                self.markers.append((path, node.meaning))
            else:
                members.append((name, source, node))
                if name in ("role", "type") and node.kind == "text":
                    words[name] = self._word(node)
            at = self._space(at, spaces)
        return self._made(members, spaces, words, (start, at + 1), path, ordered=ordered), at + 1

    def _made(
        self,
        members: Sequence[tuple[str, str, Node]],
        spaces: Sequence[str],
        words: dict[str, str],
        span: tuple[int, int],
        path: str,
        *,
        ordered: bool,
    ) -> Node:
        kind, role = words.get("type", ""), words.get("role", "")
        self.saw_anthropic_block = self.saw_anthropic_block or (kind in _ANTHROPIC and not ordered)
        children = [(name, node) for name, _, node in members]
        if not ordered and (role or kind == "tool_result" or not path):
            children = [(name, self._as_blocks(name, node, path)) for name, node in children]
        by_name = sorted(children, key=lambda member: member[0])
        rendered = children if ordered else by_name
        return Node(
            "object",
            self._digest(
                "object", _blanks(spaces), *(p for _, s, n in members for p in (s, n.raw))
            ),
            self._digest("object", *(p for name, n in rendered for p in (name, n.rendered))),
            self._digest("object", *(p for name, n in by_name for p in (name, n.meaning))),
            span[0],
            span[1],
            tuple(children),
            ordered,
            role,
            kind,
        )

    def _as_blocks(self, name: str, node: Node, path: str) -> Node:
        """Plain text as the one block of text that it stands for."""
        if node.kind != "text" or name not in ("content", "system"):
            return node
        word = "input_text" if path.startswith("input") else "text"
        kind = self._digest("text", word)
        block = self._digest("object", "text", node.rendered, "type", kind)
        whole = self._digest("array", block)
        inner = Node("object", node.raw, block, block, node.start, node.end, (("text", node),))
        return Node("array", node.raw, whole, whole, node.start, node.end, (("[0]", inner),))

    def _word(self, node: Node) -> str:
        source = self._text[node.start + 1 : node.end - 1]
        return source if source in _ROLES or source in _TYPES else ""

    def _space(self, at: int, spaces: list[str]) -> int:
        end = self._skip(at)
        spaces.append(self._text[at:end])
        return end

    def _comma(self, at: int, spaces: list[str]) -> int:
        if self._text[at] != ",":
            raise ValueError(f"character {at} should be a comma")
        return self._space(at + 1, spaces)


def _blanks(spaces: Sequence[str]) -> str:
    """Which white space is used, not how often: a marker that is taken out takes its own along."""
    return "|".join(sorted(set(spaces)))


def _is_tool(path: str) -> bool:
    return re.fullmatch(r"tools\[[0-9]+\]", path) is not None


def _by_value(source: str) -> str:
    """A number in one form for each value: `2.50`, `2.5` and `25e-1` are the same."""
    from decimal import Decimal

    value = Decimal(source)
    return "0" if not value else str(value.normalize())
