"""The project that the agent works on: a temporary git repository, and an environment of its own."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unipi.tools.process import run_process

from .errors import DemoError
from .script import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENVIRONMENT: Mapping[str, str] = {
    # Nothing of the user's git is read, and a machine on which nobody has set it up will do.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Demo",
    "GIT_AUTHOR_EMAIL": "demo@example.invalid",
    "GIT_COMMITTER_NAME": "Demo",
    "GIT_COMMITTER_EMAIL": "demo@example.invalid",
    # The script goes by what git says, which must be English.
    "LC_ALL": "C",
    # A file that is edited twice in a second would be run from the older bytecode.
    "PYTHONDONTWRITEBYTECODE": "1",
}
_GIT_SECONDS = 20.0


@contextmanager
def environment() -> Iterator[None]:
    """Let the processes that the agent starts see `ENVIRONMENT`, and this Python as `python3`."""
    here = str(Path(sys.executable).parent)
    changes = {**ENVIRONMENT, "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)])}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


async def make_project(folder: Path) -> None:
    """Write the project into `folder` and commit it; the folder and its parent are made.

    Raises DemoError when git is missing or refuses.
    """
    if shutil.which("git") is None:
        raise DemoError("git was not found: the demo works in a git repository; install git")
    _write_files(folder)
    for arguments in (
        ("init", "-q"),
        # For processes that get no more than the base environment, such as a plugin's.
        ("config", "core.fsmonitor", "false"),
        ("config", "core.autocrlf", "false"),
        ("add", "."),
        ("commit", "-q", "--no-gpg-sign", "-m", "The project as it was"),
    ):
        done = await run_process(
            ["git", "-c", "init.defaultBranch=main", *arguments],
            cwd=folder,
            env=ENVIRONMENT,
            timeout=_GIT_SECONDS,
        )
        if done.exit_code != 0:
            said = done.stderr.strip() or "it did not end in time"
            raise DemoError(f"`git {arguments[0]}` failed in {folder}: {said}")


def _write_files(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)  # it will hold the session, too
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
