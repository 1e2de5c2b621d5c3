"""Loading the plugins as a run would, and asking them for their own checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define

from unipi.agent.host import PlainLoadContext, prepare_host
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.loader.settings import load_options
from unipi.providers import MODELS, ModelsFileError
from unipi_hookspecs import Check, CheckResult

from .report import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unipi.agent.host import Host
    from unipi.hooks import Failure
    from unipi.loader.settings import Settings
    from unipi_hookspecs import Model

    from .config import Found

_FIX = "`unipi plugins list` shows each; `unipi plugins disable NAME` leaves one out"
_LIMIT = 60.0
"""Seconds for all plugins together; the import of each has a limit of its own."""


@define
class Loaded:
    """What loading gave: the models, the plugins' checks, and failures of plugins on the way."""

    models: Mapping[str, Model] = Factory(lambda: MODELS)
    checks: list[tuple[str, Check]] = Factory(list)
    failures: list[Failure] = Factory(list)

    def refused(self) -> list[Finding]:
        """A finding for each plugin whose registration failed."""
        return [
            Finding(each.hook, each.plugin, "failed", str(each), _FIX, each.elapsed_ms)
            for each in self.failures
            if each.kind not in ("slow", "over_budget")
        ]


def check(loaded: Loaded, found: Found, *, paths: Sequence[Path], deny: Sequence[str]) -> Check:
    """The check that fills `loaded`."""

    def run() -> CheckResult:
        options = load_options(
            found.settings,
            user_dir=found.home,
            project_dir=found.cwd,
            paths=paths,
            deny=deny,
            builtins=builtin_plugins(),
            essential=ESSENTIAL,
        )
        files: list[Path | None] = [found.models_file, None]
        for models_file in files:
            try:
                host = prepare_host(
                    found.cwd,
                    options,
                    override_tools=found.settings.override_tools,
                    models_file=models_file,
                    report=loaded.failures.append,
                )
            except ModelsFileError:
                continue  # told by the check of that file; the plugins are looked at all the same
            return _result(loaded, host, found.settings)
        raise AssertionError("without a models file nothing can be wrong with it")

    return Check("plugins", run, _FIX, _LIMIT)


def _result(loaded: Loaded, host: Host, settings: Settings) -> CheckResult:
    loaded.models = host.models
    trusted = settings.trusts(host.cwd)
    loaded.checks += host.hooks.collect_checks(
        lambda name: PlainLoadContext(name, host.cwd, settings.plugins.get(name, {}), trusted)
    )
    names = [item.name for item in host.loaded.active]
    others = [item for item in host.loaded.plugins if item.state != "active"]
    if host.problems:
        worst = any(problem.fatal for problem in host.problems)
        told = " ".join(problem.message for problem in host.problems)
        return CheckResult("failed" if worst else "warning", told)
    detail = f"{len(names)} active: {', '.join(names)}"
    if others:
        detail += "; " + ", ".join(f"{item.name} is {item.state}" for item in others)
    return CheckResult("ok", detail)
