"""One candidate through import, manifest and validation, to its state and reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .candidates import Candidate, EntryPointTarget, PathTarget
from .checks import Checked, Progress, RefusedError, check, suggest
from .discover import reinstall
from .gather import disabled_reason
from .importing import StuckError, load
from .text import cause
from .values import LoadedPlugin, Problem

if TYPE_CHECKING:
    from .values import LoadOptions

SLOW_MS = 1000.0
"""A plugin that takes longer to load is named: every command that loads plugins pays for it."""


def examine(candidate: Candidate, options: LoadOptions) -> tuple[LoadedPlugin, list[Problem]]:
    """Import a candidate and check it: `active` so far, or its end; and remarks about it."""
    assert candidate.target is not None
    progress = Progress()

    def use(plugin: object) -> Checked:
        return check(plugin, name=candidate.name, settings=options.settings, progress=progress)

    outcome = load(candidate.target, limit=options.import_limit, use=use, name=candidate.name)
    checked = outcome.value
    if checked is None:
        error = outcome.error or RuntimeError("nothing was loaded")
        return _refused(candidate, progress, error, outcome.elapsed_ms), []
    reason = disabled_reason(checked.manifest.name, candidate.origin, options)
    item = LoadedPlugin(
        checked.manifest.name,
        checked.manifest,
        candidate.distribution,
        candidate.version,
        candidate.source,
        "disabled" if reason else "active",
        hooks=() if reason else checked.hooks,
        reason=reason,
        load_ms=outcome.elapsed_ms,
        plugin=None if reason else checked.plugin,
    )
    return item, _remarks(item, candidate, checked)


def unfinished(candidate: Candidate) -> LoadedPlugin:
    """A candidate that ended before import."""
    from unipi_hookspecs import Manifest

    # The name of a file or an entry point may be none that a manifest would take.
    name = re.sub(r"\s", "-", "".join(c for c in candidate.name if c.isprintable()))[:128]
    return LoadedPlugin(
        candidate.name,
        Manifest(name=name or "unnamed"),
        candidate.distribution,
        candidate.version,
        candidate.source,
        candidate.state,
        stage=candidate.stage if candidate.state == "failed" else None,
        reason=candidate.reason,
    )


def _refused(
    candidate: Candidate, progress: Progress, error: BaseException, load_ms: float
) -> LoadedPlugin:
    if isinstance(error, RefusedError):
        ended = candidate.ended(error.state, error.reason, progress.stage)
    else:
        ended = candidate.ended("failed", _cause(candidate, error), progress.stage)
    item = unfinished(ended)
    manifest = progress.manifest or item.manifest
    return LoadedPlugin(
        manifest.name if progress.manifest else item.name,
        manifest,
        item.distribution,
        item.version,
        item.source,
        item.state,
        stage=item.stage,
        reason=item.reason,
        load_ms=load_ms,
    )


def _cause(candidate: Candidate, error: BaseException) -> str:
    target = candidate.target
    if isinstance(error, StuckError):
        return f"its import is {error}; it may wait for something, or never end"
    if isinstance(error, SystemExit):
        return f"it ended the process with {cause(error)}; a plugin must not exit"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _module_missing(candidate, error.name)
    if (
        isinstance(error, AttributeError)
        and isinstance(target, EntryPointTarget)
        and target.attribute
        and error.name in target.attribute.split(".")
    ):
        return f"{target.module} has no {error.name!r}; {reinstall(candidate)}"
    if isinstance(error, ImportError) and error.name == "unipi_hookspecs":
        return f"{cause(error)}; it may be written for another version of unipi-hookspecs"
    return cause(error)


def _module_missing(candidate: Candidate, missing: str) -> str:
    target = candidate.target
    if isinstance(target, EntryPointTarget) and f"{target.module}.".startswith(f"{missing}."):
        return f"there is no module {missing!r}; {reinstall(candidate)}"
    if isinstance(target, PathTarget):
        beside = target.path.parent / missing.partition(".")[0]
        if beside == target.path:
            return f"it imports itself as {missing!r}; use relative imports, or install it"
        if beside.with_suffix(".py").is_file():
            return (
                f"it imports {missing!r}, a file beside it; make both a package folder with"
                " relative imports"
            )
    return f"it needs the module {missing!r}, which is not installed"


def _remarks(item: LoadedPlugin, candidate: Candidate, checked: Checked) -> list[Problem]:
    shown = (candidate.shown,) if candidate.shown else ()
    found: list[Problem] = []
    if item.name != candidate.name and candidate.origin == "installed":
        text = (
            f"{candidate.label} calls itself {item.name!r} in its manifest. Disabling {item.name!r}"
            f" works and still imports it; its author should give both one name."
        )
        found.append(Problem("name", text, (item.name, candidate.name), shown))
    if checked.unknown:
        text = (
            f"{candidate.label} has hooks that this host does not know and never calls:"
            f" {', '.join(map(suggest, checked.unknown))}. Its other hooks work."
        )
        found.append(Problem("unknown_hook", text, (item.name,), shown))
    if item.load_ms > SLOW_MS:
        text = f"{candidate.label} took {item.load_ms / 1000:.1f} s to load."
        found.append(Problem("slow", text, (item.name,), shown))
    return found
