"""Which servers there are: the project's `.mcp.json`, the user's `mcp.json`, the plugin's settings.

The shape is the ecosystem's `mcpServers`. A problem in one entry is told with file, line and key,
and leaves the others as they are; no text of a problem holds a value of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

from attrs import evolve, field, frozen

from . import consent, jsontext, store
from .schema import utf16

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import JSON

    from .jsontext import KeyPath

Transport = Literal["stdio", "http", "sse"]
Mode = Literal["auto", "listed", "on_demand"]
Scope = Literal["settings", "user", "project"]

USER_FILE: Final = "mcp.json"
PROJECT_FILE: Final = ".mcp.json"
TOP_KEYS: Final = ("mcpServers", "servers", "mcp_servers")


@frozen
class ServerConfig:
    """One server, its variables replaced. Deadlines are in seconds.

    `env` and `headers` may hold secrets and stay out of the repr. `written` is a digest of the
    entry as it stands in its file, before any variable was replaced.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: Path | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    start_seconds: float = 30.0
    call_seconds: float = 600.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    mode: Mode = "auto"
    enabled: bool = True
    scope: Scope = "user"
    source: Path | None = None
    written: str = ""

    def digest(self) -> str:
        """Names the file of this server's definitions; in hex.

        It depends on what is started and on nothing else: not on deadlines, modes or the tools that
        are let through. Variables enter by name, so that a new token is not a new server. A
        project's server belongs to its file.
        """
        place = str(self.source) if self.scope == "project" else ""
        return store.digest([self.name, place, self.written or self._started()])

    def _started(self) -> JSON:
        return [
            self.transport,
            self.command,
            list(self.args),
            dict(self.env),
            str(self.cwd or ""),
            self.url,
            dict(self.headers),
        ]

    def allows(self, tool: str) -> bool:
        """Whether `enabledTools` and `disabledTools` let a tool through; `*` and `?` match."""
        listed = self.enabled_tools
        if listed is not None and not any(fnmatchcase(tool, each) for each in listed):
            return False
        return not any(fnmatchcase(tool, each) for each in self.disabled_tools)


@frozen
class Problem:
    """Something that is wrong, where, and the way out. `line` counts from 1."""

    text: str
    file: Path | None = None
    line: int | None = None
    key: str = ""

    def __str__(self) -> str:
        place = str(self.file) if self.file else "settings of the plugin mcp"
        if self.line is not None:
            place += f":{self.line}"
        return f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


@frozen
class Loaded:
    """The servers, sorted by name in UTF-16 order, and everything that could not be used."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[Problem, ...] = ()


@frozen
class Source:
    """The entries of one file, or of the settings, as they are written."""

    scope: Scope
    file: Path | None
    entries: Mapping[str, JSON]
    lines: Mapping[KeyPath, int] = field(factory=dict)
    top: str = "servers"

    def problem(self, text: str, *path: str) -> Problem:
        line = next(
            (
                self.lines[(self.top, *path[:end])]
                for end in range(len(path), -1, -1)
                if (self.top, *path[:end]) in self.lines
            ),
            None,
        )
        return Problem(text, self.file, line, ".".join((self.top, *path)))


def load(
    cwd: Path,
    user_dir: Path,
    *,
    trusted: bool,
    settings: Mapping[str, JSON],
    environ: Mapping[str, str],
) -> Loaded:
    """Every server that is configured for sessions in `cwd`, enabled or not.

    Of one name the project's entry counts before the user's, and that before the settings'. An
    entry without `command` and `url` only adjusts the one below it. What the user disabled stays
    disabled whatever a project says. The file of a project that is not trusted is not opened; in a
    trusted one, an entry that changed since it was last approved waits.
    """
    sources, problems = _sources(cwd, user_dir, settings, trusted=trusted)
    servers: dict[str, ServerConfig] = {}
    for source in sources:
        withheld: frozenset[str] = frozenset()
        if source.scope == "project":
            withheld, told = consent.withheld(user_dir, cwd, source.entries)
            problems += [source.problem(text, *path) for text, path in told]
        for name, raw in source.entries.items():
            if name not in withheld:
                _place(servers, source, name, raw, cwd, environ, problems)
    ordered = sorted(servers.values(), key=lambda server: utf16(server.name))
    return Loaded(tuple(ordered), tuple(problems))


def _sources(
    cwd: Path, user_dir: Path, settings: Mapping[str, JSON], *, trusted: bool
) -> tuple[list[Source], list[Problem]]:
    sources: list[Source] = []
    problems: list[Problem] = []
    own = settings.get("servers", {})
    if isinstance(own, Mapping):
        sources.append(Source("settings", None, own))
    else:
        problems.append(Problem("must be a table of servers", None, None, "servers"))
    files: list[tuple[Scope, Path]] = [("user", user_dir / USER_FILE)]
    project = cwd / PROJECT_FILE
    if trusted:
        files.append(("project", project))
    elif project.is_file():
        text = (
            "not read, as this project is not trusted; `unipi mcp list` shows what it would start"
        )
        problems.append(Problem(text, project))
    for scope, path in files:
        try:
            sources.append(read_source(scope, path))
        except FileNotFoundError:
            continue
        except jsontext.FileError as error:
            problems.append(Problem(str(error), path, error.line))
        except OSError as error:
            problems.append(Problem(error.strerror or "cannot be read", path))
    return sources, problems


def read_source(scope: Scope, path: Path) -> Source:
    """The entries of a file, not judged yet. Raises `OSError` and `jsontext.FileError`."""
    parsed = jsontext.read(path)
    if not isinstance(parsed.value, Mapping):
        raise jsontext.FileError("must hold an object with the key `mcpServers`", 1)
    for top in TOP_KEYS:
        if top in parsed.value:
            entries = parsed.value[top]
            if not isinstance(entries, Mapping):
                raise jsontext.FileError(f"`{top}` must be an object", parsed.lines.get((top,)))
            return Source(scope, path, entries, parsed.lines, top)
    return Source(scope, path, {}, parsed.lines, TOP_KEYS[0])


def _place(
    servers: dict[str, ServerConfig],
    source: Source,
    name: str,
    raw: JSON,
    cwd: Path,
    environ: Mapping[str, str],
    problems: list[Problem],
) -> None:
    """Read one entry and put it over what an earlier source said under the same name."""
    from . import entry

    below = servers.get(name)
    try:
        if entry.adjusts(raw):
            if below is None:
                raise entry.EntryError("needs `command` or `url`")
            made = entry.adjust(below, raw)
            if source.scope == "project":
                made = _narrowed(below, made)
        else:
            made = entry.server(source, name, raw, cwd, environ)
    except entry.EntryError as error:
        problems.append(source.problem(str(error), name, *error.path))
        return
    if below is not None and not below.enabled and source.scope == "project":
        made = evolve(made, enabled=False)
    servers[name] = made


def _narrowed(below: ServerConfig, made: ServerConfig) -> ServerConfig:
    """What a project may say of its user's server: fewer tools than the user lets through."""
    disabled = dict.fromkeys((*below.disabled_tools, *made.disabled_tools))
    enabled = made.enabled_tools if below.enabled_tools is None else below.enabled_tools
    return evolve(made, enabled_tools=enabled, disabled_tools=tuple(disabled))
