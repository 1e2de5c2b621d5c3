"""`unipi plugins`: what loads here, in which order, and why; on and off by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unipi.cli._output import fail, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unipi.loader import LoadedPlugin, LoadOptions, LoadResult, Problem
    from unipi.loader.candidates import Candidate


@click.group()
def plugins() -> None:
    """The plugins that load here, in order, and why."""


def _sources(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which plugins a command looks at."""
    for option in (
        click.option("--strict-plugins", "strict", is_flag=True, help="Fail on any problem."),
        click.option("--no-plugin", "deny", multiple=True, metavar="NAME", help="Leave one out."),
        click.option(
            "-e",
            "paths",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="Also load a plugin file or package folder.",
        ),
    ):
        command = option(command)
    return command


@plugins.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@_sources
def list_command(as_json: bool, paths: Sequence[Path], deny: Sequence[str], strict: bool) -> None:
    """Every plugin that is here, active ones first, in order; problems on standard error."""
    from unipi.loader import collect_tools
    from unipi.loader.offers import offered_tools

    options = _options(paths, deny, strict=strict)
    result = _load(options)
    offers, silent = offered_tools(result, options)
    builtins = [item.name for item in result.active if item.source == "built-in"]
    _, conflicts = collect_tools(offers, builtins=builtins, override=_override_tools())
    tools: dict[str, list[str]] = {}
    for name, _distribution, _version, tool in offers:
        tools.setdefault(name, []).append(tool.name)
    problems = [*result.problems, *silent, *conflicts]
    unknown = _unknown_names(deny, result)
    if as_json:
        print_json([_row(item, tools.get(item.name, [])) for item in result.plugins])
    else:
        _print_plugins(result, tools)
    for text in [*(problem.message for problem in problems), *unknown]:
        sys.stderr.write(f"unipi: {text}\n")
    if strict and (silent or conflicts):
        raise SystemExit(1)


@plugins.command("order")
@click.option("--explain", "why", is_flag=True, help="Say why each stands where it stands.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, with load times.")
@_sources
def order_command(
    why: bool, as_json: bool, paths: Sequence[Path], deny: Sequence[str], strict: bool
) -> None:
    """The active plugins in the order in which they are told of an event."""
    from unipi.loader import explain

    result = _load(_options(paths, deny, strict=strict))
    reasons = explain(result)
    if as_json:
        print_json(
            [
                {
                    "name": item.name,
                    "position": item.position,
                    "load_ms": round(item.load_ms, 3),
                    "why": reason,
                }
                for item, reason in zip(result.active, reasons, strict=True)
            ]
        )
    else:
        lines = reasons if why else [f"{item.position}. {item.name}" for item in result.active]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    _say(result.problems)


@plugins.command("disable")
@click.argument("name")
def disable_command(name: str) -> None:
    """Keep a plugin from loading, and from being imported, from now on."""
    if name in _essential():
        fail(f"{name!r} is essential: the host does not work without it", 2)
    known = {item.name for item in _found()}
    path = _set_disabled(name, disabled=True)
    sys.stdout.write(f"disabled {name} in {path}; `unipi plugins enable {name}` takes it back\n")
    if name not in known:
        sys.stderr.write(f"unipi: no plugin called {name!r} is here now\n")


@plugins.command("enable")
@click.argument("name")
def enable_command(name: str) -> None:
    """Let a disabled plugin load again."""
    sys.stdout.write(f"enabled {name} in {_set_disabled(name, disabled=False)}\n")


@plugins.command("uninstall")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only print the command.")
def uninstall_command(name: str, yes: bool, dry_run: bool) -> None:
    """Remove the distribution that brings a plugin, and with it the rest of its bundle."""
    import shlex
    import subprocess

    found = _found()
    wanted = _called(name, found)
    if wanted is None:
        fail(f"no plugin called {name!r} is here; `unipi plugins list` shows what is", 2)
    if wanted.distribution is None:
        fail(f"{name!r} is not installed but a file: remove {wanted.source}", 2)
    bundle = [item.name for item in found if item.distribution == wanted.distribution]
    command = _removal(wanted.distribution)
    sys.stdout.write(f"{shlex.join(command)}\n")
    if len(bundle) > 1:
        sys.stdout.write(f"This removes all of its plugins: {', '.join(bundle)}\n")
    if dry_run:
        return
    if not yes and not click.confirm("Run it?"):
        raise SystemExit(1)
    sys.stdout.flush()
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - no shell; the name is a distribution's
    if code != 0:
        fail(f"it ended with {code}; if its metadata is damaged, delete {wanted.where}")


