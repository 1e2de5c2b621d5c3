"""Versions 1 and 2 of the session format, read as version 3. In memory: files stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lines import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON

CURRENT = 3


def version_of(header: Mapping[str, JSON]) -> int:
    """The version that a header states; one without is version 1."""
    version = header.get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) else 1


def migrate(
    header: Mapping[str, JSON], entries: Sequence[dict[str, JSON]]
) -> tuple[dict[str, JSON], list[dict[str, JSON]]]:
    """Header and entries as version 3; the arguments stay unchanged.

    Versions above 3 pass unread, as in Pi.
    """
    version = version_of(header)
    result = list(entries)
    if version < 2:
        result = _with_ids(header, result)
    if version < 3:
        result = [_with_role(fields) for fields in result]
        header = {**header, "version": CURRENT}
    return dict(header), result


def _with_ids(
    header: Mapping[str, JSON], entries: Sequence[dict[str, JSON]]
) -> list[dict[str, JSON]]:
    """Give ids and parents to the entries of version 1, a plain list.

    An id is a digest of session, position and content, so that two openings agree.
    """
    import hashlib

    seed = str(header.get("id")).encode()
    ids: list[str] = []
    taken: set[str] = set()
    for index, fields in enumerate(entries):
        digest = hashlib.sha256(b"%s\n%d\n%s" % (seed, index, encode(fields))).hexdigest()
        new = next(
            (digest[at : at + 8] for at in range(0, 64, 8) if digest[at : at + 8] not in taken),
            digest,
        )
        taken.add(new)
        ids.append(new)
    result = []
    for index, fields in enumerate(entries):
        own: dict[str, JSON] = {
            "type": fields.get("type"),
            "id": ids[index],
            "parentId": ids[index - 1] if index else None,
        }
        own.update((key, value) for key, value in fields.items() if key not in own)
        _name_first_kept(own, ids)
        result.append(own)
    return result


def _name_first_kept(fields: dict[str, JSON], ids: Sequence[str]) -> None:
    """Turn the line number of the first kept entry, the header being 0, into its id."""
    if fields["type"] != "compaction" or "firstKeptEntryIndex" not in fields:
        return
    index = fields.pop("firstKeptEntryIndex")
    if isinstance(index, int) and 1 <= index <= len(ids):
        fields["firstKeptEntryId"] = ids[index - 1]


def _with_role(fields: dict[str, JSON]) -> dict[str, JSON]:
    message = fields.get("message")
    if isinstance(message, dict) and message.get("role") == "hookMessage":
        return {**fields, "message": {**message, "role": "custom"}}
    return fields
