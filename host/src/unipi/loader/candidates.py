"""A plugin that was found and not yet imported, and how messages name it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import converters, evolve, field, frozen

from .order import utf16_key
from .text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from .values import LoadedPlugin, PluginState, Stage

Origin: TypeAlias = Literal["built-in", "-e", "installed", "project", "user"]

RANKS: dict[Origin, int] = {"built-in": 0, "-e": 1, "installed": 2, "project": 3, "user": 4}
"""Who keeps a name that two plugins want: the lower rank."""


@frozen
class EntryPointTarget:
    """The right side of an entry point, `module` or `module:attribute`."""

    module: str
    attribute: str = ""


@frozen
class PathTarget:
    """A `.py` file, or the folder of a package; resolved."""

    path: Path


@frozen
class ObjectTarget:
    """A plugin that is already here: the host's own."""

    plugin: object


Target: TypeAlias = EntryPointTarget | PathTarget | ObjectTarget


@frozen
class Candidate:
    """What is known of a plugin before any of its code runs.

    `name` is the entry point's name or the file's stem; the manifest may say another. `where` is
    the place of the distribution's metadata. A candidate without `target` has already ended, in
    `state` at `stage` for `reason`.
    """

    name: str = field(converter=printable)
    origin: Origin
    source: str = field(converter=printable)
    target: Target | None
    distribution: str | None = field(default=None, converter=converters.optional(printable))
    version: str | None = field(default=None, converter=converters.optional(printable))
    where: str | None = None
    state: PluginState = "failed"
    stage: Stage | None = None
    reason: str | None = None

    @property
    def key(self) -> tuple[int, bytes, bytes, bytes]:
        """The order in which candidates are taken; it decides who keeps a name."""
        return (
            RANKS[self.origin],
            utf16_key(self.name),
            utf16_key(self.distribution or ""),
            utf16_key(self.source),
        )

    @property
    def shown(self) -> str | None:
        """The distribution as `name version`."""
        return shown_distribution(self.distribution, self.version)

    @property
    def label(self) -> str:
        """The candidate as messages name it."""
        return label(self.name, self.shown, self.source)

    def ended(self, state: PluginState, reason: str, stage: Stage | None = None) -> Candidate:
        """The same candidate, ended before import."""
        return evolve(self, target=None, state=state, stage=stage, reason=reason)


def shown_distribution(name: str | None, version: str | None) -> str | None:
    """`name version`, or None for a plugin that no distribution brought."""
    return f"{name} {version or '(no version)'}" if name else None


def label(name: str, shown: str | None, source: str) -> str:
    """How messages name a plugin: its name, and where it comes from."""
    if shown:
        return f"plugin {name!r} of {shown} ({source})"
    return f"built-in plugin {name!r}" if source == "built-in" else f"plugin {name!r} ({source})"


def way_out(item: Candidate | LoadedPlugin) -> str:
    """What a person can do about a plugin that does not work."""
    disable = f"disable it with `unipi plugins disable {item.name}`"
    if item.distribution:
        return f"{disable}, or remove it with `unipi plugins uninstall {item.name}`"
    return f"or {disable}"


def stem(path: Path) -> str:
    """The name of a plugin file before its manifest is read, composed (NFC) on every platform."""
    return unicodedata.normalize("NFC", path.stem if path.suffix == ".py" else path.name)
