"""`unipi mcp add`, `remove` and `import`: the files, and nothing started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from . import consent, edits, importers, jsontext
from .cli_text import plain, problem_json, tell
from .config import PROJECT_FILE, USER_FILE, Source
from .entry import EntryError, server
from .expand import UnsetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON, CliHost


def pairs(host: CliHost, given: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` options as an object; exits on one that is none."""
    made: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            host.fail("--env and --header take NAME=VALUE", 2)
        made[name] = value
    return made


def add(
    host: CliHost,
    name: str,
    given: Mapping[str, object],
    scope: str,
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Judge an entry, and write it."""
    path = _file(host, scope)
    entry = cast("dict[str, JSON]", {k: v for k, v in given.items() if v not in (None, {}, [])})
    source = Source("project" if scope == "project" else "user", path, {name: entry})
    try:
        server(source, name, entry, host.cwd, os.environ)
    except EntryError as error:
        # A variable that will only be set later is no reason to refuse the entry.
        if not isinstance(error.__cause__, UnsetError):
            host.fail(plain(source.problem(str(error), name, *error.path).text, 1_000), 2)
    _put(host, path, {name: entry}, scope, replace=replace)
    if as_json:
        host.print_json({"name": name, "scope": scope, "file": str(path)})
    else:
        click.echo(f"{plain(name)} is in {path}. `unipi mcp test {plain(name)}` starts it once.")


def remove(host: CliHost, name: str, scope: str, *, as_json: bool) -> None:
    """Take an entry out of a file."""
    path = _file(host, scope)
    try:
        there = edits.drop(path, name)
    except (jsontext.FileError, OSError) as error:
        host.fail(_unusable(path, error), 2)
    if not there:
        host.fail(f"{path} holds no server {plain(name)}; --scope chooses the file", 2)
    if as_json:
        host.print_json({"name": name, "scope": scope, "file": str(path)})
    else:
        click.echo(f"{plain(name)} is no longer in {path}.")


def import_(
    host: CliHost,
    program: str,
    file: Path | None,
    scope: str,
    *,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take over another program's servers; those of a name that is there stay as they are."""
    path = _file(host, scope)
    found = _imported(host, program, file, scope)
    try:
        there = edits.names(path)
    except (jsontext.FileError, OSError) as error:
        host.fail(_unusable(path, error), 2)
    taken = {n: entry for n, entry in found.entries.items() if replace or n not in there}
    kept = [name for name in found.entries if name not in taken]
    if taken and not dry_run:
        _put(host, path, taken, scope, replace=True)
    if as_json:
        document: dict[str, object] = {"from": str(found.file), "file": str(path)}
        document |= {"imported": list(taken), "already_there": kept, "dry_run": dry_run}
        problems = [problem_json(problem) for problem in found.problems]
        host.print_json({**document, "problems": problems})
        return
    tell(found.problems)
    verb = "would be imported" if dry_run else "imported"
    click.echo(f"{len(taken)} {verb} from {found.file} into {path}: {_joined(list(taken))}")
    if kept:
        click.echo(f"{len(kept)} were there already, --replace takes them too: {_joined(kept)}")


def _imported(host: CliHost, program: str, file: Path | None, scope: str) -> importers.Imported:
    if file is None:
        known = next(each for each in importers.PROGRAMS if each == program)
        project = scope == "project" and known != "claude-desktop"
        folder = host.cwd if project else Path.home()
        file = importers.place(
            known, folder, platform=sys.platform, environ=os.environ, project=project
        )
    try:
        found = importers.import_file(file, host.cwd)
    except FileNotFoundError:
        host.fail(f"nothing is at {file}; name the file", 2)
    except (jsontext.FileError, OSError) as error:
        host.fail(_unusable(file, error), 2)
    return found


def _put(
    host: CliHost,
    path: Path,
    entries: Mapping[str, Mapping[str, JSON]],
    scope: str,
    *,
    replace: bool,
) -> None:
    try:
        if not replace and (there := edits.names(path) & entries.keys()):
            host.fail(f"{path} has {_joined(sorted(there))} already; --replace puts it anew", 2)
        edits.put(path, entries)
        if scope == "project" and host.project_trusted:
            consent.approve(host.user_dir, host.cwd, entries)
    except consent.ConsentError as error:
        host.fail(str(error), 2)
    except (jsontext.FileError, OSError) as error:
        host.fail(_unusable(path, error), 2)
    if scope != "project":
        return
    for name, entry in entries.items():
        for key in edits.literals(entry):
            click.echo(
                f"unipi: {plain(name)}: {plain(key)} is written out in a file that is often shared; "
                "`${NAME}` keeps the value in the environment",
                err=True,
            )


def _file(host: CliHost, scope: str) -> Path:
    return host.cwd / PROJECT_FILE if scope == "project" else host.user_dir / USER_FILE


def _unusable(path: Path, error: Exception) -> str:
    if isinstance(error, jsontext.FileError):
        place = f"{path}:{error.line}" if error.line is not None else str(path)
        return f"{place}: {error}"
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{path}: {reason or 'cannot be used'}"


def _joined(names: Sequence[str]) -> str:
    return ", ".join(plain(name) for name in names) or "none"
