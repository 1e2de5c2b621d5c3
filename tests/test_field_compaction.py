"""Field reports F28, F29, F31 and F34: pairs, open calls, failures and races around a compaction."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import anyio
import pytest

from unipi.agent import AgentOptions, CompactionOptions, RetryPolicy
from unipi.session import Session
from unipi.sim import Answer, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import (
    AssistantMessage,
    SummaryMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SUMMARY = "## Goal\n- Keep the tests green, as the user asked.\n## Done\n- a.py was read."
LONG = "word " * 800
KEEP = AgentOptions(
    compaction=CompactionOptions(keep=1_500), retry=RetryPolicy(base=0.01, cap=0.02)
)


def line(kind, number, parent, **fields):
    return {
        "type": kind,
        "id": f"{number:08x}",
        "parentId": parent and f"{parent:08x}",
        "timestamp": f"2026-11-01T10:{number % 60:02}:00.000Z",
        **fields,
    }


def message(number, parent, **inner):
    return line("message", number, parent, message={**inner, "timestamp": 1_000 + number})


def said(number, parent, role, text):
    content = [{"type": "text", "text": text}]
    extra = {"api": "x", "provider": "x", "model": "x", "stopReason": "stop", "usage": {}}
    return message(
        number, parent, role=role, content=content, **(extra if role == "assistant" else {})
    )


@pytest.mark.parametrize("api", APIS)
async def test_two_compactions_in_a_row_leave_no_result_without_its_call(
    tmp_path: Path, api
) -> None:
    """F28: call, older compaction, result, more, a newer compaction that keeps from before the older."""
    path = tmp_path / "pi.jsonl"
    call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
    lines = [
        {
            "type": "session",
            "version": 3,
            "id": "s1",
            "timestamp": "2026-11-01T09:00:00.000Z",
            "cwd": str(tmp_path),
        },
        said(1, None, "user", "start"),
        message(
            2,
            1,
            role="assistant",
            content=[call],
            api="x",
            provider="x",
            model="x",
            stopReason="toolUse",
            usage={},
        ),
        line("compaction", 3, 2, summary="older", firstKeptEntryId=f"{2:08x}", tokensBefore=10),
        message(
            4,
            3,
            role="toolResult",
            toolCallId="c1",
            toolName="ls",
            content=[{"type": "text", "text": "files"}],
            isError=False,
        ),
    ]
    last = 4
    for number in range(5, 85):
        role = "user" if number % 2 else "assistant"
        lines.append(said(number, last, role, f"{role} {number}"))
        last = number
    lines.append(
        line("compaction", 85, last, summary="newer", firstKeptEntryId=f"{3:08x}", tokensBefore=20)
    )
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    before = path.read_bytes()
    with Session.open(path, read_only=True) as session:
        messages = [item.message for item in session.context()]
    assert path.read_bytes() == before
    calls = {
        p.id
        for m in messages
        if isinstance(m, AssistantMessage)
        for p in m.content
        if isinstance(p, ToolCall)
    }
    results = {m.tool_call_id for m in messages if isinstance(m, ToolResultMessage)}
    assert calls == results
    sim = Simulator([Say("on")], profile="anthropic", strict=True)
    with Session.open(path) as session:
        async with lab(tmp_path, (), sim=sim, session=session, api=api) as it:
            await it.agent.prompt("go on")
    assert [request.status for request in sim.requests] == [200]


@pytest.mark.parametrize("api", APIS)
async def test_calls_that_were_never_run_are_closed_before_a_compaction_looks_at_them(
    tmp_path: Path, api
) -> None:
    """F29: the process died between the answer and its calls."""
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path) as session:
        for number in range(6):
            session.append_message(UserMessage(f"{number} {LONG}", number * 2 + 1))
            session.append_message(
                AssistantMessage(
                    (Text("ok"),), api="x", provider="x", model="x", timestamp=number * 2 + 2
                )
            )
        session.append_message(UserMessage("look", 20))
        calls = tuple(ToolCall(id=name, name="ls", arguments={}) for name in ("a", "b"))
        session.append_message(
            AssistantMessage(
                calls, api="x", provider="x", model="x", stop_reason="toolUse", timestamp=21
            )
        )
    sim = Simulator([Say(SUMMARY), Say("on"), Say("again")], profile="anthropic", strict=True)
    with Session.open(path) as session:
        async with lab(tmp_path, (), sim=sim, session=session, api=api, options=KEEP) as it:
            assert "compacted" in await it.agent.prompt("/compact")
            await it.agent.prompt("next")
            await it.agent.prompt("/continue")  # behind an answer too
    assert b"Go on." in sim.requests[-1].body
    assert {request.status for request in sim.requests} == {200}
    results = [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]
    assert all(m.is_error for m in results)


async def test_a_disk_error_while_the_summary_is_written_gives_nothing_up(
    tmp_path: Path, monkeypatch
) -> None:
    """F31: the entry could not be put on disk; when it can, it is there once and whole."""
    path = tmp_path / "s.jsonl"
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), Say("five")]
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, script, session=session, options=KEEP) as it:
            for number in range(4):
                await it.agent.prompt(f"{number} {LONG}")
            real, failing = os.write, [3]

            def write(fd, data):
                if failing[0] and b'"compaction"' in bytes(data):
                    failing[0] -= 1
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real(fd, data)

            monkeypatch.setattr(os, "write", write)
            assert "compacted" in await it.agent.prompt("/compact")
            await it.agent.prompt("next")
    text = path.read_text()
    assert text.count('"type":"compaction"') == 1
    assert failing == [0]
    with Session.open(path, read_only=True) as again:
        assert any(isinstance(m, SummaryMessage) for m in again.messages())


async def test_a_summary_that_the_user_cancels_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """F31: the next turn extends the old prefix."""
    slow = Answer([Say(SUMMARY)], delay=30.0)
    script = [*(Say(f"answer {n}") for n in range(4)), slow, Say("five")]
    async with lab(tmp_path, script, options=KEEP) as it:
        for number in range(4):
            await it.agent.prompt(f"{number} {LONG}")
        entries = len(it.agent.session.entries())
        with anyio.move_on_after(0.2):
            await it.agent.prompt("/compact")
        assert len(it.agent.session.entries()) == entries
        await it.agent.prompt("next")
    assert [m for m in it.agent.session.messages() if isinstance(m, SummaryMessage)] == []
    answered = [it.requests[3], it.requests[-1]]
    assert prefix_breaks(answered) == []


class Racer:
    """While the summary is asked for: a prompt, a steer, a plugin's message, another /compact."""

    def __init__(self):
        self.agent = None
        self.replies = []
        self.tasks = None

    @hookimpl
    async def session_before_compact(self, ctx):
        if self.tasks is None:
            return
        tasks, self.tasks = self.tasks, None
        tasks.start_soon(self._say, "typed meanwhile")
        self.agent.steer("steered meanwhile")
        await ctx.send_user_message("from a plugin", deliver="follow_up")
        tasks.start_soon(self._say, "/compact")

    async def _say(self, text):
        self.replies.append(await self.agent.prompt(text))


