"""Installed plugins, from the metadata of distributions alone: nothing is imported.

The entry-point files are read here rather than through `EntryPoint` objects, because one malformed
line or one half-removed distribution must be named and must not hide the others.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from attrs import frozen

from .candidates import Candidate, EntryPointTarget, shown_distribution
from .order import utf16_key
from .text import one_line
from .values import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import Distribution

GROUP = "unipi.plugins"

# The object reference of the packaging guide's entry-points page; extras are deprecated there and
# accepted here without effect.
_REFERENCE = re.compile(r"([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\])?\s*\Z")


@frozen
class _Found:
    """One distribution that has entry points of ours, at one place."""

    name: str
    version: str | None
    where: str
    real: str
    has_metadata: bool
    lines: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name as packaging normalises it (PEP 503)."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    @property
    def freshness(self) -> tuple[bool, list[int], str]:
        """Which of two left in one folder counts: one with METADATA, then the higher version."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version or "")]
        return (self.has_metadata, numbers, self.where)


def installed() -> tuple[list[Candidate], list[Problem]]:
    """The plugins that installed distributions offer, each distribution once."""
    from importlib.metadata import distributions

    found: dict[str, list[_Found]] = {}
    problems: list[Problem] = []
    for distribution in distributions():
        try:
            item = _read(distribution)
        except (OSError, ValueError, LookupError) as error:
            problems.append(_unreadable(distribution, error))
            continue
        if item is not None:
            found.setdefault(item.key, []).append(item)
    candidates: list[Candidate] = []
    for key in sorted(found, key=utf16_key):
        chosen, problem = _once(found[key])
        if problem is not None:
            problems.append(problem)
        candidates += _candidates(chosen)
    return candidates, problems


def _read(distribution: Distribution) -> _Found | None:
    text = distribution.read_text("entry_points.txt")
    if not text or GROUP not in text:
        return None
    lines = tuple(_section(text))
    if not lines:
        return None
    where = _where(distribution)
    headers = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO")
    name, version = _from_folder(where)
    if headers:
        name = _header(headers, "Name") or name
        version = _header(headers, "Version") or version
    return _Found(name, version, where, os.path.realpath(where), bool(headers), lines)


def _section(text: str) -> Iterator[str]:
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and line and not line.startswith(("#", ";")):
            yield line


def _header(text: str, name: str) -> str | None:
    # Headers end at the first empty line; a description after it may hold anything.
    match = re.search(rf"^{name}:[ \t]*(\S+)", text.partition("\n\n")[0], re.MULTILINE)
    return match[1] if match else None


def _where(distribution: Distribution) -> str:
    # There is no documented way to the metadata's own folder; without the attribute that every
    # path-based distribution has, the folder that holds the distribution is named instead.
    path: object = getattr(distribution, "_path", None)
    return str(path if path is not None else distribution.locate_file("")).rstrip("/\\")


def _from_folder(where: str) -> tuple[str, str | None]:
    folder = re.sub(r"\.(dist|egg)-info\Z", "", re.split(r"[/\\]", where)[-1])
    name, _, version = folder.partition("-")
    return name, version or None


def _once(items: Sequence[_Found]) -> tuple[_Found, Problem | None]:
    """The one that counts, and a problem when another version of it is on the path too."""
    first_folder = os.path.dirname(items[0].real)  # noqa: PTH120 - may lie inside a zip
    together = [i for i in items if os.path.dirname(i.real) == first_folder]  # noqa: PTH120 - same
    chosen = max(together, key=lambda item: item.freshness)
    others = {i.real: i for i in items if i.real != chosen.real and i.version != chosen.version}
    if not others:
        return chosen, None
    versions = [chosen, *sorted(others.values(), key=lambda item: item.where)]
    listed = "; ".join(f"{i.version or '(no version)'} at {i.where}" for i in versions)
    text = (
        f"{chosen.name} is installed more than once: {listed}. The first on the path counts"
        f" ({chosen.version or '(no version)'}); remove the other."
    )
    names = tuple(item.name for item in _candidates(chosen))
    shown = (shown_distribution(i.name, i.version) or i.name for i in versions)
    return chosen, Problem("duplicate_distribution", text, names, tuple(shown))


def _candidates(item: _Found) -> list[Candidate]:
    return [_candidate(item, line) for line in item.lines]


def _candidate(item: _Found, line: str) -> Candidate:
    name, _, value = (part.strip() for part in line.partition("="))
    match = _REFERENCE.match(value)
    candidate = Candidate(
        name or item.name,
        "installed",
        f"{name} = {value}" if match else one_line(line),
        EntryPointTarget(match[1], match[2] or "") if match else None,
        distribution=item.name,
        version=item.version,
        where=item.where,
    )
    if match and name:
        return candidate
    reason = (
        f"the entry-point line {one_line(line)!r} is not `name = module` or"
        f" `name = module:attribute`; {reinstall(candidate)}"
    )
    return candidate.ended("failed", reason, "metadata")


def reinstall(item: Candidate) -> str:
    """What to do about a distribution whose metadata and files do not agree."""
    return (
        f"the metadata of {item.shown} at {item.where} is stale or damaged: reinstall"
        f" {item.distribution}, or remove it with `unipi plugins uninstall {item.name}`"
    )


def _unreadable(distribution: Distribution, error: Exception) -> Problem:
    where = _where(distribution)
    name, version = _from_folder(where)
    text = (
        f"the metadata of {name} {version or ''} at {where} cannot be read ({one_line(error)});"
        " its plugins, if it has any, are left out. Reinstall or remove it."
    )
    return Problem("metadata", text, (), (f"{name} {version or ''}".strip(),))
