"""The command group. Each command lives in its own module and is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from unipi import __version__

_COMMANDS = {
    "cache": ("unipi.cli.cache:cache", "What the provider's cache did, from recorded sessions."),
    "demo": ("unipi.cli.demo:demo", "Watch the prefix hold, break, and be defended. Offline."),
    "models": ("unipi.cli.models:models", "The models known here, their prices and limits."),
    "plugins": ("unipi.cli.plugins:plugins", "The plugins that load here, in order, and why."),
    "replay": ("unipi.cli.replay:replay", "Send a recorded session again through the host."),
    "run": ("unipi.cli.run:run", "Run one prompt to its end."),
    "sessions": ("unipi.cli.sessions:sessions", "List, show and draw session files."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", message="unipi %(version)s")
def cli() -> None:
    """UniPi runs a coding agent whose provider prefix holds, byte for byte."""
