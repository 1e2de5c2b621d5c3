"""What the session keeps of an output item, beside its text, so that the item can go back as it came.

The forms are Pi's, so that its sessions replay here and ours there: a reasoning item as JSON in the
signature of its thinking; `{"v":1,"id":…,"phase":…}` (or the bare id) in the signature of a text;
`call_id|id` as the id of a call. Ours adds `status` where it is not "completed", and `refusal`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson
from attrs import frozen

from unipi.prefix.canonical import compact, repair, squeeze

from .tool_calls import without_lone_escapes

if TYPE_CHECKING:
    from unipi_hookspecs import JSON, Thinking

_TEXT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CALL_ITEM_ID = re.compile(r"fc[A-Za-z0-9_-]{1,62}")


@frozen
class TextItem:
    """Of a message item: everything that is not its text."""

    id: str = ""
    phase: str = ""
    status: str = "completed"
    refusal: bool = False

    def signature(self) -> str | None:
        """The form that is kept; None for an item without an id."""
        if not _TEXT_ID.fullmatch(self.id):
            return None
        kept: dict[str, JSON] = {"v": 1, "id": self.id}
        if self.phase:
            kept["phase"] = self.phase
        if self.status != "completed":
            kept["status"] = self.status
        if self.refusal:
            kept["refusal"] = True
        return compact(kept).decode()


def read_text_item(signature: str | None) -> TextItem:
    """Read what `TextItem.signature` or Pi wrote; anything else is an item without an id."""
    if not signature:
        return TextItem()
    if not signature.startswith("{"):
        return TextItem(signature) if _TEXT_ID.fullmatch(signature) else TextItem()
    try:
        kept = orjson.loads(signature)
    except ValueError:
        return TextItem()
    item_id = kept.get("id")
    if not isinstance(item_id, str) or not _TEXT_ID.fullmatch(item_id):
        return TextItem()
    phase, status = kept.get("phase"), kept.get("status")
    return TextItem(
        item_id,
        phase if isinstance(phase, str) else "",
        status if status in ("in_progress", "incomplete") else "completed",
        kept.get("refusal") is True,
    )


def reasoning_signature(source: str) -> str:
    """The signature that keeps a reasoning item, from the item's source text (valid JSON)."""
    return without_lone_escapes(repair(squeeze(source)))


def reasoning_source(block: Thinking) -> bytes | None:
    """The reasoning item that a thinking block holds, as received; None when it holds none."""
    if not block.signature or not block.signature.startswith("{"):
        return None
    try:
        source = block.signature.encode()
        item = orjson.loads(source)
    except ValueError:
        return None
    return source if item.get("type") == "reasoning" else None


def joined_call_id(call_id: str, item_id: str) -> str:
    """The id of a call: that of the item behind it, where there is one of the right form."""
    return f"{call_id}|{item_id}" if call_id and _CALL_ITEM_ID.fullmatch(item_id) else call_id


def split_call_id(joined: str) -> tuple[str, str]:
    """The call's id and its item's, or ""; an id of any other API is a call's."""
    call_id, bar, item_id = joined.rpartition("|")
    return (call_id, item_id) if bar and _CALL_ITEM_ID.fullmatch(item_id) else (joined, "")
