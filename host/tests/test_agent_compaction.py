"""Compaction in a running session: warm, whole, and without loss when it fails."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from unipi.agent import AgentOptions, Compacted, CompactionOptions, RetryPolicy, RunFailedError
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import (
    Cancel,
    Compaction,
    CustomMessage,
    SummaryMessage,
    Tool,
    UserMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SUMMARY = (
    "## Goal\n- Keep the tests green and change no public name, as the user asked.\n## Done\n- a.py"
)
LONG = "word " * 800  # a thousand tokens
KEEP = AgentOptions(
    compaction=CompactionOptions(keep=1_500), retry=RetryPolicy(base=0.01, cap=0.02)
)


def outcomes(it) -> list[Compacted]:
    return [event for event in it.events if isinstance(event, Compacted)]


def summaries(it) -> list[str]:
    return [m.summary for m in it.agent.session.messages() if isinstance(m, SummaryMessage)]


async def worked(it, prompts: int = 4) -> None:
    for number in range(prompts):
        await it.agent.prompt(f"{number} {LONG}")


# ---- the warm way


@pytest.mark.parametrize("api", APIS)
async def test_the_summary_is_asked_for_on_the_prefix_that_was_just_sent(
    tmp_path: Path, api
) -> None:
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), Say("goes on"), Say("and on")]
    async with lab(tmp_path, script, api=api, options=KEEP) as it:
        await worked(it)
        reply = await it.agent.prompt("/compact keep the table")
        await it.agent.prompt("next")
        await it.agent.prompt("more")
    *before, asked, first, second = it.requests
    assert "compacted: about" in reply
    assert prefix_breaks([before[-1], asked]) == []
    assert asked.cached_tokens >= 0.95 * before[-1].prompt_tokens
    assert b"keep the table" in asked.body
    assert first.prompt_tokens < before[-1].prompt_tokens / 1.5
    assert prefix_breaks([first, second]) == []
    assert [b.cause for b in it.boundaries] == ["first", "compaction"]
    assert [b.owner for b in it.boundaries] == ["host", "user"]
    assert summaries(it) == [SUMMARY]


async def test_a_request_for_a_summary_is_no_part_of_the_session(tmp_path: Path) -> None:
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY)]
    async with lab(tmp_path, script, options=KEEP) as it:
        await worked(it)
        entries = len(it.agent.session.entries())
        await it.agent.prompt("/compact")
        added = it.agent.session.entries()[entries:]
    assert [entry.type for entry in added] == ["compaction"]


@pytest.mark.parametrize("api", APIS)
async def test_a_compacted_session_resumes_on_the_same_bytes(tmp_path: Path, api) -> None:
    path = tmp_path / "s.jsonl"
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), Say("five"), Say("six")]
    sim = Simulator(script, profile="exact")
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, (), api=api, sim=sim, session=session, options=KEEP) as it:
            await worked(it)
            await it.agent.prompt("/compact")
            await it.agent.prompt("on")
    with Session.open(path) as session:
        async with lab(tmp_path, (), api=api, sim=sim, session=session, options=KEEP) as it:
            await it.agent.prompt("further")
    assert it.boundaries == []
    assert prefix_breaks(sim.requests[-2:]) == []


# ---- by itself


async def test_over_the_window_less_its_reserve_it_happens_before_the_next_request(
    tmp_path,
) -> None:
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), Say("goes on")]
    options = AgentOptions(compaction=CompactionOptions(keep=1_500, reserve=2_000))
    async with lab(tmp_path, script, options=options) as it:
        it.agent.model = attrs.evolve(it.agent.model, context_window=8_000)
        await worked(it, 5)
    assert [(o.status, o.why) for o in outcomes(it)] == [("applied", "threshold")]
    assert [b.cause for b in it.boundaries] == ["first", "compaction"]
    assert it.boundaries[1].owner == "host"
    assert summaries(it) == [SUMMARY]
    assert max(r.prompt_tokens for r in it.requests) < 8_000


@pytest.mark.parametrize(("binds", "when"), [(False, 3), (True, 4)])
async def test_a_model_that_binds_its_thinking_is_let_finish_its_round_first(
    tmp_path: Path, binds: bool, when: int
) -> None:
    class Fill:
        @hookimpl
        def register_tools(self):
            run = lambda call, ctx: LONG * 3  # noqa: E731 - the shortest tool there is
            return [Tool("fill", "Fill up.", parameters={"type": "object"}, run=run)]

    call = Answer((Say("more"), Call("fill", {})))
    script = [Say("hello"), call, Say("done"), Say("and on")]
    script.insert(when - 1, Say(SUMMARY))
    options = AgentOptions(compaction=CompactionOptions(keep=500, reserve=2_000))
    async with lab(tmp_path, script, options=options, plugins=[("fill", Fill())]) as it:
        it.agent.model = attrs.evolve(it.agent.model, context_window=6_500, binds_thinking=binds)
        for text in (LONG, "fill", "on"):
            await it.agent.prompt(text)
    asked = [n for n, r in enumerate(it.requests, 1) if b"Stop working" in r.body]
    assert asked == [when]
    assert [o.status for o in outcomes(it)] == ["applied"]


async def test_what_cannot_shrink_is_tried_once_and_told_with_the_way_out(tmp_path: Path) -> None:
    calls = [Answer((Say(f"step {n}"), Call("echo", {"n": n}))) for n in range(5)]
    script = [Say("hello"), *(Say("no summary") for _ in range(1)), *calls, Say("done")]

    class Echo:
        @hookimpl
        def register_tools(self):
            run = lambda call, ctx: "said"  # noqa: E731 - the shortest tool there is
            return [Tool("echo", "Say it.", parameters={"type": "object"}, run=run)]

    options = AgentOptions(compaction=CompactionOptions(keep=50, reserve=2_000))
    async with lab(tmp_path, script, options=options, plugins=[("echo", Echo())]) as it:
        it.agent.model = attrs.evolve(it.agent.model, context_window=3_000)
        await it.agent.prompt(LONG)
        await it.agent.prompt("five steps")
    assert [(o.status, o.why) for o in outcomes(it)] == [("failed", "threshold")]
    (told,) = [n.text for n in it.notices if "compaction ended" in n.text]
    assert "window of 3,000" in told
    assert "/compact" in told
    assert len(it.requests) == 8
    assert prefix_breaks([it.requests[0], *it.requests[2:]]) == []


@pytest.mark.parametrize("api", APIS)
async def test_an_overflow_is_one_compaction_one_retry_and_success(tmp_path: Path, api) -> None:
    script = [*(Say(f"answer {n}") for n in range(3)), Say(SUMMARY), Say("goes on")]
    sim = Simulator(script, profile="exact", context_window=5_200)
    async with lab(tmp_path, (), api=api, sim=sim, options=KEEP) as it:
        it.agent.model = attrs.evolve(it.agent.model, context_window=1_000_000)
        await worked(it, 4)
    assert [(o.status, o.why) for o in outcomes(it)] == [("applied", "overflow")]
    refused = [r for r in sim.requests if r.error]
    assert len(refused) == 1
    messages = it.agent.session.messages()
    assert [part.text for part in messages[-1].content] == ["goes on"]
    assert [b.cause for b in it.boundaries] == ["first", "compaction"]


async def test_an_overflow_that_stays_is_reported_and_the_session_goes_on(tmp_path: Path) -> None:
    sim = Simulator([Say("x")] * 9, profile="anthropic", context_window=900)
    async with lab(tmp_path, (), sim=sim, options=KEEP) as it:
        it.agent.model = attrs.evolve(it.agent.model, context_window=1_000_000)
        with pytest.raises(RunFailedError, match="overflow"):
            await it.agent.prompt(LONG)
    assert [o.status for o in outcomes(it)] == ["skipped"]


# ---- nothing lost


FAILURES = {
    "refused": [Fault(status=401)],
    "busy, then broken": [Fault(status=429), *[Fault(status=500)] * 4],
    "cut": [Fault(cut=True, after=1)] * 4,
    "empty": [Say("")],
    "white space": [Say(" \n ")],
    "headings": [Say("## Goal\n\n## Done\n-\n")],
    "at its limit": [Answer((Say(SUMMARY),), stop="max_tokens")],
    "a call": [Answer((Call("read", {"path": "a"}),))],
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_without_a_summary_the_history_stays_and_the_next_turn_extends_it(
    tmp_path: Path, kind: str
) -> None:
    script = [*(Say(f"answer {n}") for n in range(4)), *FAILURES[kind], Say("as before")]
    async with lab(tmp_path, script, options=KEEP) as it:
        await worked(it)
        before = list(it.agent.session.messages())
        told = await it.agent.prompt("/compact")
        assert list(it.agent.session.messages()) == before
        await it.agent.prompt("next")
    (outcome,) = outcomes(it)
    assert outcome.status == "failed"
    assert outcome.reason
    assert "not compacted (failed)" in told
    assert prefix_breaks([it.requests[3], it.requests[-1]]) == []
    assert [b.cause for b in it.boundaries] == ["first"]


async def test_with_nothing_to_cut_off_no_model_is_asked(tmp_path: Path) -> None:
    async with lab(tmp_path, [Say("a"), Say("b")], options=KEEP) as it:
        await it.agent.prompt("short")
        told = await it.agent.prompt("/compact")
    assert "not compacted (skipped)" in told
    assert len(it.requests) == 1


# ---- plugins


class Compacts:
    def __init__(self, make) -> None:
        self.make = make
        self.told = []

    @hookimpl
    def session_before_compact(self, event, ctx):
        self.event = event
        return self.make(event)

    @hookimpl
    def session_compact(self, event, ctx):
        self.told.append((event.compaction_entry.id, event.reason, event.from_plugin))


async def test_a_plugin_supplies_the_whole_compaction_and_no_model_is_asked(tmp_path: Path) -> None:
    plugin = Compacts(lambda e: Compaction(SUMMARY, e.first_kept_entry_id, {"by": "rule"}))
    script = [*(Say(f"answer {n}") for n in range(4)), Say("next")]
    async with lab(tmp_path, script, options=KEEP, plugins=[("rules", plugin)]) as it:
        await worked(it)
        await it.agent.prompt("/compact tersely")
        await it.agent.prompt("on")
        entry = next(e for e in it.agent.session.entries() if e.type == "compaction")
    assert len(it.requests) == 5
    assert plugin.told == [(entry.id, "manual", "rules")]
    assert (entry.fields["fromHook"], entry.fields["details"]) == (True, {"by": "rule"})
    assert plugin.event.custom_instructions == "tersely"
    assert plugin.event.tokens_before > plugin.event.tokens_kept > 1_500
    assert it.boundaries[1].owner == "rules"


@pytest.mark.parametrize(
    ("make", "status", "why"),
    [
        (lambda e: Cancel("not now"), "cancelled", "not now"),
        (lambda e: Compaction("", e.first_kept_entry_id), "failed", "empty summary"),
        (lambda e: Compaction("## Goal\n", e.first_kept_entry_id), "failed", "beyond headings"),
        (lambda e: Compaction(SUMMARY, "nowhere"), "failed", "not on the branch"),
        (lambda e: Compaction(LONG * 9, e.first_kept_entry_id), "skipped", "smaller"),
    ],
    ids=["cancel", "empty", "headings", "unknown", "larger"],
)
async def test_what_a_plugin_supplies_is_checked_before_anything_is_given_up(
    tmp_path: Path, make, status, why
) -> None:
    plugin = Compacts(make)
    script = [*(Say(f"answer {n}") for n in range(4)), Say("next")]
    async with lab(tmp_path, script, options=KEEP, plugins=[("rules", plugin)]) as it:
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("on")
    (outcome,) = outcomes(it)
    assert outcome.status == status
    assert why in outcome.reason
    assert plugin.told == []
    assert prefix_breaks(it.requests) == []


async def test_a_state_that_was_live_is_said_once_behind_the_summary(tmp_path: Path) -> None:
    class Todo:
        @hookimpl
        async def agent_start(self, event, ctx):
            await ctx.append_message("todo", "1. paint the door", display=False, supersedes=True)

    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), Say("next")]
    async with lab(tmp_path, script, options=KEEP, plugins=[("todo", Todo())]) as it:
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("on")
        messages = it.agent.session.messages()
    states = [m for m in messages if isinstance(m, CustomMessage)]
    assert len(states) == 1
    assert "paint the door" in states[0].content
    assert isinstance(messages[0], SummaryMessage)


async def test_two_compactions_in_a_row_keep_the_first_one_s_summary(tmp_path: Path) -> None:
    script = [
        *(Say(f"answer {n}") for n in range(4)),
        Say(SUMMARY),
        *(Say(f"more {n}") for n in range(4)),
        Say(SUMMARY + "\n- and b.py"),
        Say("end"),
    ]
    async with lab(tmp_path, script, options=KEEP) as it:
        await worked(it)
        await it.agent.prompt("/compact")
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("on")
    asked = it.requests[9].body
    assert b"begins with an earlier summary" in asked
    assert SUMMARY.encode().splitlines()[1] in asked
    assert [b.cause for b in it.boundaries] == ["first", "compaction", "compaction"]
    assert isinstance(it.agent.session.messages()[1], UserMessage)


class Wishes:
    """Asks for a compaction at the end of the second turn of a run."""

    @hookimpl
    def register_tools(self):
        return [Tool("look", "Look.", run=lambda call, ctx: LONG)]

    @hookimpl
    async def turn_end(self, event, ctx):
        if event.turn_index == 1:
            assert "before the next request" in await ctx.compact("keep the table")


async def test_a_plugin_s_wish_is_met_before_the_next_request_of_the_turn(tmp_path: Path) -> None:
    look = Answer([Call("look", {})])
    script = [*(Say(f"answer {n}") for n in range(4)), look, look, Say(SUMMARY), Say("done")]
    async with lab(tmp_path, script, options=KEEP, plugins=[("wishes", Wishes())]) as it:
        it.agent.model = attrs.evolve(it.agent.model, binds_thinking=False)
        await worked(it)
        await it.agent.prompt("look twice")
    assert [(o.status, o.why) for o in outcomes(it)] == [("applied", "manual")]
    assert b"keep the table" in it.requests[6].body
    assert summaries(it) == [SUMMARY]


async def test_a_plugin_s_wish_between_turns_is_met_at_once(tmp_path: Path) -> None:
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY)]
    async with lab(tmp_path, script, options=KEEP) as it:
        await worked(it)
        said = await it.agent.contexts.of("anybody").compact()
    assert said.startswith("compacted: about")
    assert summaries(it) == [SUMMARY]
