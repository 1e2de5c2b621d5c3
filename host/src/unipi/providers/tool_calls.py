"""Tool calls between the model's text and ours: argument texts kept verbatim, ids made sendable."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NoReturn

import orjson

from unipi.prefix.canonical import compact, repair, squeeze

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unipi_hookspecs import JSON, ToolCall

_GOOD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONG_NUMBER = re.compile(r"\d{19}")
# A \u escape of half a surrogate pair whose other half is missing. The leading group keeps an
# escaped backslash from being taken for the start of the escape.
_LONE_ESCAPE = re.compile(
    r"((?<!\\)(?:\\\\)*)(?:"
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_NAMES = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
_QUOTE = 60


def wire_id(call_id: str) -> str:
    """The id that goes out for a call: 1 to 64 characters of letters, digits, `_` and `-`.

    An id that already is like that stays as it is; any other is replaced by a digest of itself,
    so the mapping needs no memory and call and result keep matching.
    """
    if _GOOD_ID.fullmatch(call_id):
        return call_id
    digest = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=20)
    return f"call_{digest.hexdigest()}"


def exact_id(call_id: str, length: int) -> str:
    """The id that goes out where calls are named by exactly so many letters and digits."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    digest = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=20)
    return digest.hexdigest()[:length]


def read_arguments(text: str) -> tuple[Mapping[str, JSON], str | None, str | None]:
    """Read the source text of a call's arguments: `(arguments, arguments_text, problem)`.

    No text and white space count as an empty object. Text that is no JSON object gives `{}`, the
    text itself for people, and a one-line problem that quotes the place. Nothing is guessed.
    """
    if not text or text.isspace():
        return {}, None, None
    text = repair(text)
    try:
        value = _loads(text)
        if not isinstance(value, dict):
            found = "null" if value is None else _NAMES[type(value)]
            return {}, text, f"the arguments must be a JSON object; found {found}"
        text = without_lone_escapes(text)
        return value, None if text.encode() == compact(value) else text, None
    except ValueError as error:
        return {}, text, _malformed(text, error)
    except RecursionError:
        return {}, text, "the arguments are nested too deeply"


def arguments_text(call: ToolCall) -> str:
    """What is replayed as a call's `arguments` string: the very text received, or `{}`."""
    if call.arguments_text is None:
        return compact(call.arguments).decode()
    return call.arguments_text if _is_object(call.arguments_text) else "{}"


def arguments_object(call: ToolCall) -> bytes:
    """What is replayed as a call's `input` object: the text received, insignificant space out."""
    if call.arguments_text is None:
        return compact(call.arguments)
    if not _is_object(call.arguments_text):
        return b"{}"
    return squeeze(call.arguments_text).encode()


def members(text: str, at: int = 0) -> Iterator[tuple[str, int, int]]:
    """Walk the members of the JSON object at `at` in valid JSON: key, start and end of the value."""
    decoder = json.JSONDecoder(strict=False)
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = decoder.raw_decode(text, start)
        yield key, start, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Walk the items of the JSON array at `at` in valid JSON: start and end of each."""
    decoder = json.JSONDecoder(strict=False)
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except ValueError:
        return False


def _loads(text: str) -> object:
    """Parse JSON exactly: integers of any length, and lone surrogate escapes as U+FFFD."""
    if not _LONG_NUMBER.search(text):  # orjson turns integers beyond 64 bits into floats
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # malformed, or a lone surrogate escape: the other parser knows the place
    return _repaired(json.loads(text, parse_constant=_refuse))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _repaired(value: object) -> object:
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    if isinstance(value, dict):
        return {repair(key): _repaired(item) for key, item in value.items()}
    return value


def without_lone_escapes(text: str) -> str:
    """Replace each escape of half a pair by U+FFFD's: UTF-8 JSON parsers refuse it for ever."""
    if "\\u" not in text:
        return text
    return _LONE_ESCAPE.sub(lambda m: m[0] if m[2] else f"{m[1]}\\ufffd", text)


def _malformed(text: str, error: ValueError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"the arguments are not valid JSON: {error}"
    near = text[max(0, error.pos - _QUOTE // 2) : error.pos + _QUOTE // 2]
    return (
        f"the arguments are not valid JSON: {error.msg} at character {error.pos + 1}, "
        f"near {json.dumps(near, ensure_ascii=False)}"
    )
