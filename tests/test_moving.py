"""Moving in a session's tree: where the work goes on, what it costs, and who may say no."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from unipi.agent.moving import may_fork, may_switch, move_to
from unipi.session import Session
from unipi.sim import Answer, Call, Say
from unipi.testing.lab import PROFILES, lab, prefix_breaks
from unipi_hookspecs import (
    AssistantMessage,
    BranchSummary,
    Cancel,
    SummaryMessage,
    Tool,
    UserMessage,
    hookimpl,
)

APIS = sorted(PROFILES)
SUMMARY = "## Goal\n- The tests were made green and the table was kept as it is, as the user asked."


def said(it) -> list[str]:
    """What the last request's branch says, as the session has it."""
    return [_text(message) for message in it.agent.session.messages()]


def _text(message) -> str:
    if isinstance(message, SummaryMessage):
        return message.summary
    content = message.content
    return (
        content
        if isinstance(content, str)
        else "".join(b.text for b in content if b.type == "text")
    )


def entry(it, text: str) -> str:
    return next(e.id for e in it.agent.session.entries() if e.message and _text(e.message) == text)


async def talked(it, *prompts: str) -> None:
    for prompt in prompts:
        await it.agent.prompt(prompt)


class Watcher:
    """Hears of moves; `answer` is what it says before one."""

    def __init__(self, answer=None) -> None:
        self.answer, self.before, self.after = answer, [], []

    @hookimpl
    def session_before_tree(self, event):
        self.before.append(event)
        return self.answer

    @hookimpl
    def session_tree(self, event):
        self.after.append(event)

    @hookimpl
    def session_before_switch(self, event):
        self.before.append(event)
        return self.answer

    @hookimpl
    def session_before_fork(self, event):
        self.before.append(event)
        return self.answer


@pytest.mark.parametrize("api", APIS)
async def test_the_work_goes_on_behind_an_answer_and_what_both_branches_share_is_not_lost(
    tmp_path: Path, api: str
) -> None:
    async with lab(tmp_path, [Say(f"a{n}") for n in range(5)], api=api) as it:
        await talked(it, "one " * 900, "two", "three")
        moved = await move_to(it.agent, entry(it, "a0"))
        assert moved.moved
        await it.agent.prompt("another way")
    assert said(it) == ["one " * 900, "a0", "another way", "a3"]
    _, tree = it.boundaries
    assert (tree.cause, tree.owner, tree.avoidable) == ("tree", "user", False)
    assert tree.tokens_lost < 100  # of a thousand: the rest was read from the cache
    assert b"three" not in it.requests[-1].body


async def test_behind_a_prompt_the_place_is_before_it_and_its_words_stand_ready(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path, [Say(f"a{n}") for n in range(4)]) as it:
        await talked(it, "one", "two")
        moved = await move_to(it.agent, entry(it, "two"))
        assert moved.prefill == "two"
        await it.agent.prompt("two, said better")
    assert said(it) == ["one", "a0", "two, said better", "a2"]


async def test_back_and_forward_again_before_a_request_loses_nothing(tmp_path: Path) -> None:
    async with lab(tmp_path, [Say(f"a{n}") for n in range(4)]) as it:
        await talked(it, "one", "two")
        end = it.agent.session.leaf_id
        await move_to(it.agent, entry(it, "a0"))
        await move_to(it.agent, end)
        await it.agent.prompt("three")
    assert [(b.cause, b.tokens_lost) for b in it.boundaries] == [("first", 0), ("tree", 0)]
    assert prefix_breaks(it.requests) == []


@pytest.mark.parametrize("api", APIS)
async def test_a_summary_of_what_is_left_is_asked_on_the_prefix_that_was_read(
    tmp_path: Path, api: str
) -> None:
    script = [Say("a0"), Say("a1"), Say(SUMMARY), Say("a2")]
    async with lab(tmp_path, script, api=api) as it:
        await talked(it, "one", "two")
        moved = await move_to(it.agent, entry(it, "a0"), summarize=True)
        await it.agent.prompt("on with it")
    assert moved.moved
    assert said(it) == ["one", "a0", SUMMARY, "on with it", "a2"]
    assert prefix_breaks(it.requests[:3]) == []
    assert [boundary.cause for boundary in it.boundaries] == ["first", "branch_summary"]
    (kept,) = [e for e in it.agent.session.entries() if e.type == "branch_summary"]
    assert kept.fields["fromId"] == entry(it, "a1")


async def test_a_plugin_may_supply_the_summary_and_no_model_is_asked(tmp_path: Path) -> None:
    watcher = Watcher(BranchSummary(SUMMARY, {"by": "hand"}))
    plugins = [("watcher", watcher)]
    async with lab(tmp_path, [Say("a0"), Say("a1"), Say("a2")], plugins=plugins) as it:
        await talked(it, "one", "two")
        await move_to(it.agent, entry(it, "a0"), summarize=True)
        await it.agent.prompt("on with it")
    assert len(it.requests) == 3
    assert said(it)[2] == SUMMARY
    (event,) = watcher.before
    assert [_text(e.message) for e in event.entries_to_summarize if e.message] == ["two", "a1"]
    (told,) = watcher.after
    assert told.summary_entry.fields["details"] == {"by": "hand"}
    assert told.old_leaf_id == event.old_leaf_id


