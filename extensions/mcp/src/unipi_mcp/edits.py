"""Changing a file of servers: everything else in it stays, and it is replaced in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import jsontext
from .config import TOP_KEYS
from .expand import is_literal
from .store import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unipi_hookspecs import JSON


def put(path: Path, entries: Mapping[str, Mapping[str, JSON]]) -> None:
    """Put entries into a file, which is made if it is not there; ours are 0600.

    Raises `jsontext.FileError` for a file that cannot be understood, or whose comments would be
    lost, and `OSError`.
    """
    whole, top = _whole(path)
    _write(path, {**whole, top: {**_entries(whole, top), **entries}})


def drop(path: Path, name: str) -> bool:
    """Take an entry out; whether it was there. Raises as `put` does."""
    whole, top = _whole(path)
    entries = dict(_entries(whole, top))
    if name not in entries:
        return False
    del entries[name]
    _write(path, {**whole, top: entries})
    return True


def names(path: Path) -> frozenset[str]:
    """The names of a file's entries; none where there is no file. Raises as `put` does."""
    try:
        parsed = jsontext.read(path)
    except FileNotFoundError:
        return frozenset()
    whole = parsed.value if isinstance(parsed.value, Mapping) else {}
    return frozenset(_entries(whole, _top(whole)))


def literals(entry: Mapping[str, JSON]) -> Iterator[str]:
    """The keys of `env` and `headers` whose values are written out and could be secrets."""
    for part in ("env", "headers"):
        values = entry.get(part)
        if isinstance(values, Mapping):
            for key, value in values.items():
                if isinstance(value, str) and is_literal(value):
                    yield f"{part}.{key}"


def _whole(path: Path) -> tuple[Mapping[str, JSON], str]:
    try:
        parsed = jsontext.read(path)
    except FileNotFoundError:
        return {}, TOP_KEYS[0]
    if parsed.commented:
        raise jsontext.FileError("it holds comments, which would be lost; edit it by hand")
    if not isinstance(parsed.value, Mapping):
        raise jsontext.FileError("must hold an object with the key `mcpServers`", 1)
    return parsed.value, _top(parsed.value)


def _top(whole: Mapping[str, JSON]) -> str:
    return next((key for key in TOP_KEYS if key in whole), TOP_KEYS[0])


def _entries(whole: Mapping[str, JSON], top: str) -> Mapping[str, JSON]:
    entries = whole.get(top, {})
    if not isinstance(entries, Mapping):
        raise jsontext.FileError(f"`{top}` must be an object")
    return entries


def _write(path: Path, whole: Mapping[str, JSON]) -> None:
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        text = json.dumps(whole, indent=2)  # half a surrogate pair has no UTF-8
    write_private(path, text + "\n")
