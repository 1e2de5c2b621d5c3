"""What `unipi run` and the prompt share: options of the command line, and the session they name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from unipi.cli._output import fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from unipi.session import Session

_Command = TypeVar("_Command", bound="Callable[..., object]")

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")

_OPTIONS = (
    click.option("--model", "model_name", metavar="PROVIDER/ID", help="Which model answers."),
    click.option(
        "--session",
        "session_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Work in this session file; it is made if it is not there.",
    ),
    click.option(
        "--continue", "go_on", is_flag=True, help="Go on with this folder's last session."
    ),
    click.option(
        "--fork",
        "fork",
        metavar="SESSION",
        help="Go on from a session, a file or an id, in a new file of its own.",
    ),
    click.option("--no-session", is_flag=True, help="Keep the session in memory only."),
    click.option(
        "-e",
        "paths",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Load this plugin file or package too.",
    ),
    click.option(
        "--no-plugin", "deny", multiple=True, metavar="NAME", help="Do not load this plugin."
    ),
    click.option("--strict-plugins", "strict", is_flag=True, help="Stop at any plugin problem."),
    click.option(
        "--prefix-policy",
        "policy",
        default=None,
        type=click.Choice(["enforce", "record", "off"]),
        help="What becomes of a plugin that rewrites what was sent; else as the setting "
        "`prefix_policy` says, else enforce.",
    ),
)


def shared_options(command: _Command) -> _Command:
    """The options of whatever works in a session: model, session, plugins, policy."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fresh_head_option(command: _Command) -> _Command:
    """`--fresh-head`."""
    text = "On resuming, build the head anew: a boundary."
    return click.option("--fresh-head", is_flag=True, help=text)(command)


def open_named(
    cwd: Path, path: Path | None, *, go_on: bool, fork: str | None, in_memory: bool
) -> Session:
    """Find or make the session, or exit saying who holds it and how to go on."""
    from unipi.session import Session, SessionError, find_latest, find_session, new_session_path

    try:
        if fork is not None:
            with Session.open(find_session(fork, cwd), read_only=True) as origin:
                return origin.fork(path or new_session_path(cwd)[0], origin.leaf_id)
        if in_memory:
            return Session.create(None, cwd=cwd)
        if path is None and go_on:
            path = find_latest(cwd)
            if path is None:
                fail("there is no session of this folder to continue; leave --continue out", 2)
        if path is not None and path.exists():
            session = Session.open(path)
            for remark in remarks(session):
                sys.stderr.write(f"unipi: {remark}\n")
            return session
        if path is not None:
            return Session.create(path, cwd=cwd)
        new, session_id = new_session_path(cwd)
        return Session.create(new, cwd=cwd, id=session_id)
    except SessionError as error:
        fail(str(error), 2)


def remarks(session: Session) -> list[str]:
    """What the user should be told of a session that was just opened, a line each."""
    told = [session.notice] if session.notice else []
    return told + [f"{session.path}: {damage}" for damage in session.damages]
