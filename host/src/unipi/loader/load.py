"""Finding plugins, checking them, putting them in order, and registering them.

One bad plugin costs itself: each ends in exactly one state, with a message that names it, and the
others load.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from attrs import evolve

from .candidates import Candidate, label, shown_distribution, way_out
from .examine import examine, unfinished
from .gather import find
from .order import node, order, utf16_key
from .text import cause
from .values import LoadedPlugin, LoadError, LoadResult, MissingRequired, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pluggy

    from .values import LoadOptions, PluginState, Stage


def load_plugins(options: LoadOptions) -> LoadResult:
    """Load the plugins that the options name, in their one order.

    Never raises for a bad plugin, unless `options.strict`: then `LoadError`, with the text of all
    problems. May be called again: files are executed anew, and nothing is registered twice.
    """
    importlib.invalidate_caches()
    candidates, problems = find(options)
    items, found = _import_all(candidates, options)
    problems += found
    items, found = _block_unmet(_block_duplicates(items, problems))
    problems += found
    items, manager, found = _register(items)
    problems += found
    missing, found = _required(items, options)
    problems += found
    result = LoadResult(_sorted(items), tuple(problems), manager, missing)
    fatal = [problem.message for problem in problems if problem.fatal]
    if options.strict and fatal:
        raise LoadError("\n".join(fatal))
    return result


def _import_all(
    candidates: Sequence[Candidate], options: LoadOptions
) -> tuple[list[LoadedPlugin], list[Problem]]:
    items: list[LoadedPlugin] = []
    problems: list[Problem] = []
    for candidate in candidates:
        if candidate.target is None:
            items.append(unfinished(candidate))
            if candidate.stage is not None:
                problems.append(failure(items[-1]))
            continue
        item, found = examine(candidate, options)
        items.append(item)
        problems += found
        if item.state in ("failed", "incompatible"):
            problems.append(failure(item))
    return items, problems


def failure(item: LoadedPlugin) -> Problem:
    """The one message about a plugin that did not load."""
    shown = shown_distribution(item.distribution, item.version)
    name = label(item.name, shown, item.source)
    text = f"{name} was not loaded: {item.reason}."
    if item.stage != "metadata" and item.state == "failed":
        text += f" Repair it, {way_out(item)}."
    return Problem(item.stage or item.state, text, (item.name,), (shown,) if shown else ())


def _block_duplicates(items: Sequence[LoadedPlugin], problems: list[Problem]) -> list[LoadedPlugin]:
    """Manifests may give one name to two plugins, and two entry points may name one object."""
    owners: dict[str, LoadedPlugin] = {}
    objects: dict[int, LoadedPlugin] = {}
    kept: list[LoadedPlugin] = []
    for item in items:
        if item.state == "active":
            owner = owners.setdefault(item.name, item)
            twin = objects.setdefault(id(item.plugin), item)
            if owner is not item or twin is not item:
                first = owner if owner is not item else twin
                problem = _same(first, item)
                problems.append(problem)
                item = _stopped(item, "blocked", problem.message)
        kept.append(item)
    return kept


def _same(owner: LoadedPlugin, loser: LoadedPlugin) -> Problem:
    what = "two plugins have one name" if owner.name == loser.name else "two plugins are one object"
    text = f"{what}: {_label(owner)} loads, {_label(loser)} does not. Rename or remove one."
    names = tuple(dict.fromkeys((owner.name, loser.name)))
    return Problem("duplicate_name", text, names, _shown(owner, loser))


def _block_unmet(
    items: Sequence[LoadedPlugin],
) -> tuple[list[LoadedPlugin], list[Problem]]:
    """Block what requires a plugin that is not active, and what requires that, to the end."""
    problems: list[Problem] = []
    current = list(items)
    while True:
        states = {item.name: item for item in current if item.state != "active"}
        active = {item.name for item in current if item.state == "active"}
        changed = False
        for index, item in enumerate(current):
            unmet = [name for name in item.manifest.requires if name not in active]
            if item.state != "active" or not unmet:
                continue
            problem = _unmet(item, unmet, states)
            problems.append(problem)
            current[index] = _stopped(item, "blocked", problem.message)
            changed = True
        if not changed:
            return current, problems


def _unmet(item: LoadedPlugin, unmet: Sequence[str], states: Mapping[str, LoadedPlugin]) -> Problem:
    listed = ", ".join(
        f"{name!r} ({states[name].state if name in states else 'not installed'})" for name in unmet
    )
    text = (
        f"{_label(item)} was not loaded: it requires {listed}. Install or enable what it"
        f" requires, {way_out(item)}."
    )
    return Problem("requires", text, (item.name, *unmet), _shown(item))


def _register(
    items: Sequence[LoadedPlugin],
) -> tuple[list[LoadedPlugin], pluggy.PluginManager, list[Problem]]:
    """Order the active plugins and register them; start over without one that will not go in."""
    current = list(items)
    refused: list[Problem] = []
    while True:
        ordered, found = _ordered(current)
        manager = _manager()
        broken = _register_each(manager, ordered)
        if broken is None:
            rest = [item for item in current if item.state != "active"]
            placed = [evolve(item, position=place) for place, item in enumerate(ordered, 1)]
            return placed + rest, manager, refused + found
        current = [broken if item.name == broken.name else item for item in ordered] + [
            item for item in current if item.state != "active"
        ]
        current, unmet = _block_unmet(current)
        refused += [failure(broken), *unmet]


def _register_each(
    manager: pluggy.PluginManager, ordered: Sequence[LoadedPlugin]
) -> LoadedPlugin | None:
    for item in ordered:
        try:
            manager.register(item.plugin, item.name)
        except Exception as error:  # noqa: BLE001 - a plugin's own attributes may raise anything
            return _stopped(item, "failed", cause(error), stage="register")
    return None


def _manager() -> pluggy.PluginManager:
    import pluggy

    from unipi_hookspecs import PROJECT_NAME, _specs

    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(_specs)
    return manager


def _ordered(items: Sequence[LoadedPlugin]) -> tuple[list[LoadedPlugin], list[Problem]]:
    active = {item.name: item for item in items if item.state == "active"}
    absent = {item.name: item.state for item in items if item.state != "active"}
    nodes = [
        node(
            item.manifest,
            builtin=item.source == "built-in",
            distribution=shown_distribution(item.distribution, item.version),
            label=_label(item),
        )
        for item in active.values()
    ]
    names, problems = order(nodes, absent)
    return [active[name] for name in names], problems


def _required(
    items: Sequence[LoadedPlugin], options: LoadOptions
) -> tuple[tuple[MissingRequired, ...], list[Problem]]:
    active = {item.name for item in items if item.state == "active"}
    ended = {item.name: item for item in items if item.state != "active"}
    missing: list[MissingRequired] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(options.required):
        if name in active:
            continue
        item = ended.get(name)
        how = f"is {item.state} ({item.reason})" if item else "is not installed"
        text = (
            f"the required plugin {name!r} {how}; tool calls are blocked without it. Install or"
            f" repair it, or take {name!r} out of `required_plugins` in the settings."
        )
        missing.append(MissingRequired(name, text))
        problems.append(Problem("required", text, (name,), _shown(item) if item else ()))
    return tuple(missing), problems


def _stopped(
    item: LoadedPlugin, state: PluginState, reason: str, *, stage: Stage | None = None
) -> LoadedPlugin:
    return evolve(item, state=state, reason=reason, stage=stage, plugin=None, hooks=())


def _sorted(items: Sequence[LoadedPlugin]) -> tuple[LoadedPlugin, ...]:
    active = [item for item in items if item.state == "active"]
    others = [item for item in items if item.state != "active"]
    others.sort(key=lambda item: (utf16_key(item.name), utf16_key(item.source)))
    return (*active, *others)


def _label(item: LoadedPlugin) -> str:
    return label(item.name, shown_distribution(item.distribution, item.version), item.source)


def _shown(*items: LoadedPlugin) -> tuple[str, ...]:
    found = (shown_distribution(item.distribution, item.version) for item in items)
    return tuple(dict.fromkeys(text for text in found if text))
