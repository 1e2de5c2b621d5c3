"""What changed between two requests, where, and how much of the first is still a prefix.

A provider renders the tools, then the system prompt, then the conversation; the first difference
in that order is the finding (Anthropic, "Prompt caching"; OpenAI, "Prompt caching", 2026).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from attrs import frozen

from .structure_scan import MARKERS, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .structure import Item, Structure
    from .transition import Transition

NEUTRAL: Final = frozenset(
    {
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "metadata", "user"),
        *("stop", "stop_sequences", "stream", "stream_options", "temperature", "top_p", "top_k"),
        *("seed", "n", "store", "service_tier", "safety_identifier", "diagnostics", "include"),
        *("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias"),
        *MARKERS,
    }
)
"""Fields that no provider puts into the prompt (Anthropic, "Prompt caching", what invalidates the
cache; `cache_control` at the top is a marker). A change of one is no boundary."""

_AFTER_SYSTEM: Final = frozenset(
    {"tool_choice", "thinking", "output_config", "parallel_tool_calls", "reasoning"}
)
"""Fields whose change leaves tools and system prompt as they are (same table)."""

_ARGUMENTS: Final = re.compile(r"\.input(?:\[[0-9]+\])*$")

SAME_MEANING: Final = "same meaning, other bytes"


@frozen
class Finding:
    """A transition, and what is behind it.

    `location` is a path such as `tools[3].input_schema.properties`, empty where nothing changed.
    `kind` is `changed`, `added`, `removed`, `order` or `same meaning, other bytes`; `detail` says
    more in words, and never anything out of the request but the names of fields.
    `surviving_bytes` counts what is still a prefix of the next request, in the bytes of the
    current body. `marker_only` says that cache markers moved and nothing else did.
    """

    transition: Transition
    location: str = ""
    kind: str = ""
    detail: str = ""
    surviving_bytes: int = 0
    marker_only: bool = False


def compare(previous: Structure | None, current: Structure) -> Finding:
    """Classify a request after the one before it, in the order of the specification."""
    if previous is None:
        return Finding("first_request")
    if previous.sequence != current.sequence or previous.api != current.api:
        changed = f"{previous.sequence} became {current.sequence}"
        return Finding("payload_shape_changed", current.sequence, "changed", changed)
    return _envelope(previous, current) or _history(previous, current)


def _envelope(before: Structure, now: Structure) -> Finding | None:
    """A change of what stands before the conversation, the first that a provider renders."""
    fields = _fields(before, now)
    whole = next((name for name in fields if name not in _AFTER_SYSTEM), None)
    if whole is not None:
        return _field(before, now, whole, 0)
    size = 0
    for old, new in ((before.tools, now.tools), (before.system, now.system)):
        if [item.rendered for item in old] != [item.rendered for item in new]:
            return _list(old, new, size)
        size += sum(item.size for item in new)
    return _field(before, now, fields[0], size) if fields else None


def _fields(before: Structure, now: Structure) -> list[str]:
    names = [*now.envelope, *(name for name in before.envelope if name not in now.envelope)]
    return [
        name
        for name in names
        if name not in NEUTRAL and _rendered(before, name) != _rendered(now, name)
    ]


def _rendered(of: Structure, name: str) -> bytes | None:
    node = of.envelope.get(name)
    return None if node is None else node.rendered


def _field(before: Structure, now: Structure, name: str, size: int) -> Finding:
    old, new = before.envelope.get(name), now.envelope.get(name)
    if old is None or new is None:
        return Finding("envelope_changed", name, "added" if old is None else "removed", "", size)
    place, kind, detail = locate(old, new, name)
    return Finding("envelope_changed", place, kind, detail, size)


def _list(old: Sequence[Item], new: Sequence[Item], size: int) -> Finding:
    """Tools or blocks of the system prompt differ: which one is the first, and how."""
    shared = _shared(old, new)
    size += sum(item.size for item in new[:shared])
    one = (new[shared : shared + 1] or old[shared : shared + 1])[0]
    before, now = ([item.rendered for item in side] for side in (old, new))
    if sorted(before) == sorted(now):
        return Finding(
            "envelope_changed", one.path, "order", "the same ones in another order", size
        )
    more = len(new) - len(old)
    if more > 0 and before[shared:] == now[shared + more :]:
        detail = f"{more} more than before"
        return Finding("envelope_changed", one.path, "added", detail, size)
    if more < 0 and now[shared:] == before[shared - more :]:
        detail = f"{-more} fewer than before"
        return Finding("envelope_changed", one.path, "removed", detail, size)
    if shared == min(len(old), len(new)):
        return Finding("envelope_changed", one.path, "changed", "another number of them", size)
    place, kind, detail = locate(old[shared].node, new[shared].node, one.path)
    return Finding("envelope_changed", place, kind, detail, size)


def _history(before: Structure, now: Structure) -> Finding:
    old, new = before.messages, now.messages
    shared = _shared(old, new)
    size = sum(item.size for side in (now.tools, now.system, new[:shared]) for item in side)
    if shared == len(old):
        return _extended(before, now, size)
    if shared == len(new):
        detail = f"{len(old) - len(new)} pieces were taken off the end"
        return Finding("history_rewritten", old[shared].path, "removed", detail, size)
    here = new[shared]
    before_it, after_it = ([item.rendered for item in side[shared:]] for side in (old, new))
    if before_it[0] in after_it[1:]:
        number = after_it.index(before_it[0])
        detail = f"{number} stand before what was there"
        return Finding("history_rewritten", here.path, "added", detail, size)
    if after_it[0] in before_it[1:]:
        number = before_it.index(after_it[0])
        return Finding("history_rewritten", old[shared].path, "removed", f"{number} gone", size)
    if old[shared].voice != here.voice:
        return Finding("history_rewritten", here.path, "changed", "another role", size)
    place, kind, detail = locate(old[shared].node, here.node, here.path)
    return Finding("history_rewritten", place, kind, detail, size)


def _extended(before: Structure, now: Structure, size: int) -> Finding:
    """The prefix holds. Markers may have moved, and the notation may have changed."""
    retry = len(before.messages) == len(now.messages)
    transition: Transition = "identical_retry" if retry else "prefix_extended"
    paths = {item.path for item in before.messages}
    moved = _markers(before, paths) != _markers(now, paths)
    for old, new in zip(_items(before), _items(now), strict=False):
        if old.raw != new.raw:
            place, detail = _notation(old.node, new.node, new.path)
            return Finding(transition, place, SAME_MEANING, detail, size)
    return Finding(transition, surviving_bytes=size, marker_only=moved)


def _items(of: Structure) -> list[Item]:
    return [*of.tools, *of.system, *of.messages]


def _markers(of: Structure, paths: set[str]) -> set[tuple[str, bytes]]:
    return {
        (path, said)
        for path, said in of.markers
        if not path.startswith(of.sequence) or path in paths or f"{path}.content[0]" in paths
    }


def _shared(old: Sequence[Item], new: Sequence[Item]) -> int:
    for index, (one, other) in enumerate(zip(old, new, strict=False)):
        if one.rendered != other.rendered:
            return index
    return min(len(old), len(new))


def locate(old: Node, new: Node, path: str) -> tuple[str, str, str]:
    """The innermost place where two values differ: its path, the kind of change, and words."""
    if old.kind != new.kind:
        return path, "changed", f"{old.kind} became {new.kind}"
    if old.kind == "number" and old.meaning == new.meaning:
        return path, SAME_MEANING, "form of a number"
    if old.kind == "object":
        return _in_object(old, new, path)
    if old.kind == "array":
        return _in_array(old, new, path)
    return path, "changed", ""


def _in_object(old: Node, new: Node, path: str) -> tuple[str, str, str]:
    before, now = dict(old.children), dict(new.children)
    for name, node in new.children:
        inner = _inner(path, name)
        if name not in before:
            return (path if _ARGUMENTS.search(path) else inner), "added", ""
        if before[name].rendered != node.rendered:
            if _ARGUMENTS.search(path):
                inner = path  # names of arguments are what the model said
            return locate(before[name], node, inner)
    gone = [name for name in before if name not in now]
    if gone:
        return (path if _ARGUMENTS.search(path) else _inner(path, gone[0])), "removed", ""
    return path, SAME_MEANING, "order of keys"


def _in_array(old: Node, new: Node, path: str) -> tuple[str, str, str]:
    before = [node.rendered for _, node in old.children]
    now = [node.rendered for _, node in new.children]
    if before != now and sorted(before) == sorted(now):
        return path, "order", "the same ones in another order"
    for (name, one), (_, other) in zip(old.children, new.children, strict=False):
        if one.rendered != other.rendered:
            if len(before) > len(now) and before[1:] == now:
                return path + name, "removed", ""
            return locate(one, other, path + name)
    return path, "added" if len(now) > len(before) else "removed", ""


def _notation(old: Node, new: Node, path: str) -> tuple[str, str]:
    """Where two values that are rendered alike are written differently, and how."""
    if old.kind == new.kind == "object":
        names = [name for name, _ in old.children]
        others = [name for name, _ in new.children]
        if names != others:
            same = sorted(names) == sorted(others)
            return path, "order of keys" if same else "plain text and a block of text"
    elif old.kind == new.kind == "text":
        return path, "escapes"
    elif old.kind != new.kind:
        return path, "plain text and a block of text"
    for (name, one), (_, other) in zip(old.children, new.children, strict=False):
        if one.raw != other.raw:
            return _notation(one, other, _inner(path, name))
    return path, "white space"


def _inner(path: str, name: str) -> str:
    return f"{path}{name}" if name.startswith("[") else f"{path}.{name[:60]}"
