"""Commands that extensions bring: the entry-point group `unipi.cli`, and what they are handed."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.loader.settings import Settings
    from unipi_hookspecs import JSON

GROUP: Final = "unipi.cli"
KNOWN: Final[Mapping[str, str]] = {
    "cache": "unipi-diagnostics",
    "mcp": "unipi-mcp",
    "recall": "unipi-compactor",
}
"""Commands of our own extensions, so that one which is missing can be told how to be had."""


class Host:
    """`unipi_hookspecs.CliHost` over the host's own rooms, each imported when it is used."""

    @property
    def cwd(self) -> Path:
        return Path.cwd()

    @property
    def user_dir(self) -> Path:
        from unipi.loader.paths import user_dir

        return user_dir()

    @property
    def state_dir(self) -> Path:
        from unipi.loader.paths import state_dir

        return state_dir()

    @property
    def sessions_dir(self) -> Path:
        from unipi.session.listing import sessions_root

        return sessions_root()

    @property
    def project_trusted(self) -> bool:
        return self._settings().trusts(self.cwd)

    def settings(self, plugin: str) -> Mapping[str, JSON]:
        return self._settings().plugins.get(plugin, {})

    def find_session(self, reference: str) -> Path:
        from unipi.session import SessionError, find_session

        try:
            return find_session(reference, self.cwd)
        except SessionError as error:
            self.fail(str(error), 2)

    def print_json(self, value: object) -> None:
        from ._output import print_json

        print_json(value)

    def print_table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        from ._output import print_table

        print_table(title, columns, rows)

    def fail(self, message: str, code: int = 1) -> NoReturn:
        from ._output import fail

        fail(message, code)

    def _settings(self) -> Settings:
        from unipi.loader.settings import SettingsError, load_settings

        try:
            return load_settings(self.user_dir, self.cwd)
        except SettingsError as error:
            self.fail(str(error), 2)


def extension_commands() -> dict[str, EntryPoint]:
    """The entry points of the group by name; of two with one name, the first by distribution."""
    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, _owner(point)))
    return {point.name: point for point in reversed(found)}


def load_command(point: EntryPoint) -> click.Command:
    """Import a command; one that cannot be imported, or is none, exits with its owner's name."""
    from ._output import fail

    try:
        command = point.load()
    except Exception as error:  # noqa: BLE001 - an extension's import may raise anything
        fail(
            f"the command `{point.name}` of {_owner(point)} cannot be imported: "
            f"{type(error).__name__}: {error}"
        )
    if not isinstance(command, click.Command):
        fail(f"the command `{point.name}` of {_owner(point)} is no click command: {point.value}")
    return command


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
