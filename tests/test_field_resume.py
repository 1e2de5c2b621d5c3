"""Field reports F06 and F07: another surface or folder, and blocks that stay what they were."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unipi.agent import open_agent
from unipi.resources import plugin as resources
from unipi.session import Session
from unipi.sim import Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import host, model
from unipi_hookspecs import CustomMessage, StartWith, Text, UserMessage, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]


async def test_the_head_is_the_same_whatever_folder_and_surface_goes_on(
    tmp_path, monkeypatch
) -> None:
    """F06: begun in folder X by a program, gone on from folder Y, and by the command line."""
    project, elsewhere = tmp_path / "x", tmp_path / "y"
    for folder in (project, elsewhere, tmp_path / "home"):
        folder.mkdir()
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    (project / "AGENTS.md").write_text("Rules of x.")
    (elsewhere / "AGENTS.md").write_text("Rules of y.")
    sim = Simulator([Say(f"answer {n}") for n in range(6)], profile="anthropic")
    path = tmp_path / "s.jsonl"
    for number in range(4):
        os.chdir(project if number < 2 else elsewhere)
        session = Session.open(path) if path.exists() else Session.create(path, cwd=project)
        prepared = host(session.cwd, [("resources", resources)])
        async with sim.serve() as url, open_agent(prepared, session, model(url)) as agent:
            # As another surface would: with its own word for where the prompt comes from.
            await agent.prompt(f"turn {number}", source="rpc" if number == 3 else "run")
    os.chdir(tmp_path)
    assert prefix_breaks(sim.requests) == []
    system = {json.dumps(json.loads(r.body)["system"]) for r in sim.requests}
    assert len(system) == 1
    assert "Rules of x." in system.pop()
    assert b"Rules of y." not in sim.requests[-1].body


class Listing:
    """Says a list of skills as a block of its own, ending in a line feed."""

    @hookimpl
    def before_agent_start(self, event):
        blocks = (Text("Skills:\n" + "- one\n" * 700), Text("Use them.\n"))
        return StartWith(messages=[CustomMessage("skills", blocks)])


@pytest.mark.parametrize("api", APIS)
async def test_blocks_stay_blocks_and_keep_their_ends_after_reopening_and_in_a_fork(
    tmp_path: Path, api: str
) -> None:
    """F07: what was sent as a list of blocks goes out as the same list, line feeds and all."""
    sim = Simulator([Say(f"answer {n}") for n in range(8)], profile="anthropic")
    path = tmp_path / "s.jsonl"
    fork_at = None
    with Session.create(path, cwd=tmp_path) as session:
        session.append_message(UserMessage((Text("first\n"), Text("second\n\n")), 1))
        async with lab(
            tmp_path, (), sim=sim, session=session, api=api, plugins=[("l", Listing())]
        ) as it:
            await it.agent.go_on()
            await it.agent.prompt("two")
            fork_at = it.agent.session.leaf_id
            await it.agent.prompt("three")
    with Session.open(path) as session:
        async with lab(
            tmp_path, (), sim=sim, session=session, api=api, plugins=[("l", Listing())]
        ) as it:
            await it.agent.prompt("four")
            assert it.boundaries == []
    assert prefix_breaks(sim.requests) == []
    with Session.open(path, read_only=True) as held:
        fork = held.fork(tmp_path / "f.jsonl", fork_at)
    async with lab(tmp_path, (), sim=sim, session=fork, api=api, plugins=[("l", Listing())]) as it:
        await it.agent.prompt("another way")
    assert prefix_breaks([sim.requests[1], sim.requests[-1]]) == []
    assert b"second\\n\\n" in sim.requests[-1].body
