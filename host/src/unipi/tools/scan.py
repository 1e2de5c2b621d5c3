"""The child process in which a search runs: one request in, one answer out, both JSON.

A process and not a thread: Python's `re` cannot be interrupted and holds the interpreter while it
matches, so that one unlucky pattern would stop the whole host. A process can be ended.

Standard library only, and started without site-packages. Paths travel as Latin-1 text, one
character a byte.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, TypedDict

from .cut import safe_prefix
from .text import BYTE_LIMIT, LINE_WIDTH, decode
from .walk import compile_glob, join, list_files, order, parents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE_LIMIT = 32 * 1024 * 1024
"""Bytes up to which a file is searched."""

_SNIFF = 8_000
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")


class Request(TypedDict):
    """What to do: `prefix` stands before each path in the answer; `file` narrows it to one file."""

    find: bool
    root: str
    file: str | None
    prefix: str
    pattern: str
    glob: str | None
    ignore_case: bool
    literal: bool
    context: int
    limit: int


class Answer(TypedDict):
    """What was found. `stopped` says which limit ended the search: "limit", "size" or None.

    `large` counts the files that were too large to be searched. `error` is a wrong pattern.
    """

    rows: list[str]
    stopped: str | None
    large: int
    error: str | None


def main() -> None:
    """Answer the request on standard input."""
    request: Request = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `re`, about sets like [[a]
        try:
            answer = _find(request) if request["find"] else _grep(request)
        except (re.error, OverflowError) as error:
            answer = Answer(rows=[], stopped=None, large=0, error=str(error))
    json.dump(answer, sys.stdout)


def _paths(request: Request) -> list[bytes]:
    root = request["root"].encode("latin-1")
    if request["file"] is not None:
        return [request["file"].encode("latin-1")]
    return list_files(root)


def _find(request: Request) -> Answer:
    match = compile_glob(request["pattern"]).fullmatch
    files = _paths(request)
    entries = [(path, "") for path in files] + [(path, "/") for path in parents(files)]
    rows: list[str] = []
    size = 0
    for path, mark in sorted(entries, key=lambda entry: order(entry[0])):
        name = decode(path)
        if not match(name):
            continue
        row = f"{request['prefix']}{name}{mark}"
        size += len(row.encode()) + 1
        if len(rows) == request["limit"] or size > BYTE_LIMIT:
            stopped = "limit" if len(rows) == request["limit"] else "size"
            return Answer(rows=rows, stopped=stopped, large=0, error=None)
        rows.append(row)
    return Answer(rows=rows, stopped=None, large=0, error=None)


def _grep(request: Request) -> Answer:
    matches = _matcher(request)
    wanted = _filter(request["glob"])
    root = request["root"].encode("latin-1")
    answer = Answer(rows=[], stopped=None, large=0, error=None)
    left, size = request["limit"], 0
    for path in _paths(request):
        name = decode(path)
        if not wanted(name):
            continue
        lines = _lines(join(root, path), answer)
        if lines is None:
            continue
        hits = []
        for number, line in enumerate(lines):
            if matches(line):
                if not left:
                    answer["stopped"] = "limit"
                    break
                hits.append(number)
                left -= 1
        for row in _rows(f"{request['prefix']}{name}", lines, hits, request["context"]):
            size += len(row.encode()) + 1
            if size > BYTE_LIMIT:
                answer["stopped"] = "size"
                return answer
            answer["rows"].append(row)
        if answer["stopped"]:
            return answer
    return answer


def _matcher(request: Request) -> Callable[[str], object]:
    pattern = request["pattern"]
    plain = request["literal"] or not _SPECIAL.search(pattern)
    if plain and not request["ignore_case"]:
        return lambda line: pattern in line
    flags = re.IGNORECASE if request["ignore_case"] else 0
    return re.compile(re.escape(pattern) if plain else pattern, flags).search


def _filter(glob: str | None) -> Callable[[str], bool]:
    if not glob:
        return lambda _: True
    match = compile_glob(glob.removeprefix("!")).fullmatch
    negated = glob.startswith("!")
    return lambda name: (match(name) is None) == negated


def _lines(path: bytes, answer: Answer) -> list[str] | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as stream:
            data = stream.read(FILE_LIMIT + 1)
    except OSError:  # a symbolic link, gone, or not ours to read
        return None
    if len(data) > FILE_LIMIT:
        answer["large"] += 1
        return None
    if b"\0" in data[:_SNIFF]:
        return None
    lines = decode(data).split("\n")
    return lines if lines[-1] else lines[:-1]


def _rows(name: str, lines: list[str], hits: list[int], context: int) -> Iterator[str]:
    shown = -1
    marked = set(hits)
    for hit in hits:
        first = max(hit - context, shown + 1)
        if context and shown >= 0 and first > shown + 1:
            yield "--"
        last = min(hit + context, len(lines) - 1)
        for number in range(first, last + 1):
            line = lines[number].removesuffix("\r")
            cut = safe_prefix(line, LINE_WIDTH)
            mark = ":" if number in marked else "-"
            more = "" if cut == line else " [... line cut]"
            yield f"{name}{mark}{number + 1}{mark} {cut}{more}"
        shown = max(shown, last)
