"""The grep and find tools."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from .args import flag_arg, int_arg, text_arg
from .paths import os_error, resolve, shown
from .process import run_process
from .scan import FILE_LIMIT, Answer, Request
from .text import BYTE_LIMIT, ToolError

if TYPE_CHECKING:
    from unipi_hookspecs import Call, Context

SEARCH_SECONDS = 20.0
"""How long one search may take."""

_PACKAGES = str(Path(__file__).parents[2])
# -I and -S: nothing of the environment, the working folder or site-packages has a say. -X utf8:
# paths are the same in every locale.
_CHILD = (
    "-I",
    "-S",
    "-X",
    "utf8",
    "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from unipi.tools.scan import main; main()",
    _PACKAGES,
)


@frozen
class _Place:
    """Where to search: a folder, or one `file` of it; `prefix` makes its paths readable."""

    root: Path
    file: str | None
    prefix: str


async def grep(call: Call, ctx: Context) -> str:
    """Search file contents; raises ToolError for a wrong pattern or path, or a slow search."""
    place = _place(call, ctx)
    limit = _count(call, "limit", 100, least=1)
    request = Request(
        find=False,
        root=_latin(place.root),
        file=place.file,
        prefix=place.prefix,
        pattern=text_arg(call, "pattern"),
        glob=text_arg(call, "glob", ""),
        ignore_case=flag_arg(call, "ignoreCase"),
        literal=flag_arg(call, "literal"),
        context=_count(call, "context", 0, least=0),
        limit=limit,
    )
    answer = await _ask(request)
    return _report(answer, ctx, "grep", f"the first {limit} matches", "No matches.")


async def find(call: Call, ctx: Context) -> str:
    """Find files and folders by name; raises ToolError as `grep` does."""
    place = _place(call, ctx)
    if place.file is not None:
        raise ToolError(f"{place.prefix}{text_arg(call, 'path')} is no folder")
    limit = _count(call, "limit", 1_000, least=1)
    request = Request(
        find=True,
        root=_latin(place.root),
        file=None,
        prefix=place.prefix,
        pattern=text_arg(call, "pattern"),
        glob=None,
        ignore_case=False,
        literal=False,
        context=0,
        limit=limit,
    )
    answer = await _ask(request)
    return _report(answer, ctx, "find", f"the first {limit} results", "Nothing found.")


def _count(call: Call, name: str, default: int, *, least: int) -> int:
    value = int_arg(call, name, default)
    if value < least:
        raise ToolError(f"{name} must be at least {least}")
    return value


def _place(call: Call, ctx: Context) -> _Place:
    path = resolve(text_arg(call, "path", "."), ctx.cwd)
    name = shown(path, ctx.cwd)
    if path.is_dir():
        prefix = "" if name == "." else name.rstrip("/") + "/"
        return _Place(path, None, prefix)
    if not path.is_file():
        raise ToolError(f"{name}: no such file or folder")
    readable = shown(path.parent, ctx.cwd)
    prefix = "" if readable == "." else readable.rstrip("/") + "/"
    return _Place(path.parent, os.fsencode(path.name).decode("latin-1"), prefix)


def _latin(path: Path) -> str:
    return os.fsencode(path).decode("latin-1")


async def _ask(request: Request) -> Answer:
    try:
        done = await run_process(
            [sys.executable, *_CHILD],
            stdin=json.dumps(request).encode(),
            env={"GIT_OPTIONAL_LOCKS": "0"},
            timeout=SEARCH_SECONDS,
            grace=0.2,
        )
    except OSError as error:
        raise os_error(error, "the search could not be started") from error
    if done.timed_out:
        raise ToolError(
            f"the search took over {SEARCH_SECONDS:g} seconds: "
            "narrow it by path or glob, or simplify the pattern"
        )
    if done.exit_code:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ToolError(f"the search failed: {last[0]}")
    answer: Answer = json.loads(done.stdout)
    if answer["error"] is not None:
        raise ToolError(f"the pattern is not well-formed: {answer['error']}")
    return answer


def _report(answer: Answer, ctx: Context, label: str, first: str, nothing: str) -> str:
    notes = []
    if answer["stopped"] == "limit":
        notes.append(f"[Shown are {first}; raise limit or narrow the search for more.]")
    elif answer["stopped"] == "size":
        notes.append(f"[Shown are the first {BYTE_LIMIT} bytes; narrow the search for more.]")
    if answer["large"]:
        notes.append(f"[Not searched: {answer['large']} files over {FILE_LIMIT} bytes.]")
    text = "\n\n".join(["\n".join(answer["rows"]) or nothing, *notes])
    return ctx.bound_output(text, label=label).text
