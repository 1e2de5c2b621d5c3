"""Running checks: each in its own bounds, so that one that hangs or raises costs itself alone."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from unipi.loader.importing import StuckError, contained
from unipi.redaction import scrub
from unipi_hookspecs import Check, CheckResult

from . import config, plugins, sessions
from .report import STATUSES, Finding, Report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST = 60.0
"""Seconds: a plugin's check may ask for so much at most, or it could hold the report for ever."""

_GRACE = 0.2
"""Seconds in which an `async` check may clean up behind its limit, before its thread is given up."""


def examine(cwd: Path, *, paths: Sequence[Path] = (), deny: Sequence[str] = ()) -> Report:
    """Run the host's checks, then those that plugins offer; nothing is changed, nobody is asked.

    `paths` and `deny` are plugins to load too and to leave out, as for a run. Raises nothing for
    whatever is found.
    """
    found = config.Found(cwd)
    findings = [_run("host", check) for check in config.checks(found)]
    loaded = plugins.Loaded()
    load = plugins.check(loaded, found, paths=paths, deny=deny)
    findings.append(_run("host", load))
    findings += [_run("host", check) for check in config.key_checks(found, loaded.models)]
    findings += [_run("host", check) for check in sessions.checks()]
    findings += [_run(owner, check) for owner, check in loaded.checks]
    findings += loaded.refused()
    return Report(findings)


def _run(owner: str, check: Check) -> Finding:
    limit = min(max(check.timeout, 0.0), _MOST)
    name = f"doctor-{owner}"
    outcome = contained(lambda: _answer(check, limit), limit=limit + _GRACE, name=name)
    result, error = outcome.value, outcome.error
    if isinstance(error, StuckError):
        result = CheckResult("failed", f"no answer within {limit:g} s")
    elif error is not None:
        result = CheckResult("failed", f"the check raised {type(error).__name__}: {error}")
    if result is None:
        result = CheckResult("ok")
    if not isinstance(result, CheckResult) or result.status not in STATUSES:
        result = CheckResult("failed", "the check did not return a CheckResult")
    # A fix of its own goes before the check's hint; what is well needs none.
    fix = result.fix or (check.fix_hint if result.status != "ok" else "")
    return Finding(
        _line(check.name),
        owner,
        result.status,
        _line(result.detail),
        _line(fix),
        outcome.elapsed_ms,
    )


def _answer(check: Check, limit: float) -> CheckResult | None:
    answer = check.run()
    if not inspect.isawaitable(answer):
        return answer
    import anyio

    async def wait() -> CheckResult | None:
        with anyio.fail_after(limit):
            return await answer

    try:
        return anyio.run(wait)
    except TimeoutError:
        return CheckResult("failed", f"no answer within {limit:g} s")


def _line(text: object) -> str:
    """One printable line without the keys in use."""
    words = " ".join(str(text).split())
    return scrub("".join(c if c.isprintable() else "\ufffd" for c in words))[:2_000]
