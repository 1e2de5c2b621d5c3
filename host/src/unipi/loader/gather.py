"""Everything that could load, before any of it is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import discover, files
from .candidates import Candidate, ObjectTarget, Origin
from .values import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .values import LoadOptions


def find(options: LoadOptions) -> tuple[list[Candidate], list[Problem]]:
    """What there is to load, in the order in which names are given; nothing is imported.

    What may not load has ended already: disabled, untrusted, or losing its name to another.
    """
    candidates = [
        Candidate(name, "built-in", "built-in", ObjectTarget(plugin))
        for name, plugin in options.builtins
    ]
    candidates += files.by_path(options.paths)
    problems: list[Problem] = []
    if options.entry_points:
        found, problems = discover.installed()
        candidates += found
    in_project, more = files.in_project(options)
    candidates += in_project + files.in_user_dir(options)
    candidates = _each_file_once(sorted(candidates, key=lambda item: item.key))
    problems += more
    return _claim_names(_allowed(candidates, options, problems), problems), problems


def _each_file_once(candidates: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    seen: set[object] = set()
    for item in candidates:
        path = getattr(item.target, "path", None)
        if path is None or path not in seen:
            kept.append(item)
            seen.add(path)
    return kept


def _allowed(
    candidates: Sequence[Candidate], options: LoadOptions, problems: list[Problem]
) -> list[Candidate]:
    kept: list[Candidate] = []
    for item in candidates:
        reason = disabled_reason(item.name, item.origin, options)
        if item.name in options.deny & options.essential and item.origin == "built-in":
            text = f"{item.label} is essential and stays: the host does not work without it."
            problems.append(Problem("essential", text, (item.name,)))
        kept.append(item.ended("disabled", reason) if reason and item.target else item)
    return kept


def disabled_reason(name: str, origin: Origin, options: LoadOptions) -> str | None:
    """Why the options keep a plugin from loading, or None. `allow` speaks of third parties."""
    builtin = origin == "built-in"
    if builtin and name in options.essential:
        return None
    if name in options.deny:
        return "disabled by --no-plugin or the settings; `unipi plugins enable NAME` takes the latter back"
    if options.allow is not None and not builtin and name not in options.allow:
        return "not among the allowed plugins"
    return None


def _claim_names(candidates: Sequence[Candidate], problems: list[Problem]) -> list[Candidate]:
    """Give each name to the first who wants it; the others are not even imported."""
    owners: dict[str, Candidate] = {}
    kept: list[Candidate] = []
    for item in candidates:
        if item.target is None:
            kept.append(item)
            continue
        owner = owners.setdefault(item.name, item)
        if owner is not item:
            problem = _duplicate(item.name, owner, item)
            problems.append(problem)
            item = item.ended("blocked", problem.message)
        kept.append(item)
    return kept


def _duplicate(name: str, owner: Candidate, loser: Candidate) -> Problem:
    if owner.origin == loser.origin:
        rule = "of two from the same kind of place the first by distribution and source loads"
    else:
        rule = (
            "built-in comes before -e, -e before installed, installed before the project's and"
            " the user's files"
        )
    text = (
        f"two plugins are called {name!r}: {owner.label} loads, {loser.label} does not ({rule})."
        " Rename or remove one."
    )
    shown = tuple(d for d in (owner.shown, loser.shown) if d)
    return Problem("duplicate_name", text, (name,), shown)
