"""What the model is told of the built-in tools. What they do is imported when one is called.

A run offers all of them in each start and may call none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi_hookspecs import Tool

from .args import schema
from .text import BYTE_LIMIT, LINE_LIMIT, LINE_WIDTH

if TYPE_CHECKING:
    from unipi_hookspecs import Call, Context, ToolOutput

PASS_ENV = "pass_env"  # noqa: S105 - the name of a setting


async def _read(call: Call, ctx: Context) -> str | ToolOutput:
    from .read import read

    return await read(call, ctx)


async def _write(call: Call, ctx: Context) -> str | ToolOutput:
    from .write import write

    return await write(call, ctx)


async def _edit(call: Call, ctx: Context) -> str | ToolOutput:
    from .edit import edit

    return await edit(call, ctx)


async def _bash(call: Call, ctx: Context) -> str | ToolOutput:
    from .bash import bash

    return await bash(call, ctx)


async def _grep(call: Call, ctx: Context) -> str | ToolOutput:
    from .search import grep

    return await grep(call, ctx)


async def _find(call: Call, ctx: Context) -> str | ToolOutput:
    from .search import find

    return await find(call, ctx)


async def _ls(call: Call, ctx: Context) -> str | ToolOutput:
    from .ls import ls

    return await ls(call, ctx)


READ = Tool(
    "read",
    f"Read a text file, or look at a PNG, JPEG, GIF or WebP picture. At most {LINE_LIMIT} lines or "
    f"{BYTE_LIMIT} bytes are shown at once; a notice then gives the offset to go on with.",
    parameters=schema(
        ("path",),
        path={"type": "string", "description": "The file, relative to the working folder."},
        offset={"type": "integer", "minimum": 1, "description": "The first line, from 1."},
        limit={"type": "integer", "minimum": 1, "description": "How many lines."},
    ),
    run=_read,
)

WRITE = Tool(
    "write",
    "Write a file. Folders are made as needed, and a file that is there is replaced whole. A file "
    "outside the working folder needs its absolute path.",
    parameters=schema(
        ("path", "content"),
        path={"type": "string", "description": "The file, relative to the working folder."},
        content={"type": "string", "description": "All that the file shall hold."},
    ),
    run=_write,
)

_PAIR = schema(
    ("oldText", "newText"),
    oldText={"type": "string", "description": "Text that is in the file exactly once."},
    newText={"type": "string", "description": "What takes its place."},
)

EDIT = Tool(
    "edit",
    "Replace pieces of a text file. Each oldText must be in the file as it is now exactly once, "
    "and no two may overlap; all are replaced in one step, or none.",
    parameters=schema(
        ("path",),
        path={"type": "string", "description": "The file, relative to the working folder."},
        edits={"type": "array", "minItems": 1, "items": _PAIR, "description": "Replacements."},
        oldText={"type": "string", "description": "For one replacement, instead of edits."},
        newText={"type": "string", "description": "For one replacement, instead of edits."},
    ),
    run=_edit,
)

BASH = Tool(
    "bash",
    "Run a command with bash in the working folder and return what it writes to standard output "
    f"and standard error, in order. Of long output the last {LINE_LIMIT} lines or "
    f"{BYTE_LIMIT} bytes are shown, and a file holds the whole. A command that fails is an error.",
    parameters=schema(
        ("command",),
        command={"type": "string", "description": "The command line."},
        timeout={
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds after which the command is ended; without it, none.",
        },
    ),
    run=_bash,
)

_PATH = {"type": "string", "description": "Where to search; without it, the working folder."}

GREP = Tool(
    "grep",
    "Search the contents of files for a regular expression (Python's syntax), line by line, and "
    "list matches by path and line. Hidden files are searched; what git ignores and binary files "
    f"are not. Lines are cut after {LINE_WIDTH} characters.",
    parameters=schema(
        ("pattern",),
        pattern={"type": "string", "description": "What to search for."},
        path=_PATH,
        glob={"type": "string", "description": "Only files like this, e.g. *.py or src/**/*.ts."},
        ignoreCase={"type": "boolean", "description": "Take capitals and small letters as one."},
        literal={"type": "boolean", "description": "Take the pattern as plain text."},
        context={"type": "integer", "minimum": 0, "description": "Lines around each match."},
        limit={
            "type": "integer",
            "minimum": 1,
            "description": "Matches at most; 100 if not given.",
        },
    ),
    run=_grep,
)

FIND = Tool(
    "find",
    "Find files and folders by a glob such as *.py, src/**/test_*.ts or {a,b}/*. A glob without / "
    "is matched against names at any depth. Hidden files are listed, what git ignores is not. "
    "Folders end in /.",
    parameters=schema(
        ("pattern",),
        pattern={"type": "string", "description": "The glob."},
        path=_PATH,
        limit={
            "type": "integer",
            "minimum": 1,
            "description": "Results at most; 1000 if not given.",
        },
    ),
    run=_find,
)

LS = Tool(
    "ls",
    "List the files and folders in a folder, hidden ones too, sorted by name. Folders end in /.",
    parameters=schema(
        (),
        path={"type": "string", "description": "The folder; without it, the working folder."},
        limit={
            "type": "integer",
            "minimum": 1,
            "description": "Entries at most; 500 if not given.",
        },
    ),
    run=_ls,
)

TOOLS = (READ, WRITE, EDIT, BASH, GREP, FIND, LS)
