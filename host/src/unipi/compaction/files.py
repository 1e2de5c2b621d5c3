"""The files that a session has read and changed, carried from one compaction to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from unipi.prefix.canonical import utf16_key
from unipi_hookspecs import AssistantMessage, ToolCall, ToolResultMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unipi_hookspecs import JSON, Entry

_CHANGES: Final = ("write", "edit")
_MOST: Final = 200


@frozen
class FileLists:
    """Paths as the model named them, sorted; a file that was changed is not listed as read."""

    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def details(self) -> JSON:
        """As a compaction entry keeps them (Pi's names)."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.changed)}

    def text(self) -> str:
        """The lines that stand under a summary; empty without a file."""
        parts = []
        if self.read:
            parts.append("Files read:\n" + "\n".join(f"- {path}" for path in self.read))
        if self.changed:
            parts.append("Files changed:\n" + "\n".join(f"- {path}" for path in self.changed))
        return "\n\n".join(parts)


def file_lists(entries: Iterable[Entry], earlier: JSON = None) -> FileLists:
    """What the calls among `entries` did, on top of an earlier compaction's `details`.

    A call whose result was an error did nothing. Of more than 200 paths in a list the newest stay.
    """
    read, changed = _earlier(earlier, "readFiles"), _earlier(earlier, "modifiedFiles")
    called: dict[str, ToolCall] = {}
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            called.update((b.id, b) for b in message.content if isinstance(b, ToolCall))
        elif isinstance(message, ToolResultMessage) and not message.is_error:
            call = called.get(message.tool_call_id)
            path = call.arguments.get("path") if call is not None else None
            if call is None or not isinstance(path, str) or not path:
                continue
            if call.name in _CHANGES:
                changed[path] = None
            elif call.name == "read":
                read[path] = None
    for path in changed:
        read.pop(path, None)
    return FileLists(_listed(read), _listed(changed))


def _earlier(details: JSON, name: str) -> dict[str, None]:
    listed = details.get(name) if isinstance(details, Mapping) else None
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return {}
    return {path: None for path in listed if isinstance(path, str)}


def _listed(paths: dict[str, None]) -> tuple[str, ...]:
    return tuple(sorted(list(paths)[-_MOST:], key=utf16_key))
