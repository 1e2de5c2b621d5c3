"""How full the window is, and how far the estimates of it are off."""

from __future__ import annotations

from pathlib import Path

import pytest

from unipi.sim import Say
from unipi.testing import lab
from unipi_hookspecs import ContextUsage

WORDS = "some words of a usual length, " * 40


async def test_before_any_report_the_size_is_an_estimate_of_what_was_said(tmp_path: Path) -> None:
    async with lab(tmp_path, [Say("one")]) as it:
        usage = it.agent.contexts.of("any").context_usage()
        assert usage == ContextUsage(0, it.agent.model.context_window)


async def test_after_a_report_it_is_that_and_what_came_since(tmp_path: Path) -> None:
    async with lab(tmp_path, [Say("one"), Say("two")]) as it:
        await it.agent.prompt(WORDS)
        first = it.agent.contexts.of("any").context_usage()
        await it.agent.prompt(WORDS)
        second = it.agent.contexts.of("any").context_usage()
        last = it.agent.session.messages()[-1].usage
    assert first.off_by is None  # nothing was estimated yet: the first report holds the head too
    assert second.tokens == second.reported == last.prompt + last.output
    assert second.off_by == pytest.approx(0, abs=0.5)
    assert second.off_by is not None