async def test_what_is_said_while_a_compaction_runs_arrives_once_and_behind_it(
    tmp_path: Path,
) -> None:
    """F34"""
    racer = Racer()
    script = [*(Say(f"answer {n}") for n in range(4)), Say(SUMMARY), *(Say("ok") for _ in range(6))]
    async with (
        lab(tmp_path, script, options=KEEP, plugins=[("racer", racer)]) as it,
        anyio.create_task_group() as tasks,
    ):
        racer.agent, racer.tasks = it.agent, None
        for number in range(4):
            await it.agent.prompt(f"{number} {LONG}")
        racer.tasks = tasks
        assert "compacted" in await it.agent.prompt("/compact")
        with anyio.fail_after(5):
            while len(racer.replies) < 2:
                await anyio.sleep(0.01)
            await it.agent.settled()
    entries = it.agent.session.entries()
    place = next(i for i, e in enumerate(entries) if e.type == "compaction")
    after = [e.message.content for e in entries[place:] if isinstance(e.message, UserMessage)]
    for text in ("typed meanwhile", "steered meanwhile", "from a plugin"):
        assert after.count(text) == 1, after
    assert sum(e.type == "compaction" for e in entries) == 1
    assert any(reply and "not compacted" in reply for reply in racer.replies)


@pytest.mark.parametrize("api", ["openai-chat-completions", "openai-responses"])
async def test_the_routing_key_goes_with_requests_that_extend_the_prefix_and_no_others_are_sent(
    tmp_path: Path, api: str
) -> None:
    """F27: turns, a summary and a side request all begin with the session's prefix."""
    from attrs import evolve

    from unipi.agent.side import ask_beside
    from unipi.prefix.marks import extended_by

    script = [*(Say(f"answer {n}") for n in range(4)), Say("A title"), Say(SUMMARY), Say("on")]
    sim = Simulator(script, profile="openai_56")
    async with lab(tmp_path, (), sim=sim, api=api, options=KEEP) as it:
        it.agent.model = evolve(it.agent.model, dialect="openai")
        for number in range(4):
            await it.agent.prompt(f"{number} {LONG}")
        await ask_beside(it.agent, "title", [UserMessage("A title, please.", 1)])
        assert "compacted" in await it.agent.prompt("/compact")
        await it.agent.prompt("next")
    keys = {request.parsed["prompt_cache_key"] for request in it.requests}
    assert keys == {it.agent.session.id}
    last_turn = it.requests[3].body
    for beside in it.requests[4:6]:
        assert extended_by(last_turn, beside.body) is not None
        assert beside.cached_tokens >= it.requests[3].prompt_tokens
