"""What the commands have in common: the configuration of this folder, and text fit to be shown."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from .config import Loaded, ServerConfig, load
from .pins import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unipi_hookspecs import CliHost

    from .config import Problem


def loaded(host: CliHost) -> Loaded:
    """The servers of sessions in this folder."""
    return load(
        host.cwd,
        host.user_dir,
        trusted=host.project_trusted,
        settings=host.settings("mcp"),
        environ=os.environ,
    )


def chosen(
    host: CliHost, servers: Sequence[ServerConfig], names: Sequence[str]
) -> list[ServerConfig]:
    """The servers of these names; exits when one is not there."""
    by_name = {server.name: server for server in servers}
    for name in names:
        if name not in by_name:
            host.fail(f"there is no server {plain(name)}; `unipi mcp list` shows all", 2)
    return [by_name[name] for name in dict.fromkeys(names)]


def plain(text: str, limit: int = 300) -> str:
    """One line that drives no terminal: hidden and control characters are written out."""
    shown = visible(text.replace("\n", " ").replace("\t", " ").replace("\r", " "))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def block(text: str) -> str:
    """As `plain`, of several lines."""
    return "\n".join(plain(line, 2_000) for line in text.splitlines())


def starts(server: ServerConfig) -> str:
    """What a server runs or calls, without values of `env` and `headers`, or queries."""
    if server.transport == "stdio":
        return plain(shlex.join((server.command, *server.args))) if server.command else "-"
    return plain(server.url.partition("?")[0]) or "-"


def tell(problems: Iterable[Problem]) -> None:
    """Say on standard error what could not be used."""
    for problem in problems:
        click.echo(f"unipi: {plain(str(problem), 1_000)}", err=True)


def problem_json(problem: Problem) -> dict[str, object]:
    """A problem as the documents show it."""
    return {
        "text": problem.text,
        "file": str(problem.file) if problem.file else None,
        "line": problem.line,
        "key": problem.key,
    }