def _called(name: str, found: Sequence[Candidate]) -> Candidate | None:
    """The candidate of a name: its own, its distribution's, or the one its manifest says."""
    names = {name}
    if not any(name in (item.name, item.distribution) for item in found):
        # Only a manifest can tell, so only now is anything imported.
        loaded = _load(_options()).plugins
        names = {item.source for item in loaded if item.name == name}
    return next((i for i in found if names & {i.name, i.distribution, i.source}), None)


def _removal(distribution: str) -> list[str]:
    from importlib.util import find_spec

    if find_spec("pip") is None:
        # An environment that uv made has no pip of its own.
        return ["uv", "pip", "uninstall", "--python", sys.executable, distribution]
    return [sys.executable, "-m", "pip", "uninstall", "-y", distribution]


def _builtins() -> tuple[tuple[str, object], ...]:
    """The host's own plugins."""
    from unipi.builtin import builtin_plugins

    return builtin_plugins()


def _essential() -> frozenset[str]:
    """Those of the host's own plugins that cannot be disabled."""
    from unipi.builtin import ESSENTIAL

    return ESSENTIAL


def _options(
    paths: Sequence[Path] = (), deny: Sequence[str] = (), *, strict: bool = False
) -> LoadOptions:
    from unipi.loader.paths import user_dir
    from unipi.loader.settings import SettingsError, load_options, load_settings

    project = Path.cwd()
    try:
        settings = load_settings(user_dir(), project)
    except SettingsError as error:
        fail(str(error), 2)
    return load_options(
        settings,
        user_dir=user_dir(),
        project_dir=project,
        paths=paths,
        deny=deny,
        strict=strict,
        builtins=_builtins(),
        essential=_essential(),
    )


def _override_tools() -> bool:
    from unipi.loader.paths import user_dir
    from unipi.loader.settings import load_settings

    return load_settings(user_dir()).override_tools


def _load(options: LoadOptions) -> LoadResult:
    from unipi.loader import LoadError, load_plugins

    try:
        return load_plugins(options)
    except LoadError as error:
        fail(str(error).replace("\n", "\nunipi: "))


def _found() -> list[Candidate]:
    """What is here by name, from metadata alone, so that a broken plugin cannot be in the way."""
    from unipi.loader.gather import find

    return find(_options())[0]


def _set_disabled(name: str, *, disabled: bool) -> Path:
    from unipi.loader.paths import user_dir
    from unipi.loader.settings import SettingsError, set_disabled

    try:
        return set_disabled(user_dir(), name, disabled=disabled)
    except (SettingsError, OSError) as error:
        fail(str(error), 2)


def _row(item: LoadedPlugin, tools: Sequence[str]) -> dict[str, object]:
    return {
        "name": item.name,
        "distribution": item.distribution,
        "version": item.version,
        "position": item.position,
        "hooks": list(item.hooks),
        "tools": sorted(tools),
        "status": item.state,
        "reason": _reason(item),
    }


def _reason(item: LoadedPlugin) -> str | None:
    return f"{item.stage}: {item.reason}" if item.stage else item.reason


def _print_plugins(result: LoadResult, tools: dict[str, list[str]]) -> None:
    rows = [
        (
            item.position,
            item.name,
            f"{item.distribution} {item.version}" if item.distribution else item.source,
            item.state,
            f"{item.load_ms:.0f} ms",
            len(item.hooks),
            ", ".join(sorted(tools.get(item.name, []))),
            _reason(item),
        )
        for item in result.plugins
    ]
    columns = ("#", "name", "from", "status", "load", "hooks", "tools", "reason")
    print_table("Plugins", columns, rows)


def _unknown_names(deny: Sequence[str], result: LoadResult) -> list[str]:
    known = {item.name for item in result.plugins}
    return [f"--no-plugin {name}: no such plugin is here" for name in deny if name not in known]


def _say(problems: Sequence[Problem]) -> None:
    for problem in problems:
        sys.stderr.write(f"unipi: {problem.message}\n")
