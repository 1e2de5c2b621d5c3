"""What the tools of loaded plugins are called, for listings that run without a session.

Each plugin is asked by itself, with the bounds of its import: one that fails is shown as failing
and the others still answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from . import paths
from .importing import contained
from .load import failure
from .text import cause
from .values import LoadedPlugin, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON

    from .tools import ToolOffer
    from .values import LoadOptions, LoadResult


@frozen
class _Silent:
    """A logger for a plugin that is only being listed."""

    def debug(self, event: str, /, **values: object) -> None: ...
    def info(self, event: str, /, **values: object) -> None: ...
    def warning(self, event: str, /, **values: object) -> None: ...
    def error(self, event: str, /, **values: object) -> None: ...


@frozen
class ListingContext:
    """The `LoadContext` of a listing."""

    plugin: str
    cwd: Path
    settings: Mapping[str, JSON]
    project_trusted: bool = False
    user_dir: Path = field(factory=paths.user_dir)
    state_dir: Path = field(factory=paths.state_dir)
    log: _Silent = field(factory=_Silent)


def offered_tools(
    result: LoadResult, options: LoadOptions
) -> tuple[list[ToolOffer], list[Problem]]:
    """Every active plugin's tools, in plugin order, and a problem for each that cannot say."""
    cwd = options.project_dir or Path.cwd()
    offers: list[ToolOffer] = []
    problems: list[Problem] = []
    for item in result.active:
        if "register_tools" not in item.hooks:
            continue
        settings = options.settings.get(item.name, {})
        context = ListingContext(item.name, cwd, settings, options.project_trusted)
        found = _ask(item, result, context, options.import_limit)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            offers += found
    return offers, problems


def _ask(
    item: LoadedPlugin, result: LoadResult, context: ListingContext, limit: float
) -> list[ToolOffer] | Problem:
    from unipi_hookspecs import Tool

    def run() -> list[ToolOffer]:
        offers: list[ToolOffer] = []
        for implementation in result.manager.hook.register_tools.get_hookimpls():
            if implementation.plugin_name != item.name:
                continue
            tools: object = implementation.function(*([context] * len(implementation.argnames)))
            if tools is None:
                continue
            if not isinstance(tools, list | tuple):
                raise TypeError(f"it returned a {type(tools).__name__}, not a list of tools")
            for tool in tools:
                if not isinstance(tool, Tool):
                    raise TypeError(f"it returned a {type(tool).__name__} among its tools")
                offers.append((item.name, item.distribution, item.version, tool))
        return offers

    outcome = contained(run, limit=limit, name=item.name)
    if outcome.value is not None:
        return outcome.value
    error = outcome.error or RuntimeError("nothing came back")
    shown = failure(item)
    text = shown.message.partition(" was not loaded: ")[0]
    return Problem(
        "register_tools",
        f"{text} could not say its tools: {cause(error)}.",
        (item.name,),
        shown.distributions,
    )
