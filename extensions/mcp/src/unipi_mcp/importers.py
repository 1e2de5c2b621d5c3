"""Servers as Claude Desktop, Cursor and VS Code write them down, in the shape of `mcpServers`.

Nothing is started and no variable is replaced; what an entry of theirs says that ours cannot is
told, by key and never by value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

from attrs import field, frozen

from .config import Problem, read_source
from .entry import EntryError, adjusts, server
from .schema import is_list

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unipi_hookspecs import JSON

    from .config import Source

Program = Literal["claude-desktop", "cursor", "vscode"]
PROGRAMS: Final[tuple[Program, ...]] = get_args(Program)

_ENV: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT: Final = re.compile(r"\$\{input:([^}]+)\}")
_OTHER: Final = re.compile(
    r"\$\{(?!(?:workspaceFolder|userHome)\})(?:[a-z]+(?:[A-Z][a-z]+)+|/|config:[^}]*|command:[^}]*)\}"
)
_KEPT: Final = (
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "disabled",
    "enabled",
    "timeout",
)


@frozen
class Imported:
    """Entries in our shape, by name, and what of the file could not be taken."""

    file: Path
    entries: Mapping[str, Mapping[str, JSON]] = field(factory=dict)
    problems: tuple[Problem, ...] = ()


def place(
    program: Program, folder: Path, *, platform: str, environ: Mapping[str, str], project: bool
) -> Path:
    """Where a program keeps its servers: its user's in the home `folder`, or a project's in it.

    The two are never mixed up, as a project's file may be a stranger's. The places are those of the
    programs' own documentation; `platform` is `sys.platform`. Claude Desktop has no projects.
    """
    if program == "cursor":
        return folder / ".cursor" / "mcp.json"
    if program == "vscode" and project:
        return folder / ".vscode" / "mcp.json"
    if platform == "darwin":
        apps = folder / "Library" / "Application Support"
    elif platform == "win32":
        apps = folder / (environ.get("APPDATA") or "AppData/Roaming")
    else:
        apps = folder / (environ.get("XDG_CONFIG_HOME") or ".config")
    if program == "vscode":
        return apps / "Code" / "User" / "mcp.json"
    return apps / "Claude" / "claude_desktop_config.json"


def import_file(path: Path, cwd: Path) -> Imported:
    """Read one of their files. Raises `OSError` and `jsontext.FileError`."""
    source = read_source("user", path)
    problems: list[Problem] = []
    entries: dict[str, Mapping[str, JSON]] = {}
    for name, raw in source.entries.items():
        try:
            if not isinstance(raw, Mapping):
                raise EntryError("must be an object")
            made = _entry(source, name, raw, problems)
            if adjusts(made):
                raise EntryError("needs `command` or `url`")
            _judge(source, name, made, cwd)
        except EntryError as error:
            problems.append(source.problem(f"{error}; not imported", name, *error.path))
            continue
        entries[name] = made
    return Imported(path, entries, tuple(problems))


def _entry(
    source: Source, name: str, raw: Mapping[str, JSON], problems: list[Problem]
) -> Mapping[str, JSON]:
    made: dict[str, JSON] = {}
    for key, value in raw.items():
        if key in _KEPT:
            made[key] = _translated(value)
        elif key == "envFile":
            text = "is not read here; name its variables in `env`, as `${NAME}`"
            problems.append(source.problem(text, name, key))
    for identifier in sorted({found for text in _texts(raw) for found in _INPUT.findall(text)}):
        text = (
            f"VS Code asks for `{identifier}`; set the environment variable {_variable(identifier)}"
        )
        problems.append(source.problem(text, name))
    for unknown in sorted({found for text in _texts(raw) for found in _OTHER.findall(text)}):
        raise EntryError(f"uses {unknown}, which only its own program knows")
    return made


def _judge(source: Source, name: str, made: Mapping[str, JSON], cwd: Path) -> None:
    """Raise `EntryError` where the entry could not be started whatever the variables hold."""
    named = {found for text in _texts(made) for found in re.findall(r"\$\{([A-Za-z_]\w*)", text)}
    address = made.get("url")
    if isinstance(address, str) and "${" in address:
        made = {**made, "url": "https://localhost"}
    server(source, name, made, cwd, dict.fromkeys(named, "x"))


def _translated(value: JSON) -> JSON:
    if isinstance(value, str):
        text = _ENV.sub(r"${\1}", value)
        return _INPUT.sub(lambda found: f"${{{_variable(found[1])}}}", text)
    if isinstance(value, Mapping):
        return {key: _translated(each) for key, each in value.items()}
    return [_translated(each) for each in value] if is_list(value) else value


def _variable(identifier: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", identifier).strip("_").upper()
    return name if name and not name[0].isdigit() else f"MCP_{name}"


def _texts(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif is_list(value):
        for each in value:
            yield from _texts(each)
