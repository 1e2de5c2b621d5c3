"""What a tool call was about, in one line, and whether two calls are the same attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON

CHANGES: Final = frozenset({"write", "edit", "multi_edit", "apply_patch"})
_PATHS: Final = ("path", "file_path", "filePath")
_OTHERS: Final = ("command", "pattern", "query", "url", "name")
_CD: Final = re.compile(r"^\s*cd\s+\S+\s*(?:&&|;)\s*")
_TO_FILTER: Final = re.compile(r"\s*(?:2>&1)?\s*\|\s*(?:head|tail|grep|sed|awk|cut|wc)\b.*$", re.S)
_SPACES: Final = re.compile(r"\s+")


def path_of(arguments: Mapping[str, JSON]) -> str:
    """The file that a call is about, as the model named it; empty when it names none."""
    for key in _PATHS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return clean(value)
    return ""


def target(arguments: Mapping[str, JSON], most: int = 120) -> str:
    """A call's path, command, pattern or query on one line; empty when it has none of them."""
    path = path_of(arguments)
    if path:
        return one_line(path, most)
    for key in _OTHERS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return one_line(_CD.sub("", value) or value, most)
    return ""


def called(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call on one line: the tool, and what it was about."""
    return f"{name} {target(arguments)}".strip()


def attempt(name: str, arguments: Mapping[str, JSON]) -> str:
    """What makes two calls the same attempt: tool and path, or tool and command.

    Of a command the folder that it changes to and the filters behind it do not count.
    """
    path = path_of(arguments)
    if path:
        return f"{name} {path}"
    for key in _OTHERS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            bare = _TO_FILTER.sub("", _CD.sub("", clean(value)))
            return f"{name} {_SPACES.sub(' ', bare).strip()}"
    return name
