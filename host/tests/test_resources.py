"""Instruction files, skills and templates: in the head once, what changes at the tail."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from unipi.agent import open_agent
from unipi.resources import plugin as resources
from unipi.resources.context_files import FILE_LIMIT, TOTAL_LIMIT, context_files
from unipi.resources.skills import find_skills
from unipi.resources.templates import expand
from unipi.session import Session
from unipi.sim import Say, Simulator
from unipi.testing import prefix_breaks
from unipi.testing.lab import Lab, host, model


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A user's folder, and a project two folders deep."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / "app").mkdir(parents=True)
    return tmp_path


def app(home: Path) -> Path:
    return home / "work" / "app"


class Runs:
    """One session in one process after another."""

    def __init__(self, home):
        self.home, self.path = home, home / "s.jsonl"
        self.sim = Simulator([Say(f"answer {n}") for n in range(12)], profile="anthropic")

    @asynccontextmanager
    async def __call__(self, **options):
        from unipi.agent import AgentOptions

        there = self.path.exists()
        cwd = app(self.home)
        session = Session.open(self.path) if there else Session.create(self.path, cwd=cwd)
        prepared, events = host(cwd, [("resources", resources)]), []
        async with (
            self.sim.serve() as url,
            open_agent(
                prepared, session, model(url), AgentOptions(**options), observer=events.append
            ) as agent,
        ):
            yield Lab(agent, self.sim, prepared, events)

    @property
    def systems(self):
        return [json.loads(r.body)["system"][0]["text"] for r in self.sim.requests]

    def said(self, number):
        """All that stands in the messages of a request, as one text."""
        return json.dumps(json.loads(self.sim.requests[number].body)["messages"])

    def told(self, it):
        return [n.text for n in it.notices if "changed: told at the tail" in n.text]


@pytest.fixture
def runs(home):
    return Runs(home)


# What is read.


def test_files_go_from_the_user_s_and_the_outermost_folder_to_the_innermost(home):
    (home / "home" / "AGENTS.md").write_text("Mine.")
    (home / "work" / "CLAUDE.md").write_text("Outer.")
    (app(home) / "AGENTS.md").write_text("Inner.")
    (app(home) / "CLAUDE.md").write_text("Not read beside AGENTS.md.")
    found = context_files(app(home), home / "home")
    assert [file.text for file in found] == ["Mine.", "Outer.", "Inner."]


def test_a_long_file_is_cut_and_says_so_and_all_together_are_bounded(home):
    (home / "home" / "AGENTS.md").write_text("a" * FILE_LIMIT)
    (home / "work" / "AGENTS.md").write_text("b" * FILE_LIMIT)
    (app(home) / "AGENTS.md").write_text("é" * FILE_LIMIT)
    found = context_files(app(home), home / "home")
    assert sum(len(file.text.encode()) for file in found) <= TOTAL_LIMIT
    assert [file.path.parent.name for file in found][-1] == "app"
    assert found[-1].cut
    assert "cut after 32 KiB" in found[-1].shown


def test_what_is_no_file_is_left_out(home):
    (app(home) / "AGENTS.md").mkdir()
    os.mkfifo(home / "home" / "AGENTS.md")
    (home / "work" / "CLAUDE.md").write_text("  \n")
    assert context_files(app(home), home / "home") == []


async def test_they_stand_in_the_head_once_and_in_every_request(runs, home):
    (app(home) / "AGENTS.md").write_text("Use tabs.\n")
    async with runs() as it:
        await it.agent.prompt("one")
        await it.agent.prompt("two")
    assert len(set(runs.systems)) == 1
    assert f"# Instructions of {app(home) / 'AGENTS.md'}\n\nUse tabs." in runs.systems[0]
    assert prefix_breaks(it.requests) == []
    assert runs.told(it) == []


# What changes.


async def test_an_edited_file_is_told_at_the_tail_once_and_the_prefix_holds(runs, home):
    file = app(home) / "AGENTS.md"
    file.write_text("Use tabs.")
    async with runs() as it:
        await it.agent.prompt("one")
        file.write_text("Use spaces.")
        await it.agent.prompt("two")
        await it.agent.prompt("three")
    assert prefix_breaks(it.requests) == []
    assert runs.said(2).count("Use spaces.") == 1
    (notice,) = runs.told(it)
    assert str(file) in notice
    assert "/reload" in notice
    assert "tokens anew" in notice


@pytest.mark.parametrize("variant", ["edited", "touched", "changed and back", "gone", "new"])
async def test_a_resumed_session_keeps_its_head_and_hears_of_what_changed(runs, home, variant):
    """F05: edited between two runs; touched only; changed and changed back."""
    file = app(home) / "AGENTS.md"
    if variant != "new":
        file.write_text("Use tabs.")
    async with runs() as it:
        await it.agent.prompt("one")
    if variant in ("edited", "changed and back", "new"):
        file.write_text("Use spaces.")
    if variant == "changed and back":
        file.write_text("Use tabs.")
    if variant == "touched":
        os.utime(file, (1, 1))
    if variant == "gone":
        file.unlink()
    async with runs() as it:
        await it.agent.prompt("two")
    assert prefix_breaks(runs.sim.requests) == []
    assert it.boundaries == []
    changed = variant in ("edited", "gone", "new")
    assert len(runs.told(it)) == changed
    assert ("hold as they are now" in runs.said(1)) == changed
    assert ("no longer there" in runs.said(1)) == (variant == "gone")
    async with runs() as it:  # and not again
        await it.agent.prompt("three")
    assert runs.told(it) == []
    assert prefix_breaks(runs.sim.requests) == []


async def test_reload_puts_the_change_into_the_head_as_one_boundary_of_the_user_s(runs, home):
    file = app(home) / "AGENTS.md"
    file.write_text("Use tabs.")
    async with runs() as it:
        await it.agent.prompt("one")
        file.write_text("Use spaces.")
        assert "read again" in await it.agent.prompt("/reload")
        await it.agent.prompt("two")
        await it.agent.prompt("three")
    assert "Use spaces." in runs.systems[1]
    assert "Use tabs." not in runs.systems[1]
    assert "hold as they are now" not in runs.said(2)
    (boundary,) = [b for b in it.boundaries if b.cause != "first"]
    assert (boundary.cause, boundary.owner, boundary.avoidable) == ("reload", "user", False)
    assert prefix_breaks(it.requests) == [1]
    assert runs.told(it) == []


async def test_a_fresh_head_on_resuming_has_the_change_and_says_it_once(runs, home):
    file = app(home) / "AGENTS.md"
    file.write_text("Use tabs.")
    async with runs() as it:
        await it.agent.prompt("one")
    file.write_text("Use spaces.")
    async with runs(fresh_head=True) as it:
        await it.agent.prompt("two")
    assert "Use spaces." in runs.systems[1]
    assert "Use spaces." not in runs.said(1)
    assert [b.cause for b in it.boundaries] == ["reload"]


# Skills.


def skill(folder: Path, name: str, front: str) -> None:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(front)


def test_skills_are_listed_by_name_and_a_broken_one_is_told_with_its_reason(home):
    mine = home / "home" / "skills"
    skill(mine, "zip", "---\nname: zip\ndescription: >\n  Packs\n  files.\n---\nUse zip.")
    skill(mine, "both", "---\ndescription: The user's.\n---\n")
    skill(app(home) / ".claude" / "skills", "both", '---\ndescription: "The project\'s."\n---\n')
    skill(mine, "mute", "---\nname: mute\n---\n")
    skill(mine, "bad", "---\nname: [\n---\n")
    skill(mine, "Loud", "---\ndescription: x\n---\n")
    skill(mine, "plain", "No front.")
    found = find_skills(app(home), home / "home")
    assert [(s.name, s.description) for s in found.found] == [
        ("both", "The project's."),
        ("zip", "Packs files."),
    ]
    reasons = " ".join(found.problems)
    assert len(found.problems) == 4
    for word in ("no description", "no YAML in line 2", "small letters", "begin with ---"):
        assert word in reasons


async def test_a_skill_is_listed_in_the_head_and_read_by_its_name(runs, home):
    skill(home / "home" / "skills", "zip", "---\ndescription: Packs.\n---\nUse zip -r.\n")
    async with runs() as it:
        await it.agent.prompt("/skill:zip the folder")
        await it.agent.prompt("/skill:none")
    assert "- zip: Packs. (" in runs.systems[0]
    assert "Use zip -r.\\n\\nthe folder" in runs.said(0)
    assert any("there is no skill 'none'; there are: zip" in n.text for n in it.notices)


# Templates.


async def test_a_template_stands_for_its_text_with_the_words_in_it(runs, home):
    prompts = home / "home" / "prompts"
    prompts.mkdir()
    (prompts / "fix.md").write_text("---\ndescription: x\n---\nFix $1 in $2: $ARGUMENTS")
    async with runs() as it:
        await it.agent.prompt('/fix "the bug" a.py')
        await it.agent.prompt("/unknown thing")
    assert 'Fix the bug in a.py: \\"the bug\\" a.py' in runs.said(0)
    assert "/unknown thing" in runs.said(1)


def test_words_go_to_the_end_of_a_template_that_names_no_place(home):
    file = home / "t.md"
    file.write_text("Review it.\n")
    assert expand(file, "carefully") == "Review it.\n\ncarefully"
    assert expand(file, "") == "Review it."
    file.write_text("Say $1.")
    assert expand(file, "it's") == "Say it's."


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "x" * 65])
async def test_no_name_leads_out_of_the_folder_of_templates(home, name):
    from unipi.resources.templates import find_template

    (home / "home" / "prompts").mkdir()
    (home / "home" / "x.md").write_text("secret")
    assert find_template(name, app(home), home / "home") is None
