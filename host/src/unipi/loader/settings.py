"""Settings: one JSON file of the user's, and one of a trusted project's.

`settings.json` in the user's folder and `.unipi/settings.json` in the project. Keys read here:

    disabled_plugins   names that do not load
    allowed_plugins    when given, the only third-party plugins that load (user's file alone)
    required_plugins   names without which no tool call runs
    trusted_projects   folders whose plugins and settings may load (user's file alone)
    override_tools     whether a plugin's tool may take a built-in tool's place (user's file alone)
    import_limit       seconds that one plugin may take to import (user's file alone)
    plugins            the settings of each plugin, by its name

Other keys are kept in `values` for whoever reads them.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from attrs import evolve, field, frozen

from .order import utf16_key
from .values import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unipi_hookspecs import JSON

FILE = "settings.json"
_USER_ONLY = ("allowed_plugins", "trusted_projects", "override_tools", "import_limit")


class SettingsError(Exception):
    """A settings file is not what it must be; the text names file, line, key and the way out."""


@frozen
class Settings:
    """What the settings files say, the project's on top of the user's.

    Lists of plugin names add up; of a plugin's own settings the project's win key by key.
    """

    disabled_plugins: frozenset[str] = frozenset()
    allowed_plugins: frozenset[str] | None = None
    required_plugins: tuple[str, ...] = ()
    trusted_projects: tuple[str, ...] = ()
    override_tools: bool = False
    import_limit: float = 10.0
    plugins: Mapping[str, Mapping[str, JSON]] = field(factory=dict)
    values: Mapping[str, JSON] = field(factory=dict)

    def trusts(self, project_dir: Path) -> bool:
        """Whether the user has said that this very folder may bring plugins and settings."""
        here = project_dir.resolve()
        return any(Path(item).expanduser().resolve() == here for item in self.trusted_projects)


def load_settings(
    user_dir: Path, project_dir: Path | None = None, trusted: bool | None = None
) -> Settings:
    """Read the settings; a missing file says nothing.

    `trusted` says whether the project's file counts; None asks the user's `trusted_projects`. An
    untrusted project's file is not even opened. Raises `SettingsError`.
    """
    settings = _parse(user_dir / FILE, Settings(), project=False)
    if project_dir is None:
        return settings
    if trusted is None:
        trusted = settings.trusts(project_dir)
    if not trusted:
        return settings
    return _parse(project_dir / ".unipi" / FILE, settings, project=True)


def load_options(
    settings: Settings,
    *,
    user_dir: Path | None = None,
    project_dir: Path | None = None,
    project_trusted: bool | None = None,
    paths: Sequence[Path] = (),
    deny: Iterable[str] = (),
    strict: bool = False,
    builtins: Sequence[tuple[str, object]] = (),
    essential: Iterable[str] = (),
) -> LoadOptions:
    """The loader's options out of the settings and what the command line adds to them."""
    if project_trusted is None:
        project_trusted = project_dir is not None and settings.trusts(project_dir)
    return LoadOptions(
        paths=tuple(paths),
        project_dir=project_dir,
        user_dir=user_dir,
        project_trusted=project_trusted,
        allow=settings.allowed_plugins,
        deny=settings.disabled_plugins | frozenset(deny),
        required=settings.required_plugins,
        strict=strict,
        import_limit=settings.import_limit,
        builtins=tuple(builtins),
        essential=frozenset(essential),
        settings=settings.plugins,
    )


def set_disabled(user_dir: Path, name: str, *, disabled: bool) -> Path:
    """Add a plugin's name to the user's `disabled_plugins`, or take it out; returns the file.

    Everything else in the file stays. The file is replaced in one step, mode 0600. Raises
    `SettingsError` when the file there cannot be read.
    """
    # Through a link, so that a settings file kept elsewhere stays there.
    path = (user_dir / FILE).resolve()
    source = _Source(path, _text(path))
    content = dict(source.content())
    names = set(source.names(content, "disabled_plugins") or ())
    names = names | {name} if disabled else names - {name}
    listed: list[str] = sorted(names, key=utf16_key)
    content["disabled_plugins"] = listed
    _replace(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
    return path


def _replace(path: Path, text: str) -> None:
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp makes the file 0600 from the start.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".settings-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None


def _parse(path: Path, base: Settings, *, project: bool) -> Settings:
    source = _Source(path, _text(path))
    content = source.content()
    if project:
        for key in _USER_ONLY:
            if key in content:
                source.fail(key, "may stand in the user's settings only; take it out of this file")
    plugins = {name: dict(values) for name, values in base.plugins.items()}
    for name, values in source.plugins(content).items():
        plugins.setdefault(name, {}).update(values)
    required = source.names(content, "required_plugins") or ()
    known = {"disabled_plugins", "required_plugins", "plugins", *_USER_ONLY}
    merged = evolve(
        base,
        disabled_plugins=base.disabled_plugins
        | frozenset(source.names(content, "disabled_plugins") or ()),
        required_plugins=tuple(dict.fromkeys((*base.required_plugins, *required))),
        plugins=plugins,
        values={**base.values, **{k: v for k, v in content.items() if k not in known}},
    )
    return merged if project else _user_only(source, content, merged)


def _user_only(source: _Source, content: Mapping[str, JSON], base: Settings) -> Settings:
    allowed = source.names(content, "allowed_plugins")
    limit = content.get("import_limit", base.import_limit)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= 600:
        source.fail("import_limit", "must be a number of seconds above 0 and up to 600")
    override = content.get("override_tools", base.override_tools)
    if not isinstance(override, bool):
        source.fail("override_tools", "must be true or false")
    return evolve(
        base,
        allowed_plugins=None if allowed is None else frozenset(allowed),
        trusted_projects=tuple(source.names(content, "trusted_projects") or ()),
        import_limit=float(limit),
        override_tools=override,
    )


@frozen
class _Source:
    """A settings file's text, and how to complain about it."""

    path: Path
    text: str

    def content(self) -> Mapping[str, JSON]:
        """The object in the file; an empty file is an empty object."""
        if not self.text.strip():
            return {}
        try:
            content: object = json.loads(
                self.text, object_pairs_hook=self._unique, parse_constant=self._no_constant
            )
        except json.JSONDecodeError as error:
            raise SettingsError(
                f"{self.path}, line {error.lineno}, column {error.colno}: no JSON: {error.msg}"
            ) from None
        except RecursionError:
            raise SettingsError(f"{self.path}: nested too deeply") from None
        if not isinstance(content, dict):
            raise SettingsError(f"{self.path}: must hold one JSON object, like {{}}")
        return cast("Mapping[str, JSON]", content)

    def names(self, content: Mapping[str, JSON], key: str) -> list[str] | None:
        """A list of strings, or None when the key is absent or null."""
        value = content.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(key, 'must be a list of strings, like ["name"]')
        return cast("list[str]", value)

    def plugins(self, content: Mapping[str, JSON]) -> Mapping[str, Mapping[str, JSON]]:
        """The settings of each plugin."""
        value = content.get("plugins", {})
        if not isinstance(value, dict):
            self.fail("plugins", 'must be an object of objects, like {"name": {"key": 1}}')
        for name, values in value.items():
            if not isinstance(values, dict):
                self.fail(f"plugins.{name}", "must be an object of that plugin's settings")
        return cast("Mapping[str, Mapping[str, JSON]]", value)

    def fail(self, key: str, must: str) -> NoReturn:
        """Raise the error about one key, with the line it stands on."""
        quoted = json.dumps(key.rpartition(".")[2], ensure_ascii=False)
        before, found, _ = self.text.partition(quoted)
        line = f", line {before.count(chr(10)) + 1}" if found else ""
        raise SettingsError(f"{self.path}{line}: `{key}` {must}")

    def _unique(self, pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                self.fail(key, "stands there twice; keep one")
            found[key] = value
        return found

    def _no_constant(self, name: str) -> NoReturn:
        raise SettingsError(f"{self.path}: {name} is not JSON; write a number or null")