@pytest.mark.parametrize("summary", ["", "## Goal\n- (none)"])
async def test_without_a_summary_that_says_something_nothing_is_moved(
    tmp_path: Path, summary: str
) -> None:
    script = [Say("a0"), Say("a1"), Say(summary or "-"), Say("a2")]
    async with lab(tmp_path, script) as it:
        await talked(it, "one", "two")
        moved = await move_to(it.agent, entry(it, "a0"), summarize=True)
        assert not moved.moved
        assert "no summary" in moved.told
        await it.agent.prompt("three")
    assert said(it) == ["one", "a0", "two", "a1", "three", "a2"]
    assert [boundary.cause for boundary in it.boundaries] == ["first"]


async def test_a_plugin_that_is_against_it_is_named_and_everything_stays(tmp_path: Path) -> None:
    plugins = [("keeper", Watcher(Cancel("the build is running")))]
    async with lab(tmp_path, [Say("a0"), Say("a1"), Say("a2")], plugins=plugins) as it:
        await talked(it, "one", "two")
        leaf = it.agent.session.leaf_id
        moved = await move_to(it.agent, entry(it, "a0"))
        refusal = "plugin 'keeper' is against it: the build is running"
        assert (moved.moved, moved.told) == (False, refusal)
        assert await may_fork(it.agent, leaf, "at") == refusal
        assert await may_switch(it.agent, "new", None) == refusal
        assert it.agent.session.leaf_id == leaf
        await it.agent.prompt("three")
    assert prefix_breaks(it.requests) == []


async def test_where_nobody_is_against_it_a_session_may_be_left(tmp_path: Path) -> None:
    watcher = Watcher()
    async with lab(tmp_path, [Say("a0")], plugins=[("watcher", watcher)]) as it:
        assert await may_switch(it.agent, "resume", tmp_path / "other.jsonl") is None
        assert await may_fork(it.agent, "e1", "before") is None
    switch, fork = watcher.before
    assert (switch.reason, switch.target_session_file) == ("resume", str(tmp_path / "other.jsonl"))
    assert (fork.entry_id, fork.position) == ("e1", "before")


async def test_a_place_that_is_not_there_or_is_here_already_is_told(tmp_path: Path) -> None:
    async with lab(tmp_path, [Say("a0")]) as it:
        await it.agent.prompt("one")
        assert not (await move_to(it.agent, "nowhere")).moved
        here = await move_to(it.agent, it.agent.session.leaf_id)
        assert (here.moved, here.told) == (False, "that is where the work stands")


@pytest.mark.parametrize("api", APIS)
async def test_behind_calls_whose_results_stand_further_on_each_gets_a_result(
    tmp_path: Path, api: str
) -> None:
    class Echo:
        @hookimpl
        def register_tools(self):
            return [Tool("echo", "Say it.", parameters={"type": "object"}, run=lambda c, x: "said")]

    script = [Answer((Say("calling"), Call("echo", {}), Call("echo", {}))), Say("a1"), Say("a2")]
    async with lab(tmp_path, script, api=api, plugins=[("echo", Echo())]) as it:
        await it.agent.prompt("one")
        (asked,) = [
            e.id
            for e in it.agent.session.entries()
            if isinstance(e.message, AssistantMessage) and len(e.message.content) == 3
        ]
        assert (await move_to(it.agent, asked)).moved
        await it.agent.prompt("two")
    assert [request.status for request in it.sim.requests] == [200, 200, 200]
    assert said(it)[2:4] == [f"not run: {WHY}"] * 2


WHY = "the user went on from here before this call had a result"


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_after_any_moves_the_context_is_the_branch_and_the_provider_takes_it(
    tmp_path: Path, api: str
) -> None:
    async def play(steps: list[int]) -> None:
        session = Session.create(None, cwd=tmp_path)
        async with lab(tmp_path, [Say(f"a{n}") for n in range(20)], api=api, session=session) as it:
            for number, step in enumerate([0, *steps]):
                saying = [e for e in session.entries() if e.message is not None]
                if saying and step:
                    await move_to(it.agent, saying[step % len(saying)].id)
                await it.agent.prompt(f"p{number}")
                branch = [e.message for e in session.branch() if e.message is not None]
                assert session.messages() == branch
                assert [i.message for i in it.agent.lineage.items] == branch
                assert isinstance(branch[-2], UserMessage)
        assert {request.status for request in it.sim.requests} == {200}
        assert len(prefix_breaks(it.requests)) <= len(it.boundaries) - 1

    @settings(
        max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    def check(steps: list[int]) -> None:
        anyio.run(partial(play, steps))

    check()
