"""A session file looked through for what would be refused, or would lose something, and mended in a copy."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from attrs import define, field, frozen

from unipi.prefix.canonical import repair
from unipi.session.lines import decode, encode

from . import session_formats as formats
from .session_formats import PI, Format, Line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_PICTURE: Final = 5_000_000
"""Bytes of a picture (Anthropic, Vision: 5 MB through the API, the smallest of the three)."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(\|[A-Za-z0-9_-]{1,64})?")

Kind = Literal[
    "torn line",
    "broken line",
    "duplicate id",
    "foreign parent",
    "foreign call id",
    "two writers",
    "orphan call",
    "orphan result",
    "malformed arguments",
    "lone surrogate",
    "unsigned thinking",
    "oversized picture",
]


class NoSession(ValueError):  # noqa: N818 - says what the file is
    """The file is no session of a format that is known here; the text says so."""


@frozen
class Finding:
    """What is wrong with a line, and what a mended copy has in its place. Lines count from 1."""

    line: int
    entry_id: str
    kind: Kind
    what: str
    cure: str


@define
class Kept:
    """A line that goes on into the mended copy."""

    number: int
    fields: Line


@define
class Examined:
    """A file that was looked through: what was found, and the lines of its mended copy."""

    form: Format
    lines: list[Kept]
    findings: list[Finding] = field(factory=list)

    def found(self, line: Kept, kind: Kind, what: str, cure: str) -> None:
        entry = str(line.fields.get(self.form.id) or "")
        self.findings.append(Finding(line.number, entry, kind, what, cure))


def examine(path: Path) -> Examined:
    """Look through a session file of Pi, of ours, or of Claude Code; nothing is changed.

    Raises NoSession, OSError.
    """
    from .session_tree import join, pair, sort_writers

    examined = _read(path)
    _mend_blocks(examined)
    join(examined)
    pair(examined)
    sort_writers(examined)
    examined.findings.sort(key=lambda finding: finding.line)
    return examined


def write_copy(examined: Examined, path: Path) -> None:
    """Write the mended copy to a new file, mode 0600. Raises FileExistsError, OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        for line in examined.lines:
            file.write(encode(line.fields))
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Examined:
    kept: list[Kept] = []
    damaged: list[Finding] = []
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                fields, broken = decode(raw)
            except ValueError as error:
                damaged.append(_damage(number, raw, error))
                continue
            if broken:
                text = "bytes that are no UTF-8"
                damaged.append(Finding(number, "", "broken line", text, "they are U+FFFD"))
            kept.append(Kept(number, dict(fields)))
    form = formats.format_of([line.fields for line in kept[:50]])
    if form is None:
        raise NoSession(f"{path} is no session of Pi, of Claude Code or of ours")
    return Examined(form, kept, damaged)


def _damage(number: int, raw: bytes, error: ValueError) -> Finding:
    if raw.endswith(b"\n"):
        return Finding(number, "", "broken line", f"it is no entry: {error}", "it is left out")
    what = f"{len(raw):,} bytes without an end"
    return Finding(number, "", "torn line", what, "it is left out")


def _mend_blocks(examined: Examined) -> None:
    """What is wrong with single lines."""
    names: dict[str, str] = {}
    for line in examined.lines:
        count = sum(len(_SURROGATE.findall(repair_pairs(t))) for t in formats.texts_of(line.fields))
        if count:
            examined.found(line, "lone surrogate", f"{count} of them", "each is U+FFFD")
        if any(_SURROGATE.search(text) for text in formats.texts_of(line.fields)):
            line.fields = _mapped(line.fields, repair)
        blocks = formats.blocks_of(line.fields)
        mended = [new for block in blocks if (new := _mended(examined, line, block, names))]
        if mended != blocks:
            line.fields = formats.with_blocks(line.fields, mended)
        _rename_result(examined, line, names)


def repair_pairs(text: str) -> str:
    """The text with halves that stand together as the one character that they are."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _mended(examined: Examined, line: Kept, block: Line, names: dict[str, str]) -> Line | None:
    form = examined.form
    if formats.is_unsigned(line.fields, block):
        what = "Anthropic refuses thinking without its signature"
        examined.found(line, "unsigned thinking", what, "the block is left out")
        return None
    size = formats.picture_bytes(block)
    if size > MAX_PICTURE:
        what = f"{size:,} bytes, over the limit of {MAX_PICTURE:,}"
        examined.found(line, "oversized picture", what, "a note stands in its place")
        return {"type": "text", "text": f"[A picture was left out: {what}.]"}
    if block.get("type") != form.call:
        return block
    if not isinstance(block.get(form.arguments), dict):
        said = repr(block.get(form.arguments))
        what = f"those of {block.get('name')!s:.40} are no object: {said:.60}"
        examined.found(line, "malformed arguments", what, "they are {}")
        block = {**block, form.arguments: {}}
    call_id = str(block.get("id"))
    if not _CALL_ID.fullmatch(call_id):
        names[call_id] = f"call_{len(names):04}_{re.sub('[^A-Za-z0-9_-]', '', call_id)[:40]}"
        what = f"{call_id!r:.60} is accepted by no provider"
        examined.found(line, "foreign call id", what, f"it is {names[call_id]}, in its result too")
        block = {**block, "id": names[call_id]}
    return block


def _rename_result(examined: Examined, line: Kept, names: dict[str, str]) -> None:
    if not names:
        return
    if examined.form is PI:
        message = formats.message_of(line.fields)
        if message is not None and message.get("toolCallId") in names:
            renamed = {**message, "toolCallId": names[message["toolCallId"]]}
            line.fields = {**line.fields, "message": renamed}
        return
    blocks = [
        {**b, "tool_use_id": names[b["tool_use_id"]]} if b.get("tool_use_id") in names else b
        for b in formats.blocks_of(line.fields)
    ]
    if blocks:
        line.fields = formats.with_blocks(line.fields, blocks)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value
