"""The compactor in a real host, against the simulator."""

from __future__ import annotations

import json
import re

import pytest

import unipi_compactor
from unipi.agent import AgentOptions, Compacted, CompactionOptions
from unipi.session import Session
from unipi.sim import Call, Say, Simulator
from unipi.testing import host, lab, prefix_breaks
from unipi_hookspecs import Cancel, CustomMessage, SummaryMessage, Tool, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
PLUGIN = ("compactor", unipi_compactor)
RESUME = "unipi-compactor-resume"
LONG = "filler " * 700
KEEP = AgentOptions(compaction=CompactionOptions(keep=1_500))


class Refuses:
    """Lets no compaction happen."""

    @hookimpl
    def session_before_compact(self):
        return Cancel("not now")


class Works:
    """A tool with much output, and one that reports failure."""

    @hookimpl
    def register_tools(self):
        def look(call, ctx):
            return "seen " * 300

        return [Tool("look", "Look.", run=look)]


def outcomes(it):
    return [event for event in it.events if isinstance(event, Compacted)]


def summary(session):
    (found,) = [m.summary for m in session.messages() if isinstance(m, SummaryMessage)]
    return found


def resumes(session):
    messages = [entry.message for entry in session.branch()]
    return [m for m in messages if isinstance(m, CustomMessage) and m.custom_type == RESUME]


def settled(**values):
    """A host whose settings for this plugin are these."""

    def prepare(cwd, plugins=(PLUGIN,)):
        import attrs

        made = host(cwd, plugins)
        return attrs.evolve(made, settings={**made.settings, "compactor": values})

    return prepare


async def worked(it, prompts=4):
    for number in range(prompts):
        await it.agent.prompt(f"request {number}: keep port 80{number}. {LONG}")


def answers(count=12):
    return [Say(f"answer {n}") for n in range(count)]


# ---- the boundary


@pytest.mark.parametrize("api", APIS)
async def test_a_compaction_asks_no_model_and_is_one_boundary_of_ours(tmp_path, api):
    async with lab(tmp_path, answers(), plugins=[PLUGIN], api=api, options=KEEP) as it:
        await worked(it)
        before = len(it.requests)
        await it.agent.prompt("/compact")
        assert len(it.requests) == before
        await it.agent.prompt("next")
        await it.agent.prompt("and more")
    (outcome,) = outcomes(it)
    assert (outcome.status, outcome.plugin) == ("applied", "compactor")
    kinds = [(b.cause, b.owner) for b in it.boundaries]
    assert kinds == [("first", "host"), ("compaction", "compactor")]
    assert prefix_breaks(it.requests) == [before]


async def test_what_the_user_asked_stands_in_the_summary_word_for_word(tmp_path):
    first = "Port the parser.\n\n  Keep  `parse()` as it is;\tnever rename it."
    async with lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as it:
        await it.agent.prompt(first)
        await worked(it, 3)
        await it.agent.prompt('/unipi:compact mind the "table"  and don\'t forget')
        text = summary(it.agent.session)
    assert first in text
    assert 'mind the "table"  and don\'t forget' in text


async def test_one_request_with_many_calls_keeps_the_newest_of_them_as_they_are(tmp_path):
    script = [*([Call("look", {"n": n})] for n in range(30)), Say("done"), Say("more")]
    plugins = [PLUGIN, ("works", Works())]
    async with lab(tmp_path, script, plugins=plugins, options=KEEP) as it:
        await it.agent.prompt("look thirty times, and never stop before")
        await it.agent.prompt("/compact")
        await it.agent.prompt("go on")
        messages = it.agent.session.messages()
        text = summary(it.agent.session)
    assert "look thirty times, and never stop before" in text
    assert "goes on with the work on request" in text
    kept = [m for m in messages if m.role == "toolResult"]
    assert 1 < len(kept) < 29
    assert messages[1].role != "toolResult"


async def test_the_setting_can_leave_summaries_to_the_model(tmp_path):
    summed = "## Goal\n- Keep the ports as they are, and change no public name at all."
    script = [*answers(4), Say(summed), *answers(3)]
    prepared = settled(mode="model")(tmp_path)
    async with lab(tmp_path, script, prepared=prepared, options=KEEP) as it:
        await worked(it)
        await it.agent.prompt("/compact")
    (outcome,) = outcomes(it)
    assert (outcome.status, outcome.plugin) == ("applied", None)


