"""Items of the Responses API: those of an answer, and how the model sees one.

An item's id and status are bookkeeping; the model sees neither, so the cache does not either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from unipi.sim.prompt import Block, Section, make_block
from unipi.sim.script import Call, Part, Say, Think
from unipi.sim.shapes import as_dict, as_list, as_str, dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = dict[str, object]


def items_of(parts: Sequence[Part], reply_id: str) -> list[Item]:
    """The output of an answer, an item a part; ids are made of the answer's and the place."""
    name = reply_id.removeprefix("resp_")
    calls = any(isinstance(part, Call) for part in parts)
    items: list[Item] = []
    for place, part in enumerate(parts):
        if isinstance(part, Say):
            phase = "commentary" if calls else "final_answer"
            items.append(_message(f"msg_{name}_{place}", part.text, phase))
        elif isinstance(part, Think):
            items.append(_reasoning(f"rs_{name}_{place}", part))
        else:
            items.append(_call(part))
    return items


def _message(item_id: str, text: str, phase: str) -> Item:
    said = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [said],
        "phase": phase,
    }


def _reasoning(item_id: str, part: Think) -> Item:
    """A reasoning item; a signature that is a recorded item is that item."""
    signature = part.signature or ""
    if signature.startswith("{"):
        try:
            recorded = as_dict(orjson.loads(signature))
        except orjson.JSONDecodeError:
            recorded = {}
        if recorded.get("type") == "reasoning" and recorded.get("encrypted_content"):
            return recorded
    shown = bool(part.text) and not part.redacted
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": part.text}] if shown else [],
        "encrypted_content": signature,
    }


def _call(part: Call) -> Item:
    """A call; one whose script gives it an id without an item's gets no item id."""
    call_id, _, item_id = (part.id or "").partition("|")
    return {
        **({"id": item_id} if item_id else {}),
        "type": "function_call",
        "status": "completed",
        "arguments": part.arguments,
        "call_id": call_id,
        "name": part.name,
    }


def item_blocks(item: Item, section: Section) -> list[Block]:
    """Render an item; its first block says where it begins and what it is."""
    kind = as_str(item.get("type")) or "message"
    if kind == "message":
        return _blocks(f"# {as_str(item.get('role'))} ".encode(), _parts(item["content"]), section)
    if kind == "function_call_output":
        head = b"# output " + dumps(item.get("call_id"))
        return _blocks(head, _parts(item.get("output")), section)
    if kind == "function_call":
        seen: object = [item.get("call_id"), item.get("name"), item.get("arguments")]
    else:
        seen = {name: item[name] for name in sorted(item) if name not in ("id", "status", "type")}
    return [make_block(section, f"# {kind} ".encode() + dumps(seen) + b"\n")]


def _parts(content: object) -> list[Item]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [as_dict(part) for part in as_list(content)] or [{"type": "input_text", "text": ""}]


def _blocks(head: bytes, parts: list[Item], section: Section) -> list[Block]:
    blocks = []
    for place, part in enumerate(parts):
        text = (head if place == 0 else b"+ ") + dumps(_seen(part)) + b"\n"
        blocks.append(
            make_block(
                section,
                text,
                breakpoint_=isinstance(part.get("prompt_cache_breakpoint"), dict),
                ends_message=place == len(parts) - 1,
            )
        )
    return blocks


def _seen(part: Item) -> object:
    if part.get("type") in ("input_text", "output_text"):
        return part.get("text")
    return {name: part[name] for name in sorted(part) if name != "prompt_cache_breakpoint"}
