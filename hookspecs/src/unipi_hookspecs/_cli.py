"""What the host hands to the commands that extensions bring to its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ._content import JSON


class CliHost(Protocol):
    """The `obj` of click's context in a command of the entry-point group `unipi.cli`.

    Such an entry point is named as the command (`cache = "unipi_diagnostics.cli:cache"`) and names
    a click command or group. It is imported when it is called, not before.
    """

    @property
    def cwd(self) -> Path: ...
    @property
    def user_dir(self) -> Path:
        """The folder of the user's settings."""

    @property
    def state_dir(self) -> Path:
        """The folder of sessions, indexes and artifacts."""

    @property
    def sessions_dir(self) -> Path:
        """The folder under which all session files lie."""

    @property
    def project_trusted(self) -> bool:
        """Whether the user trusts the files of `cwd` as his own."""

    def settings(self, plugin: str) -> Mapping[str, JSON]:
        """A plugin's own settings; exits with a message when a settings file cannot be read."""

    def find_session(self, reference: str) -> Path:
        """The session file that a path, an id or its start names; exits with a message if none."""

    def print_json(self, value: object) -> None:
        """Write one JSON document to standard output."""

    def print_table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Write a table; columns whose every value is a number are set flush right."""

    def fail(self, message: str, code: int = 1) -> NoReturn:
        """Say what went wrong and exit: 1 the work failed, 2 the command line or a file is wrong."""
