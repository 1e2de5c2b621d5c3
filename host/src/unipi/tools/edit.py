"""The edit tool: replacements of text that is in a file exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio.to_thread
from attrs import evolve, frozen

from unipi_hookspecs import ToolOutput

from .args import text_arg
from .cut import head_end
from .diff import unified
from .match import Edit, find_spans
from .paths import file_lock, os_error, replace_file, resolve, shown, writable_target
from .text import BYTE_LIMIT, ToolError, decode, raw_bytes, repair

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import JSON, Call, Context

_BOM = b"\xef\xbb\xbf"


@frozen
class _Done:
    """What an edit did; `diff` is unified and bounded."""

    diff: str
    first_line: int
    loose: int


async def edit(call: Call, ctx: Context) -> ToolOutput:
    """Edit a file in one step; all replacements are made, or none.

    A byte order mark, line ends, and bytes that are no UTF-8 stay as they are. Raises ToolError as
    `find_spans` and `writable_target` do, and when the system refuses.
    """
    given = text_arg(call, "path")
    edits = _edits(call.input)
    path = resolve(given, ctx.cwd)
    name = shown(path, ctx.cwd)
    try:
        target = writable_target(given, path, ctx.cwd)
        async with file_lock(target):
            done = await anyio.to_thread.run_sync(_apply, target, edits, name)
    except OSError as error:
        raise os_error(error, name) from error
    text = f"Made {len(edits)} {'replacement' if len(edits) == 1 else 'replacements'} in {name}"
    if done.loose:
        text += f" ({done.loose} matched with spaces, quotes and dashes evened out)"
    return ToolOutput(
        ctx.bound_output(text, label="edit").text,
        details={"diff": done.diff, "first_changed_line": done.first_line},
    )


def _edits(given: Mapping[str, JSON]) -> list[Edit]:
    listed = given.get("edits", [])
    if not isinstance(listed, list | tuple):
        raise ToolError("edits must be a list")
    single = {k: given[k] for k in ("oldText", "newText") if k in given}
    edits = []
    for number, item in enumerate([*listed, *([single] if single else [])], 1):
        old = item.get("oldText") if isinstance(item, Mapping) else None
        new = item.get("newText") if isinstance(item, Mapping) else None
        if not isinstance(old, str) or not isinstance(new, str):
            raise ToolError(f"edit {number} needs oldText and newText, both strings")
        edits.append(Edit(_unix(old), _unix(repair(new))))
    if not edits:
        raise ToolError("edits is empty: give at least one {oldText, newText}")
    return edits


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _apply(target: Path, edits: list[Edit], name: str) -> _Done:
    raw = target.read_bytes()
    bom = _BOM if raw.startswith(_BOM) else b""
    # surrogateescape carries bytes that are no UTF-8 through unharmed.
    text = raw[len(bom) :].decode("utf-8", "surrogateescape")
    windows = "\r\n" in text
    spans = find_spans(text, edits, name)
    if windows:
        spans = [evolve(s, new=s.new.replace("\n", _line_end(text, s.start))) for s in spans]
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], span.new]
        at = span.end
    changed = "".join([*parts, text[at:]])
    if changed == text:
        raise ToolError(f"the edits leave {name} as it is")
    replace_file(target, bom + raw_bytes(changed))
    diff, first_line = unified(text, spans)
    shown_diff = decode(raw_bytes(diff)).encode()
    bounded = shown_diff[: head_end(shown_diff, BYTE_LIMIT)].decode()
    return _Done(bounded, first_line, sum(span.loose for span in spans))


def _line_end(text: str, place: int) -> str:
    # The end of the line that is edited; of the line before, where the text ends in it.
    at = text.find("\n", place)
    at = at if at >= 0 else text.rfind("\n", 0, place)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"
