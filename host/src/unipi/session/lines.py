"""One JSON object a line: to bytes, from bytes, and from a whole file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO, Protocol

import orjson
from attrs import define, field

from .errors import Damage, SessionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unipi_hookspecs import JSON

_HEADER_LIMIT = 1 << 20
"""Bytes in which a header line must end: keeps a huge file that is no session from being read."""

_BUFFER = 1 << 20

_DIGITS = bytes(0x30 if chr(byte).isdigit() and byte < 128 else 0x20 for byte in range(256))
_LONG = b"0" * 19
_POINT = ord(".")


def _plain(value: object) -> object:
    """Turn read-only mappings and sequences into what the encoders know."""
    from collections.abc import Mapping, Sequence

    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def encode(fields: Mapping[str, JSON]) -> bytes:
    """One line, newline included.

    Lone surrogates stay, as escapes, so that what is read back equals what was written. Raises
    SessionError for what JSON cannot carry.
    """
    try:
        return orjson.dumps(fields, default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # Lone surrogates, integers beyond 64 bits, deep nesting: legal, but refused by orjson.
        pass
    try:
        text = json.dumps(fields, default=_plain, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(
            f"an entry of type {fields.get('type')!r} is not JSON: {error}"
        ) from None
    return text.encode() + b"\n"


def _needs_exact(line: bytes) -> bool:
    """Whether a line may hold an integer beyond 64 bits, which orjson reads as a float.

    That is 19 digits in a row which are not behind a decimal point, as those of prices often are.
    """
    digits = line.translate(_DIGITS)
    at = digits.find(_LONG)
    while at >= 0:
        if at == 0 or line[at - 1] != _POINT:
            return True
        end = digits.find(b" ", at)
        at = digits.find(_LONG, end) if end >= 0 else -1
    return False


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def decode(line: bytes) -> tuple[dict[str, JSON], bool]:
    """Read one line; also says whether bytes that are no UTF-8 were read as U+FFFD.

    Raises ValueError when the line is not a JSON object.
    """
    value: JSON = None
    broken = False
    try:
        if _needs_exact(line):
            raise ValueError("may hold a number that needs the exact reader")
        value = orjson.loads(line)
    except ValueError:
        text = line.decode("utf-8", "replace")
        broken = "\ufffd" in text and text.encode() != line
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one error for every bad line
    return value, broken


class Take(Protocol):
    """What is done with each object after the header; its line begins at `offset`, in bytes."""

    def __call__(self, fields: dict[str, JSON], offset: int, /) -> None: ...


@define
class Scan:
    """What a session file holds besides its entries.

    `size` is where the usable part ends; `torn` holds the bytes after it. `open_line` says that
    the last line has no newline yet.
    """

    header: dict[str, JSON] | None = None
    damages: list[Damage] = field(factory=list)
    size: int = 0
    torn: bytes = b""
    open_line: bool = False


def scan(path: Path, take: Take) -> Scan:
    """Read a whole file, line by line, changing nothing; `take` is given each entry.

    `header` stays None for a file that holds nothing but white space. Raises SessionError when
    the file cannot be read or its first line is no session header.
    """
    result = Scan()
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            offset = _scan_header(path, file, result)
            for line in file:
                _scan_line(line, offset, result, take)
                offset += len(line)
    except FileNotFoundError:
        raise SessionError(f"{path}: no such file") from None
    except OSError as error:
        raise SessionError(f"{path}: {error.strerror or error}") from None
    return result


def read_header(path: Path, file: BinaryIO) -> tuple[dict[str, JSON] | None, int, bytes]:
    """The header, the offset after it, and its line; None for a file of white space.

    Raises SessionError when the first line is no header with a text as `id`.
    """
    offset = 0
    while line := file.readline(_HEADER_LIMIT):
        offset += len(line)
        if not line.strip():
            continue
        try:
            header, _ = decode(line)
        except ValueError:
            header = {}
        if header.get("type") != "session" or not isinstance(header.get("id"), str):
            raise SessionError(f"{path} is not a session: its first line is no session header")
        return header, offset, line
    return None, offset, b""


def _scan_header(path: Path, file: BinaryIO, result: Scan) -> int:
    result.header, offset, line = read_header(path, file)
    result.size = offset
    result.open_line = bool(line) and not line.endswith(b"\n")
    return offset


def _scan_line(line: bytes, offset: int, result: Scan, take: Take) -> None:
    whole = line.endswith(b"\n")
    if not line.strip():
        if whole:
            result.size = offset + len(line)
        else:
            result.open_line = True  # stray blanks: the next entry starts on a line of its own
            result.size = offset + len(line)
        return
    try:
        fields, broken = decode(line)
    except ValueError as error:
        if whole:
            result.damages.append(Damage(offset, f"a line that is no entry was skipped: {error}"))
            result.size = offset + len(line)
        else:
            result.torn = line
        return
    if broken:
        result.damages.append(Damage(offset, "bytes that are not UTF-8 were read as U+FFFD"))
    take(fields, offset)
    result.size = offset + len(line)
    result.open_line = not whole