async def test_twenty_compactions_keep_the_first_request_and_are_never_larger_than_their_bound(
    tmp_path,
):
    path = tmp_path / "s.jsonl"
    script = [*answers(61), [Call("session_recall", {"query": "lighthouse walrus"})], Say("done")]
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, script, plugins=[PLUGIN], options=KEEP, session=session) as it:
            await it.agent.prompt("Find the lighthouse walrus, and never wake it.")
            for number in range(20):
                await it.agent.prompt(f"part {number} {LONG}")
                await it.agent.prompt(f"and {number} {LONG}")
                await it.agent.prompt(f"also {number} {LONG}")
                await it.agent.prompt("/compact")
            text = summary(session)
            await it.agent.prompt("look it up")
            last = it.requests[-1].body.decode()
    assert {outcome.status for outcome in outcomes(it)} == {"applied"}
    assert "Find the lighthouse walrus, and never wake it." in text
    assert len(text.encode()) <= 32_768
    assert "Find the lighthouse walrus" in last.rpartition("tool_result")[2]


# ---- the resume context


async def test_the_resume_context_comes_once_and_not_again_after_a_reload(tmp_path):
    path = tmp_path / "s.jsonl"
    sim = Simulator(answers(), profile="anthropic")
    with Session.create(path, cwd=tmp_path) as session:
        options = {"plugins": [PLUGIN], "options": KEEP, "session": session}
        async with lab(tmp_path, None, sim=sim, **options) as it:
            await worked(it)
            assert resumes(session) == []
            await it.agent.prompt("/compact")
            await it.agent.prompt("next")
            assert len(resumes(session)) == 1
    with Session.open(path) as session:
        options["session"] = session
        async with lab(tmp_path, None, sim=sim, **options) as it:
            await it.agent.prompt("one more")
            await it.agent.prompt("and one")
        (found,) = resumes(session)
    assert not found.display
    assert sim.requests[-1].body.count(b"do not start over") == 1


async def test_the_resume_context_extends_the_new_epoch(tmp_path):
    async with lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as it:
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("next")
        await it.agent.prompt("more")
    assert it.requests[4].body.count(b"do not start over") == 1
    assert prefix_breaks(it.requests[4:]) == []


async def test_a_compaction_that_was_cancelled_leaves_no_resume_context(tmp_path):
    plugins = [PLUGIN, ("refuses", Refuses())]
    async with lab(tmp_path, answers(), plugins=plugins, options=KEEP) as it:
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("next")
        assert [outcome.status for outcome in outcomes(it)] == ["cancelled"]
        assert resumes(it.agent.session) == []


async def test_a_resume_context_that_a_crash_swallowed_is_sent_with_the_next_prompt(tmp_path):
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path) as session:
        options = {"plugins": [PLUGIN], "options": KEEP}
        async with lab(tmp_path, answers(), session=session, **options) as it:
            await worked(it)
            await it.agent.prompt("/compact")
    lines = path.read_text().splitlines(keepends=True)
    last = next(i for i, line in enumerate(lines) if '"compaction"' in line and "summary" in line)
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(lines[: last + 1]))
    with Session.open(cut) as session:
        async with lab(tmp_path, answers(), session=session, **options) as it:
            assert resumes(session) == []
            await it.agent.prompt("next")
            await it.agent.prompt("more")
        assert len(resumes(session)) == 1


async def test_the_resume_context_is_bounded_and_of_this_session_alone(tmp_path):
    async with (
        lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as one,
        lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as two,
    ):
        await two.agent.prompt("secret of the second")
        await worked(one)
        await one.agent.prompt("last words " + "z" * 40_000)
        await worked(two)
        for it in (one, two):
            await it.agent.prompt("/compact")
        (first,) = resumes(one.agent.session)
        assert len(first.content.encode()) <= 2_048
        assert "second" not in first.content
        assert "object at 0x" not in first.content
        assert "last words zzz" in first.content


async def test_the_tool_that_the_texts_name_exists_and_the_call_that_they_advise_succeeds(tmp_path):
    path = tmp_path / "s.jsonl"
    wide = [Say("one " + LONG), *answers(3)]
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, wide, plugins=[PLUGIN], options=KEEP, session=session) as it:
            await it.agent.prompt("begin " + "q" * 9_000 + " end")
            await worked(it, 3)
            await it.agent.prompt("/compact")
            tool, entry = re.search(
                r"bytes more: (\w+) with entry (\w+)", summary(session)
            ).groups()
            names = [tool.name for tool in it.agent.lineage.spec.tools]
        assert tool in names
    script = [[Call(tool, {"entry": entry})], Say("done")]
    with Session.open(path) as session:
        async with lab(tmp_path, script, plugins=[PLUGIN], options=KEEP, session=session) as it:
            await it.agent.prompt("show it")
            result = next(m for m in session.messages()[::-1] if m.role == "toolResult")
    assert not result.is_error
    assert "q" * 9_000 in result.content[0].text


