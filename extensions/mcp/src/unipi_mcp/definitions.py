"""What a server offered when it was last asked and approved, kept on disk.

One file a server and configuration, `<digest>.json`, of mode 0600 in a folder of mode 0700. A
listing that differs from it waits beside it, in `<digest>.pending.json`, until it is approved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from . import store
from .schema import canonical

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import JSON

    from .config import ServerConfig

VERSION: Final = 1


class CatalogueError(Exception):
    """A file of definitions that is there and cannot be used; the text names it and the way out."""


@frozen
class Definition:
    """A tool as its server describes it. `schema` is canonical, `read_only` the server's hint."""

    server: str
    tool: str
    description: str
    schema: JSON
    read_only: bool = False
    title: str = ""


@frozen
class Catalogue:
    """All that a server tells a model about itself."""

    definitions: tuple[Definition, ...] = ()
    instructions: str = ""


@frozen
class Pending:
    """A listing that waits for approval.

    `digit_drifts` counts, by tool, how often in a row a description changed in its digits alone.
    """

    catalogue: Catalogue
    digit_drifts: Mapping[str, int] = field(factory=dict)

    @property
    def volatile(self) -> tuple[str, ...]:
        """Tools whose description holds a counter or a clock: they moved so twice or more."""
        return tuple(sorted(tool for tool, count in self.digit_drifts.items() if count >= 2))


def folder(state_dir: Path) -> Path:
    """Where definitions lie under the host's folder of state."""
    return state_dir / "mcp"


def digest(catalogue: Catalogue) -> str:
    """SHA-256 over everything in it, in hex."""
    return store.digest(_document("", catalogue))


def read(folder: Path, config: ServerConfig) -> Catalogue | None:
    """The approved definitions, or None when this server was never listed.

    Raises `CatalogueError` for a file that cannot be read: were it taken for none, a server could
    bring changed definitions in unseen.
    """
    found = _load(_path(folder, config))
    return _catalogue(config.name, found[0], found[1]) if found else None


def write(folder: Path, config: ServerConfig, catalogue: Catalogue) -> None:
    """Keep these definitions as approved, atomically; what waited is done with."""
    found = _quiet(_path(folder, config, pending=True))
    _store(_path(folder, config), config.name, catalogue, _counts(found))
    _path(folder, config, pending=True).unlink(missing_ok=True)


def read_pending(folder: Path, config: ServerConfig) -> Pending | None:
    """The listing that waits for approval, if one does. Raises `CatalogueError`."""
    path = _path(folder, config, pending=True)
    found = _load(path)
    if found is None:
        return None
    return Pending(_catalogue(config.name, *found), _counts(found))


def write_pending(folder: Path, config: ServerConfig, catalogue: Catalogue) -> Pending:
    """Let a changed listing wait, and count the descriptions that moved in their digits alone."""
    from .pins import digits_alone

    path = _path(folder, config, pending=True)
    last = _quiet(path) or _quiet(_path(folder, config))
    counts = dict(_counts(last))
    if last is not None:
        before = {each.tool: each for each in _catalogue(config.name, *last).definitions}
        for each in catalogue.definitions:
            old = before.get(each.tool)
            if old is not None and old != each:
                moved = digits_alone(old.description, each.description)
                counts[each.tool] = counts.get(each.tool, 0) + 1 if moved else 0
    counts = {tool: count for tool, count in counts.items() if count}
    _store(path, config.name, catalogue, counts)
    return Pending(catalogue, counts)


def drop_pending(folder: Path, config: ServerConfig) -> None:
    """Nothing waits any more: the server lists again what was approved."""
    _path(folder, config, pending=True).unlink(missing_ok=True)


def accept(folder: Path, config: ServerConfig) -> Catalogue | None:
    """Approve what waits; returns it, or None when nothing did. Raises `CatalogueError`."""
    pending = read_pending(folder, config)
    if pending is None:
        return None
    write(folder, config, pending.catalogue)
    return pending.catalogue


def forget(folder: Path, config: ServerConfig) -> None:
    """Remove both files of a server."""
    _path(folder, config).unlink(missing_ok=True)
    drop_pending(folder, config)


def _path(folder: Path, config: ServerConfig, *, pending: bool = False) -> Path:
    return folder / f"{config.digest()[:32]}{'.pending' if pending else ''}.json"


def _document(server: str, catalogue: Catalogue) -> dict[str, JSON]:
    tools: list[JSON] = [
        {
            "description": each.description,
            "read_only": each.read_only,
            "schema": canonical(each.schema),
            "title": each.title,
            "tool": each.tool,
        }
        for each in sorted(catalogue.definitions, key=lambda each: each.tool)
    ]
    return {
        "instructions": catalogue.instructions,
        "server": server,
        "tools": tools,
        "version": VERSION,
    }


def _store(path: Path, server: str, catalogue: Catalogue, counts: Mapping[str, int]) -> None:
    document = {**_document(server, catalogue), "digit_drifts": dict(counts)}
    store.write_private(path, store.encode(document, ordered=False))


def _load(path: Path) -> tuple[Mapping[str, JSON], Path] | None:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unusable(path) from error
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise _unusable(path)
    return value, path


def _quiet(path: Path) -> tuple[Mapping[str, JSON], Path] | None:
    """As `_load`, where a broken file may count for none: history, not approval."""
    try:
        return _load(path)
    except CatalogueError:
        return None


def _counts(found: tuple[Mapping[str, JSON], Path] | None) -> dict[str, int]:
    counts = found[0].get("digit_drifts") if found else None
    if not isinstance(counts, Mapping):
        return {}
    return {tool: count for tool, count in counts.items() if isinstance(count, int)}


def _catalogue(server: str, document: Mapping[str, JSON], path: Path) -> Catalogue:
    tools, instructions = document.get("tools"), document.get("instructions")
    if not isinstance(tools, list) or not isinstance(instructions, str):
        raise _unusable(path)
    return Catalogue(tuple(_definition(server, tool, path) for tool in tools), instructions)


def _definition(server: str, tool: JSON, path: Path) -> Definition:
    if not isinstance(tool, Mapping):
        raise _unusable(path)
    name, description, title = tool.get("tool"), tool.get("description"), tool.get("title")
    schema = tool.get("schema")
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(title, str)):
        raise _unusable(path)
    if not isinstance(schema, Mapping):
        raise _unusable(path)
    return Definition(
        server, name, description, schema, read_only=tool.get("read_only") is True, title=title
    )


def _unusable(path: Path) -> CatalogueError:
    return CatalogueError(
        f"{path} cannot be read, so what was approved is not known; remove the file to have the "
        "server listed and approved anew"
    )
