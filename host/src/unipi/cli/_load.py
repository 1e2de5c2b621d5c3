"""Settings, plugins and models for a command, with errors a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.cli._output import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unipi.agent import CompactionOptions, Host
    from unipi.agent.cache_ttl import CacheTtl
    from unipi.hooks import Failure
    from unipi.loader.settings import Settings
    from unipi.prefix.guard import PrefixPolicy
    from unipi_hookspecs import Model


def load_host(
    cwd: Path,
    *,
    paths: Sequence[Path] = (),
    deny: Sequence[str] = (),
    strict: bool = False,
    report: Callable[[Failure], None] | None = None,
) -> tuple[Host, Settings]:
    """Read the settings and load the plugins, or exit with a message."""
    from unipi.agent.host import prepare_host
    from unipi.builtin import ESSENTIAL, builtin_plugins
    from unipi.loader import LoadError
    from unipi.loader.paths import user_dir
    from unipi.loader.settings import SettingsError, load_options, load_settings
    from unipi.providers import ModelsFileError

    home = user_dir()
    try:
        settings = load_settings(home, cwd)
        options = load_options(
            settings,
            user_dir=home,
            project_dir=cwd,
            paths=paths,
            deny=deny,
            strict=strict,
            builtins=builtin_plugins(),
            essential=ESSENTIAL,
        )
        host = prepare_host(
            cwd,
            options,
            override_tools=settings.override_tools,
            models_file=home / "models.json",
            report=report,
        )
    except (SettingsError, ModelsFileError) as error:
        fail(str(error), 2)
    except LoadError as error:
        fail(str(error).replace("\n", "\nunipi: "))
    return host, settings


def compaction_options(settings: Settings) -> CompactionOptions:
    """The setting `compaction`, `{"enabled", "reserve_tokens", "keep_recent_tokens"}`, or exit."""
    from unipi.agent import CompactionOptions

    value = settings.values.get("compaction", {})
    names = {"enabled": "enabled", "reserve_tokens": "reserve", "keep_recent_tokens": "keep"}
    if not isinstance(value, dict) or not set(value) <= set(names):
        fail(f"settings.json: `compaction` must be an object with {', '.join(names)}", 2)
    chosen: dict[str, int] = {}
    for name, number in value.items():
        good = isinstance(number, bool) == (name == "enabled") and isinstance(number, int)
        if not good or number < 0:
            kind = "true or false" if name == "enabled" else "a number of tokens"
            fail(f"settings.json: `compaction.{name}` must be {kind}", 2)
        chosen[names[name]] = number
    return CompactionOptions(**chosen)  # type: ignore[arg-type]  # checked just above


def cache_ttl(settings: Settings) -> CacheTtl:
    """The setting `cache_ttl`: "5m", "1h", "24h" or "auto"; or exit."""
    value = settings.values.get("cache_ttl", "5m")
    if value not in ("5m", "1h", "24h", "auto"):
        fail('settings.json: `cache_ttl` must be "5m", "1h", "24h" or "auto"', 2)
    return value


def keep_warm_pings(settings: Settings) -> int:
    """The setting `keep_warm`: how many pings a pause at the prompt may cost; or exit."""
    value = settings.values.get("keep_warm", 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        fail("settings.json: `keep_warm` must be a number of pings, 0 for none", 2)
    return value


def prefix_policy(settings: Settings) -> PrefixPolicy:
    """The setting `prefix_policy`: "enforce", "record" or "off"; or exit."""
    value = settings.values.get("prefix_policy", "enforce")
    if value not in ("enforce", "record", "off"):
        fail('settings.json: `prefix_policy` must be "enforce", "record" or "off"', 2)
    return value


def choose_model(host: Host, settings: Settings, name: str | None) -> Model:
    """The model of `--model`, else of the settings, or exit saying how to choose one."""
    from unipi.providers import ModelError, find_model

    wanted = name or settings.values.get("default_model")
    if not isinstance(wanted, str) or not wanted:
        fail("no model: say --model provider/id, or set `default_model` in settings.json", 2)
    try:
        return find_model(wanted, host.models)
    except ModelError as error:
        fail(str(error), 2)
