"""What loading plugins takes and gives, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import converters, field, frozen

from .text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pluggy

    from unipi_hookspecs import JSON, Manifest

PluginState: TypeAlias = Literal[
    "active", "disabled", "blocked", "incompatible", "failed", "skipped"
]
Stage: TypeAlias = Literal["metadata", "import", "manifest", "validate", "order", "register"]

WARNINGS = frozenset({"slow", "unknown_hook", "untrusted", "name"})
"""Kinds of problem that are told and never fatal, `strict` or not."""


class LoadError(Exception):
    """Loading failed under `strict`; the text is that of the problems, one a line."""


@frozen
class LoadOptions:
    """Where plugins come from, and which of them may load.

    `paths` are single `.py` files and package folders given by hand (`-e`). `allow`, when not None,
    names the only third-party plugins that load; `deny` names those that do not. `builtins` are
    the host's own plugins as (name, object); those in `essential` cannot be denied.
    `required` names plugins the user will not go without. `import_limit` is in seconds, a plugin.
    `settings` maps a plugin's name to its settings.
    """

    entry_points: bool = True
    paths: tuple[Path, ...] = ()
    project_dir: Path | None = None
    user_dir: Path | None = None
    project_trusted: bool = False
    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    strict: bool = False
    import_limit: float = 10.0
    builtins: tuple[tuple[str, object], ...] = ()
    essential: frozenset[str] = frozenset()
    settings: Mapping[str, Mapping[str, JSON]] = field(factory=dict)


@frozen
class LoadedPlugin:
    """One plugin and how it ended.

    `position` counts from 1 and is set for active plugins alone. `source` is the entry point's
    text, the file's path, or `built-in`. `stage` says where a failed plugin failed; `reason` is one
    line for people. `load_ms` covers import, manifest and validation.
    """

    name: str
    manifest: Manifest
    distribution: str | None
    version: str | None
    source: str = field(converter=printable)
    state: PluginState
    position: int | None = None
    hooks: tuple[str, ...] = ()
    stage: Stage | None = None
    reason: str | None = field(default=None, converter=converters.optional(printable))
    load_ms: float = 0.0
    plugin: object | None = field(default=None, repr=False)


@frozen
class Problem:
    """One thing that went wrong, in one message: who is involved, what happens now, the way out.

    `kind` is a short stable word; `plugins` are names, `distributions` read `name version`.
    """

    kind: str
    message: str = field(converter=printable)
    plugins: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()

    @property
    def fatal(self) -> bool:
        """Whether `strict` stops on it."""
        return self.kind not in WARNINGS


@frozen
class MissingRequired:
    """A plugin that the user requires and that is not active; no tool call may run without it."""

    name: str
    reason: str = field(converter=printable)


@frozen
class LoadResult:
    """The plugins (active ones first, in order, then the others by name) and what went wrong.

    `manager` holds the active ones, registered in order under their names.
    """

    plugins: tuple[LoadedPlugin, ...]
    problems: tuple[Problem, ...]
    manager: pluggy.PluginManager = field(repr=False)
    missing_required: tuple[MissingRequired, ...] = ()

    @property
    def active(self) -> tuple[LoadedPlugin, ...]:
        """The active plugins, in order."""
        return tuple(item for item in self.plugins if item.state == "active")
