"""JSON files that people edit: comments and trailing commas are allowed, every key knows its line.

Files of other programs come with comments (VS Code) and with trailing commas; a message about an
entry must name its line. Both need more than the standard parser tells.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unipi_hookspecs import JSON

MAX_BYTES: Final = 1024 * 1024
_MAX_DEPTH: Final = 64
_SPACE: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_ATOM: Final = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null'
)

KeyPath = tuple[str, ...]


class FileError(ValueError):
    """A file that cannot be understood. `line` counts from 1, or is None."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


@frozen
class Parsed:
    """A value, the line of each key by its path, and whether the text held comments."""

    value: JSON
    lines: Mapping[KeyPath, int] = field(factory=dict)
    commented: bool = False


def read(path: Path) -> Parsed:
    """Parse a file of UTF-8. Raises `FileNotFoundError`, `OSError` and `FileError`."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise FileError(f"it is larger than {MAX_BYTES // 1024 // 1024} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError("it is not UTF-8", data.count(b"\n", 0, error.start) + 1) from error
    return parse(text)


def parse(text: str) -> Parsed:
    """Parse JSON. Raises `FileError`, whose text never quotes the file."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.commented = False
        self.counted = (0, 1)

    def whole(self) -> Parsed:
        value = self.value(())
        self.skip()
        if self.at < len(self.text):
            raise self.wrong("there is more behind the end of the JSON value")
        return Parsed(value, self.lines, self.commented)

    def value(self, path: KeyPath) -> JSON:
        if len(path) > _MAX_DEPTH:
            raise self.wrong("it is nested too deep")
        self.skip()
        if self.text.startswith("{", self.at):
            return self.object(path)
        if self.text.startswith("[", self.at):
            return self.array(path)
        value: JSON = self.atom("a value is missing or malformed")
        return value

    def object(self, path: KeyPath) -> dict[str, JSON]:
        made: dict[str, JSON] = {}
        self.at += 1
        while not self.closed("}"):
            line = self.line()
            key = self.atom("a key in double quotes is missing")
            if not isinstance(key, str):
                raise self.wrong("a key must stand in double quotes")
            self.expect(":")
            if key in made:
                raise self.wrong("a key stands twice in one object")
            self.lines[(*path, key)] = line
            made[key] = self.value((*path, key))
            self.comma("}")
        return made

    def array(self, path: KeyPath) -> list[JSON]:
        made: list[JSON] = []
        self.at += 1
        while not self.closed("]"):
            self.lines[(*path, str(len(made)))] = self.line()
            made.append(self.value((*path, str(len(made)))))
            self.comma("]")
        return made

    def atom(self, missing: str) -> str | int | float | bool | None:
        found = _ATOM.match(self.text, self.at)
        if found is None:
            raise self.wrong(missing)
        try:
            value: str | int | float | bool | None = json.loads(found[0])
        except ValueError as error:
            raise self.wrong(missing) from error
        self.at = found.end()
        return value

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.commented = self.commented or "/" in found[0]
        self.at = found.end()

    def closed(self, end: str) -> bool:
        self.skip()
        if not self.text.startswith(end, self.at):
            return False
        self.at += 1
        return True

    def comma(self, end: str) -> None:
        self.skip()
        if self.text.startswith(",", self.at):
            self.at += 1
        elif not self.text.startswith(end, self.at):
            raise self.wrong(f"a comma or `{end}` is missing")

    def expect(self, sign: str) -> None:
        self.skip()
        if not self.text.startswith(sign, self.at):
            raise self.wrong(f"`{sign}` is missing")
        self.at += 1

    def line(self) -> int:
        at, line = self.counted
        self.counted = (self.at, line + self.text.count("\n", at, self.at))
        return self.counted[1]

    def wrong(self, text: str) -> FileError:
        return FileError(text, self.line())
