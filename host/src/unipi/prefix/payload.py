"""A sealed request seen as its parts, for plugins that want to look at or shape the payload.

Nothing is decoded before somebody looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

import orjson
from attrs import evolve

from unipi_hookspecs import Payload

from .canonical import compact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unipi_hookspecs import JSON

    from .seal import Prefix
    from .wire import Head


class WireMessages(Sequence["Mapping[str, JSON]"]):
    """The wire messages of a request, each decoded once, when it is first looked at."""

    def __init__(self, prefix: Prefix | None, new: list[bytes]) -> None:
        self._prefix = prefix
        self._sent = len(prefix) if prefix is not None else 0
        self._new = new
        self._seen: dict[int, Mapping[str, JSON]] = {}

    def __len__(self) -> int:
        return self._sent + len(self._new)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, JSON]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mapping[str, JSON]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, JSON] | list[Mapping[str, JSON]]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        if place not in self._seen:
            self._seen[place] = orjson.loads(self._raw(place))
        return self._seen[place]

    def encode(self, messages: Iterable[Mapping[str, JSON]]) -> list[bytes]:
        """The bytes of messages: those of this request verbatim, as far as they are its objects."""
        places = {id(seen): place for place, seen in self._seen.items()}
        return [
            self._raw(places[id(message)]) if id(message) in places else compact(message)
            for message in messages
        ]

    def _raw(self, place: int) -> bytes:
        if self._prefix is not None and place < self._sent:
            return self._prefix.message(place)
        return self._new[place - self._sent]


def payload_of(head: Head, messages: Sequence[Mapping[str, JSON]]) -> Payload:
    """Split a head into envelope, system and tools, whichever API it belongs to."""
    members: dict[str, JSON] = orjson.loads(head.open + head.close)
    tools = members.pop("tools", [])
    leading = members.pop("messages", [])
    members.pop("input", None)
    system = members.pop("instructions" if _is_input(head) else "system", [])
    return Payload(
        envelope=members,
        system=_items(system) or _items(leading),
        tools=[tool for tool in _items(tools) if isinstance(tool, dict)],
        messages=messages,
    )


def head_of(original: Head, payload: Payload) -> Head:
    """The head that a changed payload asks for: its envelope first, the history's place last."""
    parts = [
        compact(name) + b":" + compact(value)
        for name, value in payload.envelope.items()
        if name not in ("messages", "input", "tools", "system", "instructions")
    ]
    if _is_input(original):
        return evolve(original, open=_input_head(parts, payload))
    if payload.system and not original.leading:
        parts.append(b'"system":' + compact(list(payload.system)))
    if payload.tools:
        parts.append(b'"tools":' + compact(list(payload.tools)))
    leading = b",".join(compact(item) for item in payload.system) if original.leading else b""
    opening = b"{" + b",".join([*parts, b'"messages":[' + leading])
    return evolve(original, open=opening, leading=bool(leading))


def _is_input(head: Head) -> bool:
    """Whether it is the Responses API's: its messages are `input`, its system one text."""
    return head.open.endswith(b'"input":[')


def _input_head(parts: list[bytes], payload: Payload) -> bytes:
    system = "\n\n".join(text for item in payload.system if (text := _text_of(item)))
    if system:
        parts.append(b'"instructions":' + compact(system))
    if payload.tools:
        parts.append(b'"tools":' + compact(list(payload.tools)))
    return b"{" + b",".join([*parts, b'"input":['])


def _text_of(item: JSON) -> str:
    """The text of a system block, which plugins write as the other APIs do, too."""
    if isinstance(item, Mapping):
        item = item.get("text") or item.get("content")
    return item if isinstance(item, str) else ""


def _items(value: JSON) -> list[JSON]:
    return list(value) if isinstance(value, list) else [value] if value else []
