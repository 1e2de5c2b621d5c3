"""Compaction on an engine that we did not write: the summary is asked for on what it has read."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from benchmarks.engine_session import engine_model

from unipi.agent import AgentOptions, CompactionOptions, open_agent
from unipi.providers.apis import APIS
from unipi.session import Session
from unipi.sim.engine import engine_available, start_engine
from unipi.sim.tiny_model import Action, write_model
from unipi.testing.lab import host
from unipi_hookspecs import EpochBoundaryEvent, ProviderResponseEndEvent, SummaryMessage

_MISSING = engine_available()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

SUMMARY = "Goal: the user counts things and wants each count answered; four are done, more come."
ACTIONS = [
    Action("Stop working and write a summary", SUMMARY),
    *(Action(f"count {n}", f"That makes {n} things so far, as counted.") for n in range(1, 8)),
    Action("", "I am lost."),
]
OPTIONS = AgentOptions(compaction=CompactionOptions(keep=300))


@pytest.mark.parametrize("api", sorted(APIS))
async def test_the_summary_reads_the_whole_prompt_and_then_all_is_read_again(
    tmp_path: Path, api: str
) -> None:
    path = tmp_path / "scripted.gguf"
    write_model(path, ACTIONS)
    told: list[object] = []
    session = Session.create(None, cwd=tmp_path)
    async with start_engine(path, 32_768) as url:
        model = evolve(engine_model(url, api), context_window=32_768)
        async with open_agent(host(tmp_path), session, model, OPTIONS, observer=told.append) as it:
            for n in range(1, 5):
                await it.prompt(f"count {n}, with {'many words ' * 60}")
            assert "compacted: about" in (await it.prompt("/compact") or "")
            for n in range(5, 8):
                await it.prompt(f"count {n}")
            summaries = [m.summary for m in session.messages() if isinstance(m, SummaryMessage)]
    answers = [e for e in told if isinstance(e, ProviderResponseEndEvent)]
    assert [e.info.purpose for e in answers] == ["turn"] * 4 + ["compaction"] + ["turn"] * 3
    usages = [e.usage for e in answers]
    last, asked, first, *later = usages[3:]
    assert asked.cache_read >= 0.99 * last.prompt
    assert first.prompt < last.prompt
    for before, after in zip([first, *later], later, strict=False):
        assert after.cache_read == before.prompt + before.output - 1
    causes = [e.boundary.cause for e in told if isinstance(e, EpochBoundaryEvent)]
    assert causes == ["first", "compaction"]
    assert summaries == [SUMMARY]
