"""`unipi mcp`: which servers there are, what they offer, and what of it was approved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi_hookspecs import CliHost

_Command = TypeVar("_Command", bound="Callable[..., object]")


def _host() -> CliHost:
    """What the host hands to its commands; a caller of Python's must hand it over as `obj`."""
    host: CliHost = click.get_current_context().obj
    return host


def _json(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document.")(command)


def _scope(command: _Command) -> _Command:
    return click.option(
        "--scope",
        type=click.Choice(("user", "project")),
        default="user",
        show_default=True,
        help="The user's mcp.json, or .mcp.json of this folder.",
    )(command)


@click.group()
def mcp() -> None:
    """MCP servers: configure, check and approve them."""


@mcp.command("list")
@_json
def list_(*, as_json: bool) -> None:
    """List the servers, where they come from, and what is known of them.

    Nothing is started. Servers of a project that is not trusted are listed with the command that
    they would run.
    """
    from . import cli_list

    cli_list.show(_host(), as_json=as_json)


@mcp.command()
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND ARGS…]")
@click.option("--url", help="The address of a remote server, instead of a command.")
@click.option(
    "--transport",
    type=click.Choice(("http", "sse")),
    default="http",
    show_default=True,
    help="How a remote server speaks.",
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="${NAME} keeps a secret out.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="As --env, for --url.")
@click.option("--cwd", help="The folder to start the command in.")
@click.option("--mode", type=click.Choice(("auto", "listed", "on_demand")))
@click.option("--start-seconds", type=float, help="How long it may take to list its tools.")
@click.option("--call-seconds", type=float, help="How long one call may take.")
@click.option("--replace", is_flag=True, help="Replace an entry of that name.")
@_scope
@_json
def add(
    name: str,
    command: tuple[str, ...],
    *,
    url: str | None,
    transport: str,
    env: tuple[str, ...],
    header: tuple[str, ...],
    cwd: str | None,
    mode: str | None,
    start_seconds: float | None,
    call_seconds: float | None,
    replace: bool,
    scope: str,
    as_json: bool,
) -> None:
    """Write a server NAME into a configuration file; its command stands behind `--`.

    Nothing is started; `unipi mcp test NAME` does that.
    """
    from . import cli_edit

    host = _host()
    if bool(url) == bool(command):
        host.fail("give either a command behind `--`, or --url", 2)
    given: dict[str, object] = {"mode": mode, "cwd": cwd}
    given |= {"startSeconds": start_seconds, "callSeconds": call_seconds}
    if url:
        given |= {"type": transport, "url": url, "headers": cli_edit.pairs(host, header)}
    else:
        given |= {"command": command[0], "args": list(command[1:])}
        given |= {"env": cli_edit.pairs(host, env)}
    cli_edit.add(host, name, given, scope, replace=replace, as_json=as_json)


@mcp.command()
@click.argument("name")
@_scope
@_json
def remove(name: str, *, scope: str, as_json: bool) -> None:
    """Take the server NAME out of a configuration file."""
    from . import cli_edit

    cli_edit.remove(_host(), name, scope, as_json=as_json)


@mcp.command("import")
@click.argument("program", type=click.Choice(("claude-desktop", "cursor", "vscode")))
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace entries of the same names.")
@click.option("--dry-run", is_flag=True, help="Say what would be taken, and write nothing.")
@_scope
@_json
def import_(
    program: str, file: Path | None, *, replace: bool, dry_run: bool, scope: str, as_json: bool
) -> None:
    """Take over the servers of another program, from FILE or from where it keeps them.

    With --scope project that is its file in this folder, else the one of your own.
    """
    from . import cli_edit

    cli_edit.import_(
        _host(), program, file, scope, replace=replace, dry_run=dry_run, as_json=as_json
    )


@mcp.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--yes", is_flag=True, help="Approve without being asked.")
@_json
def approve(names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Show what changed since it was approved, and approve it.

    That is what a server says of its tools, and what a project's .mcp.json would start. Without
    NAME it is all that waits. With --json nothing is asked; --yes approves.
    """
    from . import cli_approve

    cli_approve.approve(_host(), names, yes=yes, as_json=as_json)


@mcp.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@_json
def test(names: tuple[str, ...], *, as_json: bool) -> None:
    """Start servers, list their tools and stop them: the enabled ones, or those named.

    Exit code 1 when one of them fails. Nothing is approved or kept.
    """
    from . import cli_probe

    cli_probe.run(_host(), names, as_json=as_json)
