"""A fork goes on where its session ended: the same head, the same bytes, no boundary."""

from __future__ import annotations

from pathlib import Path

import pytest

from unipi.session import Session
from unipi.sim import Say, Simulator
from unipi.testing import lab, prefix_breaks


@pytest.mark.parametrize(
    "api", ["anthropic-messages", "openai-chat-completions", "openai-responses"]
)
async def test_the_first_request_of_a_fork_extends_the_last_of_its_session(
    tmp_path: Path, api: str
) -> None:
    sim = Simulator([[Say(f"answer {n}")] for n in range(3)], profile="anthropic")
    origin = Session.create(tmp_path / "a.jsonl", cwd=tmp_path)
    async with lab(tmp_path, None, sim=sim, session=origin, api=api) as it:
        await it.agent.prompt("one")
        await it.agent.prompt("two")
        with Session.open(tmp_path / "a.jsonl", read_only=True) as held:
            fork = held.fork(tmp_path / "b.jsonl", held.leaf_id)
    async with lab(tmp_path, None, sim=sim, session=fork, api=api) as it:
        await it.agent.prompt("three")
        assert it.boundaries == []
    assert prefix_breaks(sim.requests) == []
    assert (tmp_path / "b.key").stat().st_mode & 0o777 == 0o600
