"""Our own lines in a session file: `custom` entries that Pi steps over.

`unipi.head`        the head of an epoch, byte for byte
`unipi.epoch`       a boundary: number, cause, owner, whether avoidable, tokens lost, price
`unipi.request`     a request that is about to go out, with the keyed fingerprint of its prefix
`unipi.projection`  what the model is shown in place of an entry, decided once by a plugin
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import Factory, frozen

from unipi.prefix.ledger import ENTRY_TYPE, Reason, to_data
from unipi.prefix.lineage import Decision, Mark
from unipi.prefix.wire import Head
from unipi.providers.verbs import betas
from unipi.session import message_from_fields, message_to_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.prefix.lineage import Lineage
    from unipi.prefix.wire import HeadSpec
    from unipi_hookspecs import JSON, Entry, RequestInfo

Data: TypeAlias = "Mapping[str, JSON]"
HEAD = "unipi.head"
EPOCH = ENTRY_TYPE
REQUEST = "unipi.request"
PROJECTION = "unipi.projection"

epoch_data = to_data


@frozen
class Making:
    """What a stored head was made from, so that plugins can be asked for it again.

    `base` is the head before `before_provider_request`, `prompt` the system prompt before
    `before_agent_start`; `shapes` and `edits` are digests of what each plugin made of the two.
    """

    base: Head
    prompt: str
    shapes: Mapping[str, str] = Factory(dict)
    edits: Mapping[str, str] = Factory(dict)


def head_data(epoch: int, spec: HeadSpec, head: Head, making: Making) -> dict[str, JSON]:
    """The stored head. Its bytes are UTF-8 JSON text, so they are kept as a string."""
    data: dict[str, JSON] = {
        "epoch": epoch,
        "provider": spec.model.provider,
        "model": spec.model.id,
        "api": spec.model.api,
        "thinking": spec.thinking,
        "system": list(spec.system),
        "tools": [tool.name for tool in spec.tools],
        **_head_fields(head),
    }
    if spec.ttl:
        data["ttl"] = spec.ttl
    if asked := betas(spec.model):
        data["betas"] = asked
    if making.base != head:
        data["base"] = _head_fields(making.base)
    if (making.prompt,) != tuple(spec.system):
        data["prompt"] = making.prompt
    if making.shapes:
        data["shapes"] = dict(making.shapes)
    if making.edits:
        data["edits"] = dict(making.edits)
    return data


def _head_fields(head: Head) -> dict[str, JSON]:
    return {
        "open": head.open.decode(),
        "close": head.close.decode(),
        "leading": head.leading,
    }


def making_from(data: Data, head: Head) -> Making:
    """What the stored `head` was made from."""
    base, prompt = data.get("base"), data.get("prompt")
    system = data.get("system")
    if not isinstance(prompt, str):
        prompt = str(system[0]) if isinstance(system, list) and system else ""
    return Making(
        base=(head_from(base) if isinstance(base, dict) else None) or head,
        prompt=prompt,
        shapes=_digests(data.get("shapes")),
        edits=_digests(data.get("edits")),
    )


def _digests(value: JSON) -> dict[str, str]:
    return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def head_from(data: Mapping[str, JSON]) -> Head | None:
    """The stored head again, or None when the entry is not one."""
    opening, closing = data.get("open"), data.get("close")
    if not isinstance(opening, str) or not isinstance(closing, str):
        return None
    return Head(opening.encode(), closing.encode(), data.get("leading") is True)


def request_data(lineage: Lineage, info: RequestInfo, verbs: Sequence[str] = ()) -> dict[str, JSON]:
    """Where this request ends, for the process that resumes the session.

    `verbs` are those that it is the first to use: what would have been a boundary without them.
    """
    mark = lineage.mark()
    data: dict[str, JSON] = {
        "requestId": info.request_id,
        "purpose": info.purpose,
        "epoch": info.epoch,
    }
    if mark is not None:
        data |= {
            "first": mark.first,
            "last": mark.last,
            "fingerprint": mark.fingerprint,
        }
        if mark.markers:
            data["markers"] = list(mark.markers)
    if verbs:
        data["verbs"] = list(verbs)
    if lineage.diverged is not None:
        data["rewrittenBy"] = lineage.diverged
    return data


def mark_from(data: Mapping[str, JSON]) -> Mark | None:
    """The mark of a `unipi.request` entry, or None when it carries none."""
    epoch, first, last = data.get("epoch"), data.get("first"), data.get("last")
    fingerprint = data.get("fingerprint")
    if (
        isinstance(epoch, int)
        and isinstance(first, str)
        and isinstance(last, str)
        and isinstance(fingerprint, str)
    ):
        placed = data.get("markers")
        places = (p for p in placed if isinstance(p, int)) if isinstance(placed, list) else ()
        return Mark(epoch, first, last, fingerprint, tuple(places))
    return None


def compacted_since_request(branch: Sequence[Entry]) -> Reason | None:
    """The boundary that a compaction asks for whose process sent no request after it."""
    for entry in reversed(branch):
        if entry.type == "custom" and entry.fields.get("customType") == REQUEST:
            return None
        if entry.type == "compaction":
            said = entry.fields.get("unipi")
            known = said if isinstance(said, dict) else {}
            owner, why = known.get("owner"), known.get("why")
            return Reason(
                "compaction",
                owner if isinstance(owner, str) else "host",
                detail=why if isinstance(why, str) else "",
            )
    return None


def reason_from(data: Data) -> Reason:
    """Why the boundary of a `unipi.epoch` entry was crossed."""
    cause, owner, detail = data.get("cause"), data.get("owner"), data.get("detail")
    return Reason(
        cause if isinstance(cause, str) else "resume",
        owner if isinstance(owner, str) else "host",
        avoidable=data.get("avoidable") is True,
        detail=detail if isinstance(detail, str) else "",
    )


def wire_decision(entry_id: str, wire: bytes) -> Decision:
    return Decision(entry_id, wire=wire)


def projection_data(decision: Decision) -> dict[str, JSON]:
    data: dict[str, JSON] = {"entryId": decision.entry_id}
    if decision.wire is not None:
        data["wire"] = decision.wire.decode()
    elif decision.message is None:
        data["dropped"] = True
    else:
        data["message"] = message_to_fields(decision.message)
    return data


def unbound_data(entry_ids: Sequence[str]) -> dict[str, JSON]:
    """The answers whose thinking is left out from here on."""
    return {"withoutThinking": list(entry_ids)}


def unbound_from(data: Mapping[str, JSON]) -> list[str]:
    """The same again; empty for any other decision."""
    found = data.get("withoutThinking")
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def decision_from(data: Mapping[str, JSON]) -> Decision | None:
    """A stored decision, or None when the entry is not one."""
    entry_id, wire, message = data.get("entryId"), data.get("wire"), data.get("message")
    if not isinstance(entry_id, str):
        return None
    if isinstance(wire, str):
        return Decision(entry_id, wire=wire.encode())
    if isinstance(message, dict):
        return Decision(entry_id, message_from_fields(message))
    return Decision(entry_id, dropped=True)


def latest(branch: Sequence[Entry], custom_type: str) -> Mapping[str, JSON] | None:
    """The data of the newest custom entry of a type on a branch."""
    for entry in reversed(branch):
        if entry.type == "custom" and entry.fields.get("customType") == custom_type:
            data = entry.fields.get("data")
            return data if isinstance(data, dict) else None
    return None


def every(branch: Sequence[Entry], custom_type: str) -> list[Mapping[str, JSON]]:
    """The data of all custom entries of a type on a branch, oldest first."""
    found: list[Mapping[str, JSON]] = []
    for entry in branch:
        if entry.type == "custom" and entry.fields.get("customType") == custom_type:
            data = entry.fields.get("data")
            if isinstance(data, dict):
                found.append(data)
    return found