# ---- recall


async def test_recall_finds_what_only_stood_before_the_compaction(tmp_path):
    path = tmp_path / "s.jsonl"
    script = [
        Say("The lighthouse code is 4711-basalt."),
        *answers(3),
        [Call("session_recall", {"query": "lighthouse code"})],
        Say("done"),
    ]
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, script, plugins=[PLUGIN], options=KEEP, session=session) as it:
            await it.agent.prompt("What is it?")
            await worked(it, 3)
            await it.agent.prompt("/compact")
            await it.agent.prompt("look it up")
            last = it.requests[-1].body.decode()
    assert "4711-basalt" in last.rpartition("hits, 1 to")[2]


async def test_recall_works_in_a_session_that_is_in_no_file_and_in_one_of_version_1(tmp_path):
    old = tmp_path / "old.jsonl"
    header = {
        "type": "session",
        "id": "v1",
        "timestamp": "2025-01-01T00:00:00.000Z",
        "cwd": str(tmp_path),
    }
    said = {"type": "message", "message": {"role": "user", "content": "the hoopoe calls"}}
    reply = {
        "type": "message",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "yes"}]},
    }
    cut = {
        "type": "compaction",
        "summary": "A bird was heard, and nothing else.",
        "firstKeptEntryIndex": 9,
    }
    old.write_text("".join(json.dumps(line) + "\n" for line in (header, said, reply, cut)))
    script = [[Call("session_recall", {"query": "hoopoe"})], Say("done")]
    with Session.open(old) as session:
        async with lab(tmp_path, script, plugins=[PLUGIN], options=KEEP, session=session) as it:
            await it.agent.prompt("what was it?")
            result = next(m for m in session.messages()[::-1] if m.role == "toolResult")
        assert "the hoopoe calls" in result.content[0].text
        ids = re.findall(r"\[(\w+)\]", result.content[0].text)
        assert ids[0] in {entry.id for entry in session.entries()}
    async with lab(tmp_path, answers(6) + script, plugins=[PLUGIN], options=KEEP) as it:
        await it.agent.prompt("the hoopoe of memory")
        await worked(it)
        await it.agent.prompt("/compact")
        await it.agent.prompt("well?")
        await it.agent.prompt("look")
        found = [m for m in it.agent.session.messages() if m.role == "toolResult"]
    assert "the hoopoe of memory" in found[-1].content[0].text


async def test_the_tools_are_the_same_when_there_can_be_no_index(tmp_path):
    path = tmp_path / "s.jsonl"
    script = [[Call("session_recall", {"query": "x"})], Say("done"), Say("more")]
    with Session.create(path, cwd=tmp_path) as session:
        (tmp_path / ".unipi-recall.sqlite3").mkdir()
        async with lab(tmp_path, script, plugins=[PLUGIN], session=session) as it:
            await it.agent.prompt("look")
            await it.agent.prompt("more")
            result = next(m for m in session.messages() if m.role == "toolResult")
    assert result.is_error
    assert "index of earlier history cannot be used" in result.content[0].text
    assert prefix_breaks(it.requests) == []


# ---- the commands and the trigger


async def test_a_dry_run_shows_the_summary_and_the_price_and_changes_nothing(tmp_path):
    async with lab(tmp_path, answers(), plugins=[PLUGIN]) as it:
        for number in range(8):
            await it.agent.prompt(f"request {number}: never stop. {LONG * 5}")
        before = len(it.agent.session.entries())
        reply = await it.agent.prompt("/unipi:compact --dry-run --preset lean")
        assert len(it.agent.session.entries()) == before
    assert "messages" in reply
    assert "preset lean" in reply
    assert re.search(r"gives up [\d,]+ cached tokens|costs nothing now", reply)
    assert "request 0: never stop." in reply


async def test_the_command_compacts_and_a_preset_stays_with_the_session(tmp_path):
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path) as session:
        options = {"plugins": [PLUGIN], "options": KEEP, "session": session}
        async with lab(tmp_path, answers(), **options) as it:
            await worked(it)
            assert "no preset" in await it.agent.prompt("/unipi:compact --preset huge")
            assert "usage" in await it.agent.prompt("/unipi:compact --preset precise --force")
            assert "preset balanced" in await it.agent.prompt("/unipi:compact-preset")
            reply = await it.agent.prompt("/unipi:compact --preset lean")
        assert reply.startswith("compacted")
        details = next(e for e in session.branch() if e.type == "compaction").fields["details"]
        assert details["preset"] == "lean"
    with Session.open(path) as session:
        options["session"] = session
        async with lab(tmp_path, answers(), **options) as it:
            assert "preset lean" in await it.agent.prompt("/unipi:compact-preset")
            await it.agent.prompt("/unipi:compact-preset thorough")
            assert "preset thorough" in await it.agent.prompt("/unipi:compact-preset")


