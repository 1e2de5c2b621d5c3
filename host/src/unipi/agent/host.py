"""Putting a host together: plugins loaded and ordered, hooks compiled, tools and models gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, frozen

from unipi.hooks import compile_hooks
from unipi.loader import LoadError, LoadOptions, Problem, collect_tools, load_plugins
from unipi.providers import load_models

from .logs import LazyLogger
from .toolbox import OwnedTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unipi.hooks import Failure, Hooks
    from unipi.loader import LoadResult
    from unipi_hookspecs import JSON, Command, Logger, Model


@frozen
class PlainLoadContext:
    """What registration hooks get: implements `unipi_hookspecs.LoadContext`."""

    plugin: str
    cwd: Path
    settings: Mapping[str, JSON] = Factory(dict)
    project_trusted: bool = False

    @property
    def log(self) -> Logger:
        return LazyLogger(self.plugin)

    @property
    def user_dir(self) -> Path:
        from unipi.loader.paths import user_dir

        return user_dir()

    @property
    def state_dir(self) -> Path:
        from unipi.loader.paths import state_dir

        return state_dir()


@frozen(eq=False)
class Host:
    """Everything that outlives a session: the plugins that loaded and what they registered."""

    cwd: Path
    loaded: LoadResult
    hooks: Hooks
    tools: Sequence[OwnedTool]
    commands: Mapping[str, tuple[str, Command]]
    models: Mapping[str, Model]
    settings: Mapping[str, Mapping[str, JSON]]
    problems: Sequence[Problem]


def prepare_host(
    cwd: Path,
    options: LoadOptions,
    *,
    override_tools: bool = False,
    models_file: Path | None = None,
    report: Callable[[Failure], None] | None = None,
) -> Host:
    """Load the plugins and ask each what it registers. A bad plugin is a problem, never a crash.

    Raises LoadError for a bad plugin when `options.strict` says so.
    """
    loaded = load_plugins(options)
    hooks = compile_hooks(loaded.manager, report=report)
    versions = {p.name: (p.distribution, p.version) for p in loaded.plugins}

    def load_context(plugin: str) -> PlainLoadContext:
        settings = options.settings.get(plugin, {})
        return PlainLoadContext(plugin, cwd, settings, options.project_trusted)

    offers = hooks.collect_tools(load_context)
    owners = {id(tool): plugin for plugin, tool in offers}
    kept, clashes = collect_tools(
        [(plugin, *versions.get(plugin, (None, None)), tool) for plugin, tool in offers],
        builtins=[name for name, _ in options.builtins],
        override=override_tools,
    )
    commands: dict[str, tuple[str, Command]] = {}
    problems = [*loaded.problems, *clashes]
    for plugin, command in hooks.collect_commands(load_context):
        if command.name in commands:
            other = commands[command.name][0]
            text = (
                f"plugins {other!r} and {plugin!r} both offer the command /{command.name}; "
                f"the one of {other!r} is used"
            )
            problems.append(Problem("command", text, (other, plugin), ()))
            continue
        commands[command.name] = (plugin, command)
    models = {
        model.name: model
        for _, provider in hooks.collect_providers(load_context)
        for model in provider.models
    }
    models |= load_models(models_file)
    fatal = [problem.message for problem in problems if problem.fatal]
    if options.strict and fatal:
        raise LoadError("\n".join(fatal))
    return Host(
        cwd=cwd,
        loaded=loaded,
        hooks=hooks,
        tools=[OwnedTool(owners[id(tool)], tool) for tool in kept],
        commands=commands,
        models=models,
        settings=options.settings,
        problems=problems,
    )
