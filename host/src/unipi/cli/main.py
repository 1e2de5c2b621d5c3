"""The command group. Each command lives in its own module and is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from unipi import __version__
from unipi.cli._session import LEVELS, fresh_head_option, shared_options

_COMMANDS = {
    "demo": ("unipi.cli.demo:demo", "Watch the prefix hold, break, and be defended. Offline."),
    "doctor": ("unipi.cli.doctor:doctor", "What is well here, what is not, and the way out."),
    "local": ("unipi.cli.local:local", "Serve a GGUF file on loopback, as a model."),
    "models": ("unipi.cli.models:models", "The models known here, their prices and limits."),
    "plugins": ("unipi.cli.plugins:plugins", "The plugins that load here, in order, and why."),
    "replay": ("unipi.cli.replay:replay", "Send a recorded session again through the host."),
    "run": ("unipi.cli.run:run", "Run one prompt to its end."),
    "sessions": ("unipi.cli.sessions:sessions", "List, show and draw session files."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and help without importing them.

    Commands of extensions are looked for when a name is none of ours, or all are listed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        from unipi.cli.extend import extension_commands

        return sorted({*_COMMANDS, *extension_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            return command
        from unipi.cli.extend import KNOWN, Host, extension_commands, load_command

        point = extension_commands().get(cmd_name)
        if point is not None:
            ctx.obj = Host()
            return load_command(point)
        if cmd_name in KNOWN:
            raise click.UsageError(
                f"`unipi {cmd_name}` comes with {KNOWN[cmd_name]}, which is not installed", ctx
            )
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from unipi.cli.extend import extension_commands

        lines = {name: text for name, (_, text) in _COMMANDS.items()}
        for name, point in extension_commands().items():
            owner = point.dist.name if point.dist is not None else point.value
            lines.setdefault(name, f"From {owner}.")
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@shared_options
@click.option("--thinking", type=click.Choice(LEVELS), help="How much the model thinks.")
@fresh_head_option
@click.option("--plain", is_flag=True, help="Lines in, text out, as without a terminal.")
@click.version_option(__version__, "--version", "-V", message="unipi %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, **options: object) -> None:
    """UniPi runs a coding agent whose provider prefix holds, byte for byte.

    Without a command it asks you what to do, and the options here are that prompt's.
    """
    if ctx.invoked_subcommand is None:
        from unipi.cli.repl.start import Wish, start

        raise SystemExit(start(Wish(**options)))  # type: ignore[arg-type]  # named and checked by click
    given = [name for name in options if ctx.get_parameter_source(name) is _ON_COMMAND_LINE]
    if given:
        raise click.UsageError(f"options of a command stand behind it: {ctx.invoked_subcommand} …")


_ON_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE
