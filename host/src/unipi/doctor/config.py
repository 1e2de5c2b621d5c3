"""The files that a run would read, and the keys that it would need."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from attrs import define, field

from unipi.loader.paths import user_dir
from unipi.loader.settings import FILE, Settings, SettingsError, load_settings
from unipi.providers import ModelError, ModelsFileError, find_model, load_models
from unipi.providers.secrets import KEYRING
from unipi_hookspecs import Check, CheckResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unipi_hookspecs import Model


@define
class Found:
    """What the checks learn on their way, for those that come after them."""

    cwd: Path
    home: Path = field(factory=user_dir)
    settings: Settings = field(factory=Settings)

    @property
    def models_file(self) -> Path:
        return self.home / "models.json"


def checks(found: Found) -> Sequence[Check]:
    """Settings and models, from the very files that a run reads."""
    return [
        Check("settings", lambda: _settings(found), "correct the file; an empty one is good too"),
        Check("models", lambda: _models(found), "correct the file, or move it away"),
    ]


def key_checks(found: Found, models: Mapping[str, Model]) -> Sequence[Check]:
    """Whether there is a model to run, and where keys are; no key is read aloud or asked for."""
    return [
        Check("default model", lambda: _default(found, models), "see `unipi models list`"),
        Check(
            "provider keys", lambda: _keys(models), "set the variable of a provider that you use"
        ),
    ]


def _settings(found: Found) -> CheckResult:
    project = found.cwd / ".unipi" / FILE
    try:
        found.settings = load_settings(found.home)
        trusted = found.settings.trusts(found.cwd)
        found.settings = load_settings(found.home, found.cwd, trusted)
    except SettingsError as error:
        return CheckResult("failed", str(error))
    told = [_told(found.home / FILE)]
    if project.exists():
        told.append(f"{project} read" if trusted else f"{project} not read: not trusted")
    return _writable(found.home / FILE, "; ".join(told))


def _models(found: Found) -> CheckResult:
    try:
        models = load_models(found.models_file)
    except ModelsFileError as error:
        return CheckResult("failed", str(error))
    return _writable(found.models_file, f"{_told(found.models_file)}; {len(models)} models known")


def _told(path: Path) -> str:
    return f"{path} read" if path.exists() else f"{path} is not there"


def _writable(path: Path, detail: str) -> CheckResult:
    """A warning where others may write what decides which code runs here and who is told keys."""
    for each in (path, path.parent):
        try:
            mode = each.stat().st_mode
        except OSError:
            continue
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            return CheckResult(
                "warning", f"{each} can be written by other users", f"chmod go-w {each}"
            )
    return CheckResult("ok", detail)


def _default(found: Found, models: Mapping[str, Model]) -> CheckResult:
    wanted = found.settings.values.get("default_model")
    if wanted is None:
        way = "say --model provider/id in each run, or set `default_model` in settings.json"
        return CheckResult("warning", "no default model is set", way)
    if not isinstance(wanted, str):
        return CheckResult("failed", "settings.json: `default_model` must be a string")
    try:
        model = find_model(wanted, models)
    except ModelError as error:
        return CheckResult("failed", f"settings.json, `default_model`: {error}")
    state = _source(model)
    if state is None:
        return CheckResult(
            "failed",
            f"{wanted}: the environment variable {model.api_key_env} is not set",
            f"set {model.api_key_env}, or give the provider another api_key_env in models.json",
        )
    return CheckResult("ok", f"{wanted} ({state})")


def _keys(models: Mapping[str, Model]) -> CheckResult:
    sources = {model.provider: _source(model) for model in models.values()}
    there = [f"{name}: {state}" for name, state in sources.items() if state is not None]
    absent = [name for name, state in sources.items() if state is None]
    detail = "; ".join(there + ([f"no key: {', '.join(absent)}"] if absent else []))
    # Nobody has keys for all; having one for none is worth a word.
    return CheckResult("ok" if there or not absent else "warning", detail)


def _source(model: Model) -> str | None:
    """Where a model's key comes from; None when it would come from a variable that is not set.

    Neither a command nor a keyring is asked: both may ask the user in turn.
    """
    source = model.api_key_env
    if not source:
        return "needs no key"
    if source.startswith("!"):
        return "a command, not run"
    if source.startswith(KEYRING):
        from importlib.util import find_spec

        return "a keyring, not asked" if find_spec("keyring") else "install unipi[keyring]"
    return f"{source} is set" if os.environ.get(source, "").strip() else None
