"""Faults that people met in other agents, where the answer is the compactor's to give."""

from __future__ import annotations

from attrs import evolve

import unipi_compactor
from unipi.agent import AgentOptions, Compacted, CompactionOptions, Notice
from unipi.session import Session
from unipi.sim import Call, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import CustomMessage, SummaryMessage, Tool, hookimpl

PLUGIN = ("compactor", unipi_compactor)
GOAL = "Write the importer.\nIt must read CSV and TSV.\nNever write outside of out/."
FIRST = "No, the separator is a semicolon; do not guess it."
SECOND = "Dates are ISO, always, also in the footer."
LAST = "Now finish the importer and say what is left."


class Todo:
    """Keeps a list at the tail and works through it, call by call."""

    @hookimpl
    def register_tools(self):
        async def step(call, ctx):
            await ctx.append_message("todo", f"todo: step {call.input['n']} of 80", supersedes=True)
            return "done " * 60

        def read(call, ctx):
            return "How to import."

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return [Tool("step", "Step.", parameters=schema, run=step), Tool("load", "Load.", run=read)]


async def test_f33_task_corrections_state_and_skill_survive_and_the_head_stays(tmp_path):
    """F33: 80 tool turns, two corrections, a live list, a skill; 5,000 tokens kept."""
    skill = tmp_path / "skills" / "importing" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: importing\n---\nImport with care.\n")
    script = []
    for n in range(80):
        if n == 12:
            script.append([Call("read", {"path": str(skill)})])
        script.append([Call("step", {"n": n})])
        if n in (30, 61, 79):
            script.append(Say(f"so far {n}"))
    script += [Say("nearly"), Say("after")]
    options = AgentOptions(compaction=CompactionOptions(keep=5_000))
    summaries = []
    for run in range(2):
        path = tmp_path / f"{run}.jsonl"
        sim = Simulator(script, profile="anthropic")
        with Session.create(path, cwd=tmp_path, id="fixed") as session:
            plugins = [PLUGIN, ("todo", Todo())]
            async with lab(
                tmp_path, None, sim=sim, plugins=plugins, options=options, session=session
            ) as it:
                for prompt in (GOAL, FIRST, SECOND, LAST):
                    await it.agent.prompt(prompt)
                reply = await it.agent.prompt("/compact")
                await it.agent.prompt("go on")
            assert reply.startswith("compacted"), reply
            messages = session.messages()
        seen = "\n".join(str(getattr(m, "content", getattr(m, "summary", ""))) for m in messages)
        summed = next(m.summary for m in messages if isinstance(m, SummaryMessage))
        for words in (GOAL, FIRST, SECOND):
            assert words in summed or words in [getattr(m, "content", None) for m in messages]
        assert LAST in seen
        assert str(skill) in summed
        todos = [m for m in messages if isinstance(m, CustomMessage) and m.custom_type == "todo"]
        assert todos[-1].content.endswith("todo: step 79 of 80")
        assert (
            it.requests[-1].body.split(b'"messages"')[0]
            == it.requests[0].body.split(b'"messages"')[0]
        )
        ids = [entry.id for entry in session.branch()]
        for number, entry in enumerate(ids):
            summed = summed.replace(entry, f"#{number}")
        summaries.append(summed)
    assert summaries[0] == summaries[1]


async def test_f30_what_cannot_shrink_is_tried_once_and_told_once(tmp_path):
    """F30: head and kept tail alone are over the trigger; one prompt with five tool steps."""
    script = [Say("x"), *([Call("step", {"n": n})] for n in range(5)), Say("end")]
    options = AgentOptions(compaction=CompactionOptions(keep=24_000))
    plugins = [PLUGIN, ("todo", Todo())]
    async with lab(tmp_path, script, plugins=plugins, options=options) as it:
        it.agent.model = evolve(it.agent.model, context_window=20_000, binds_thinking=False)
        await it.agent.prompt("long " * 8_000)
        before = len(it.events)
        await it.agent.prompt("five steps")
    tried = [event for event in it.events[before:] if isinstance(event, Compacted)]
    told = [event.text for event in it.events[before:] if isinstance(event, Notice)]
    assert [event.status for event in tried] == ["skipped"]
    assert len([text for text in told if "compaction ended as skipped" in text]) == 1
    assert len(it.requests) == 7
    assert prefix_breaks(it.requests) == []


async def test_f32_nothing_to_sum_up_is_skipped_and_leaves_no_trace(tmp_path):
    """F32: the kept tail is everything; a summary of ours is not replaced by an emptier one."""
    options = AgentOptions(compaction=CompactionOptions(keep=1_500))
    script = [Say(f"answer {n}") for n in range(8)]
    async with lab(tmp_path, script, plugins=[PLUGIN], options=options) as it:
        await it.agent.prompt("short")
        assert "not compacted (skipped)" in await it.agent.prompt("/compact")
        for n in range(4):
            await it.agent.prompt(f"{n} " + "filler " * 700)
        assert (await it.agent.prompt("/compact")).startswith("compacted")
        before = it.agent.session.messages()
        assert "not compacted (skipped)" in await it.agent.prompt("/compact")
        assert it.agent.session.messages() == before
