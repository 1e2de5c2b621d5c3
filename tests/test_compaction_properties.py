"""Any history, cut anywhere: every provider takes it, and the session goes on without a boundary more."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from unipi.agent import AgentOptions, CompactionOptions
from unipi.compaction.cut import NothingToCompactError, find_cut
from unipi.session import Session
from unipi.sim import Say
from unipi.testing.lab import PROFILES, lab, prefix_breaks
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    CustomMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

KEEP = CompactionOptions(enabled=False)
sizes = st.integers(1, 2_000)
_NUMBERS = count()  # no provider gives an id twice


def answer(api: str, *content: object, reason: str = "stop") -> AssistantMessage:
    return AssistantMessage(
        content, api=api, provider="sim", model="sim-model", stop_reason=reason, timestamp=1
    )


@st.composite
def steps(draw: st.DrawFn, api: str) -> list[object]:
    """What may stand in a session: whole and broken rounds, thinking, notes, failed answers."""
    kind = draw(st.sampled_from(["user", "said", "round", "open", "note", "bash", "failed", "cut"]))
    size = draw(sizes)
    if kind == "user":
        return [UserMessage("u" * size, 1)]
    if kind == "said":
        return [answer(api, Text("a" * size))]
    if kind == "note":
        return [CustomMessage("note", "n" * size, timestamp=1)]
    if kind == "bash":
        return [BashMessage("ls", "b" * size, timestamp=1)]
    if kind == "failed":
        return [answer(api, Text("f"), reason=draw(st.sampled_from(["error", "aborted"])))]
    if kind == "cut":
        return [size]
    ids = [f"call_{next(_NUMBERS)}" for _ in range(draw(st.integers(1, 4)))]
    calls = [ToolCall(each, "read", {"path": "p"}) for each in ids]
    thought = [Thinking("t" * 40)] if draw(st.booleans()) else []
    results = [ToolResultMessage(each, "read", (Text("r" * size),), timestamp=1) for each in ids]
    if kind == "open":
        results = results[:-1]
    return [answer(api, *thought, *calls, reason="toolUse"), *results]


def recorded(history: list[object]) -> Session:
    """The history as a session; a number in it is a compaction that keeps so many tokens."""
    session = Session.create(None, cwd=Path("/"))
    for step in history:
        if isinstance(step, int):
            try:
                cut = find_cut(session.branch(), keep=step)
            except NothingToCompactError:
                continue
            session.append(
                "compaction", {"summary": "S", "firstKeptEntryId": cut.first_kept_entry_id}
            )
        else:
            session.append_message(step)
    return session


@pytest.mark.slow
@pytest.mark.parametrize("api", sorted(PROFILES))
def test_what_any_compaction_leaves_is_taken_by_the_provider_and_gone_on_with(
    api: str, tmp_path: Path
) -> None:
    async def goes_on(history: list[object]) -> None:
        script = [Say("one"), Say("two")]
        options = AgentOptions(compaction=KEEP)
        async with lab(tmp_path, script, api=api, session=recorded(history), options=options) as it:
            await it.agent.prompt("go on")
            await it.agent.prompt("and on")
        assert [request.status for request in it.sim.requests] == [200, 200]
        assert prefix_breaks(it.requests) == []
        assert len(it.boundaries) == 1

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        st.lists(steps(api), min_size=1, max_size=14).map(lambda s: [m for part in s for m in part])
    )
    def check(history: list[object]) -> None:
        anyio.run(partial(goes_on, history))

    check()