async def test_statistics_are_what_the_session_holds(tmp_path):
    async with lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as it:
        await it.agent.prompt("hello")
        assert "never compacted" in await it.agent.prompt("/unipi:compact-stats")
        await worked(it)
        await it.agent.prompt("/compact")
        text = await it.agent.prompt("/unipi:compact-stats")
        (entry,) = [e for e in it.agent.session.branch() if e.type == "compaction"]
    assert "Compactions of this branch: 1" in text
    assert f"{entry.fields['tokensBefore']:,} tokens before" in text
    assert f"a summary of {len(entry.fields['summary'].encode()):,} bytes, without a model" in text


async def test_the_trigger_compacts_before_the_next_request_and_aborts_nothing(tmp_path):
    prepared = settled(trigger={"enabled": True, "percent": 2, "cooldown": 0})(
        tmp_path, [PLUGIN, ("works", Works())]
    )
    script = [Say("one"), Say("two"), [Call("look", {})], Say("after the call"), Say("more")]
    async with lab(tmp_path, script, prepared=prepared, options=KEEP) as it:
        await it.agent.prompt(f"first {LONG}")
        await it.agent.prompt(f"second {LONG}")
        await it.agent.prompt(f"third {LONG}{LONG}")
        await it.agent.prompt("fourth")
    applied = [outcome for outcome in outcomes(it) if outcome.status == "applied"]
    assert applied
    assert {outcome.plugin for outcome in applied} == {"compactor"}
    owners = {(b.cause, b.owner) for b in it.boundaries}
    assert ("compaction", "compactor") in owners
    said = [m for e in it.agent.session.branch() if (m := e.message) is not None]
    assert [m.stop_reason for m in said if m.role == "assistant"] == [
        "stop",
        "stop",
        "toolUse",
        "stop",
        "stop",
    ]


async def test_the_trigger_is_off_by_default(tmp_path):
    async with lab(tmp_path, answers(), plugins=[PLUGIN], options=KEEP) as it:
        await worked(it)
    assert outcomes(it) == []


async def test_the_trigger_waits_out_its_cool_down_after_a_compaction(tmp_path):
    prepared = settled(trigger={"enabled": True, "percent": 3, "cooldown": 3_600})(tmp_path)
    async with lab(tmp_path, answers(), prepared=prepared, options=KEEP) as it:
        await worked(it, 9)
    assert [outcome.status for outcome in outcomes(it)].count("applied") == 1


async def test_a_compaction_that_the_user_asked_for_starts_the_cool_down_too(tmp_path):
    prepared = settled(trigger={"enabled": True, "percent": 3, "cooldown": 3_600})(tmp_path)
    async with lab(tmp_path, answers(), prepared=prepared, options=KEEP) as it:
        await worked(it, 3)
        await it.agent.prompt("/compact")
        await worked(it, 6)
        assert it.agent.compactor.tokens > 0.03 * it.agent.model.context_window
    assert [outcome.why for outcome in outcomes(it)] == ["manual"]


async def test_a_resume_context_keeps_its_bound_with_much_to_say(tmp_path):
    prepared = settled(resume_bytes=300)(tmp_path)
    async with lab(tmp_path, answers(), prepared=prepared, options=KEEP) as it:
        await worked(it)
        await it.agent.prompt("last 鳥" * 400)
        await it.agent.prompt("/compact")
        (found,) = resumes(it.agent.session)
    assert len(found.content.encode()) <= 300
    assert found.content.endswith("…")


async def test_a_branch_that_is_left_is_summed_up_without_a_model(tmp_path):
    from unipi.agent.moving import move_to

    async with lab(tmp_path, answers(), plugins=[PLUGIN]) as it:
        await it.agent.prompt("Begin.")
        place = it.agent.session.leaf_id
        await worked(it, 3)
        asked = len(it.requests)
        moved = await move_to(it.agent, place, summarize=True)
        assert moved.moved
        assert len(it.requests) == asked
        text = summary(it.agent.session)
        await it.agent.prompt("another way")
    assert all(f"request {n}: keep port 80{n}." in text for n in range(3))
    assert "Begin." not in text
    assert [boundary.cause for boundary in it.boundaries] == ["first", "branch_summary"]
