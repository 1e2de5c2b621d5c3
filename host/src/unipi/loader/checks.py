"""What a plugin object must be: a manifest that fits this host, and hooks that fit their specs."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING

from attrs import define, frozen

from .order import utf16_key
from .text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pluggy

    from unipi_hookspecs import JSON, Manifest

    from .values import PluginState, Stage


class RefusedError(Exception):
    """A plugin is not fit to load; the text says why and how to put it right."""

    def __init__(self, reason: str, state: PluginState = "failed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.state = state


@define
class Progress:
    """How far a plugin has come, and what is known of it when it comes no further."""

    stage: Stage = "import"
    manifest: Manifest | None = None


@frozen
class Checked:
    """A plugin that may be registered. `unknown` are hooks that this host does not have."""

    plugin: object
    manifest: Manifest
    hooks: tuple[str, ...]
    unknown: tuple[str, ...]


def check(
    plugin: object,
    *,
    name: str,
    settings: Mapping[str, Mapping[str, JSON]],
    progress: Progress,
) -> Checked:
    """Read the manifest and the hooks of a plugin, in this order, and check both.

    `name` is the manifest's default. Raises `RefusedError`, and whatever the plugin's own
    attributes raise; `progress` then tells the stage.
    """
    progress.stage = "manifest"
    manifest = progress.manifest = _manifest(plugin, name)
    _check_compatible(manifest)
    progress.stage = "validate"
    _check_settings(manifest, settings.get(manifest.name))
    hooks, unknown = _hooks(plugin, manifest.name)
    return Checked(plugin, manifest, hooks, unknown)


def _manifest(plugin: object, name: str) -> Manifest:
    from unipi_hookspecs import Manifest

    found: object = getattr(plugin, "manifest", None)
    if found is None:
        try:
            return Manifest(name=name)
        except ValueError as error:
            raise RefusedError(f"{one_line(error)}; give it a `manifest` with another") from None
    if not isinstance(found, Manifest):
        kind = "a function" if callable(found) else f"a {type(found).__name__}"
        raise RefusedError(
            f"`manifest` is {kind}; it must be a value: manifest = Manifest(name={name!r}), with"
            " Manifest from unipi_hookspecs"
        )
    _check_fields(found)
    return found


def _check_fields(manifest: Manifest) -> None:
    # attrs does not check types, and what is wrong here would fail much later and elsewhere.
    api: object = manifest.api
    if not isinstance(api, int) or isinstance(api, bool) or api < 1:
        raise RefusedError(f"`api` is {api!r}; it must be a whole number from 1, such as api=1")
    for field in ("before", "after", "requires"):
        names: Sequence[object] = getattr(manifest, field)
        for name in names:
            if not isinstance(name, str):
                raise RefusedError(f"`{field}` holds {one_line(repr(name))}; it must hold names")
    host: object = manifest.host
    if host is not None and not isinstance(host, str):
        raise RefusedError(f"`host` is {one_line(repr(host))}; it must be text like '>=0.1,<1'")


def _check_compatible(manifest: Manifest) -> None:
    from unipi import __version__
    from unipi_hookspecs import API_VERSION

    if manifest.api > API_VERSION:
        raise RefusedError(
            f"it needs hook API {manifest.api} and this host (unipi {__version__}) has hook API"
            f" {API_VERSION}; upgrade unipi, or install an older version of the plugin",
            "incompatible",
        )
    if manifest.host is None or _plainly_within(__version__, manifest.host):
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        wanted = SpecifierSet(manifest.host)
    except InvalidSpecifier:
        raise RefusedError(
            f"`host` is {one_line(manifest.host)!r}, which is no version range; write it like"
            " '>=0.1,<1'"
        ) from None
    if not wanted.contains(__version__, prereleases=True):
        raise RefusedError(
            f"it needs unipi {manifest.host} and this is unipi {__version__}; install a version"
            " of the one that fits the other",
            "incompatible",
        )


_CLAUSE = re.compile(r"\s*(>=|<)\s*([0-9]+(?:\.[0-9]+)*)\s*")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def _plainly_within(version: str, wanted: str) -> bool:
    """A quick yes for ranges such as `>=0.1,<0.2`: importing `packaging` takes a start's 6 ms.

    Whatever is not plainly within is packaging's to judge and to explain.
    """
    if not _RELEASE.fullmatch(version):
        return False
    own = _release(version)
    for clause in wanted.split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            return False
        limit = _release(match[2])
        if not (own >= limit if match[1] == ">=" else own < limit):
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()  # 1.0 is 1 (PEP 440)
    return tuple(numbers)


def _check_settings(manifest: Manifest, settings: Mapping[str, JSON] | None) -> None:
    schema = manifest.settings_schema
    if schema is None or (settings is None and "required" not in schema):
        return
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, best_match

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise RefusedError(f"its `settings_schema` is no JSON Schema: {error.message}") from None
    worst = best_match(Draft202012Validator(schema).iter_errors(settings or {}))
    if worst is not None:
        key = ".".join(["plugins", manifest.name, *(str(part) for part in worst.absolute_path)])
        raise RefusedError(f"its setting `{key}` is wrong: {one_line(worst.message)}")


def _hooks(plugin: object, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    import pluggy

    from unipi_hookspecs import POLICIES, PROJECT_NAME

    # A manager without specs takes every implementation as it is, so that it can be looked at
    # through pluggy's documented surface and refused in words that help.
    scratch = pluggy.PluginManager(PROJECT_NAME)
    scratch.register(plugin, name)
    known: list[str] = []
    unknown: list[str] = []
    for caller in scratch.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls():
            if caller.name in POLICIES:
                _check_implementation(caller.name, implementation)
                known.append(caller.name)
            elif not implementation.optionalhook:
                unknown.append(caller.name)
    if not known:
        raise RefusedError(_no_hooks(plugin, unknown))
    return tuple(sorted(set(known), key=utf16_key)), tuple(sorted(set(unknown), key=utf16_key))


def _no_hooks(plugin: object, unknown: Sequence[str]) -> str:
    from unipi_hookspecs import POLICIES

    if unknown:
        return "it has no hooks that this host knows: " + ", ".join(map(suggest, sorted(unknown)))
    # Looked up in the instance's and the class's own names, so that nothing of it is run.
    names = {*getattr(plugin, "__dict__", ()), *dir(type(plugin))}
    unmarked = sorted(names & POLICIES.keys())
    if unmarked:
        return f"it has no hooks: {', '.join(unmarked)} is there but lacks the @hookimpl mark"
    return "it has no hooks: no function in it carries the @hookimpl mark"


def suggest(hook: str) -> str:
    """An unknown hook, with the known one it may be meant for."""
    import difflib

    from unipi_hookspecs import POLICIES

    near = difflib.get_close_matches(hook, POLICIES, n=1)
    return f"{hook} (did you mean {near[0]}?)" if near else hook


def _check_implementation(hook: str, implementation: pluggy.HookImpl) -> None:
    from unipi_hookspecs import POLICIES

    given = spec_arguments(hook)
    right = f"{hook}({', '.join(given)})"
    function = implementation.function
    if implementation.wrapper or implementation.hookwrapper:
        raise RefusedError(f"{hook} is a hook wrapper, which this host does not run; write {right}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise RefusedError(f"{hook} has a `yield` in it; write a function that returns: {right}")
    needed = [*implementation.argnames, *_keyword_only(function)]
    wrong = [name for name in needed if name not in given]
    if wrong:
        raise RefusedError(
            f"{hook}({', '.join(needed)}) asks for {', '.join(map(repr, wrong))}, which the hook"
            f" does not give; write {right}, or leave some of these out"
        )
    if _keyword_only(function):
        raise RefusedError(f"{hook} takes arguments by keyword only; write {right}")
    if POLICIES[hook].registration and inspect.iscoroutinefunction(function):
        raise RefusedError(f"{hook} is asked before anything runs; write `def {right}`, not async")


@cache  # one entry a hook
def spec_arguments(hook: str) -> tuple[str, ...]:
    """The arguments that a hook gives, in order."""
    from unipi_hookspecs import _specs

    return tuple(inspect.signature(getattr(_specs, hook)).parameters)


def _keyword_only(function: object) -> list[str]:
    if not callable(function):
        return []
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
