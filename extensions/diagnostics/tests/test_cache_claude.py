"""Claude Code's transcripts: each planted rebuild is found, with its tokens and its cause.

Run as a script, it writes the transcripts into a folder laid out like `~/.claude`, so that other
tools can be set beside ours (docs/cache.md): `python test_cache_claude.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from unipi_diagnostics.audit import Auditor
from unipi_diagnostics.audit_files import session_files, spend
from unipi_diagnostics.audit_money import Spending
from unipi_diagnostics.audit_rates import PriceBook
from unipi_diagnostics.readers import read

BEGIN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


class Transcript:
    """One file of Claude Code; `answer` plays the provider's cache and counts what it loses."""

    def __init__(self, path, session="s1", agent=None, model="claude-sonnet-5", cwd="/w/app"):
        self.path, self.session, self.agent, self.model, self.cwd = path, session, agent, model, cwd
        self.version = "2.3.0"
        self.lines = []
        self.now = BEGIN
        self.cached = 0
        self.prompt = 0
        self.long = False
        self.level = None
        self.planted = []
        self.last_uuid = None
        self.number = 0

    def line(self, kind, **fields):
        # Ids are made from the place of the line, so that two runs write the same bytes.
        own = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.path.name}/{len(self.lines)}"))
        stamp = f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.now.microsecond // 1000:03d}Z"
        common = {"parentUuid": self.last_uuid, "isSidechain": self.agent is not None}
        common |= {"userType": "external", "cwd": self.cwd, "sessionId": self.session}
        common |= {"version": self.version, "gitBranch": "main"}
        if self.agent:
            common["agentId"] = self.agent
        self.lines.append({**common, "type": kind, "uuid": own, "timestamp": stamp, **fields})
        self.last_uuid = own
        return self

    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)
        return self

    def say(self, text="Go on.", **fields):
        self.wait(2)
        if self.level:
            fields["thinkingMetadata"] = {"level": self.level, "disabled": False, "triggers": []}
        return self.line("user", message={"role": "user", "content": text}, **fields)

    def result(self):
        part = {"tool_use_id": f"toolu_{self.number}", "type": "tool_result", "content": "ok"}
        return self.line("user", message={"role": "user", "content": [part]})

    def answer(self, new=900, *, rebuilt=None, blocks=2, system=0):
        """An answer whose prompt is `new` tokens longer; `rebuilt` is the planted cause of a miss.

        `system` tokens of a rebuilt prompt are still read: another conversation keeps them warm.
        """
        self.wait(3)
        self.number += 1
        before, prompt = self.prompt, self.prompt + new
        hit = system if rebuilt else self.cached
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": prompt - hit,
            "cache_read_input_tokens": hit,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 0 if self.long else prompt - hit,
                "ephemeral_1h_input_tokens": prompt - hit if self.long else 0,
            },
            "service_tier": "standard",
        }
        if rebuilt:
            self.planted.append((rebuilt, before + 4 - hit if before else 0))
        message_id, request = (
            f"msg_{self.path.stem}_{self.number}",
            f"req_{self.path.stem}_{self.number}",
        )
        for block in range(blocks):
            usage = {**usage, "output_tokens": 1 if block < blocks - 1 else 300}
            content = [
                {"type": "tool_use", "id": f"toolu_{self.number}", "name": "Read", "input": {}}
            ]
            if block == 0:
                content = [{"type": "text", "text": "Looking."}]
            message = {"id": message_id, "type": "message", "role": "assistant"}
            message |= {"model": self.model, "content": content, "usage": usage}
            message["stop_reason"] = "tool_use" if block == blocks - 1 else None
            self.line("assistant", message=message, requestId=request)
        self.cached = self.prompt = prompt
        return self

    def turn(self, answers=4, **first):
        self.say().answer(**first)
        for _ in range(answers - 1):
            self.result().answer()
        return self

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return self


def plain_session(path, **options):
    return Transcript(path, **options).turn(new=30_000)


def rebuilds(folder):
    """A session with one of each: what broke is written where such a file tells it."""
    it = plain_session(folder / "rebuilds.jsonl", session="rebuilds").turn()
    it.turn(rebuilt="unexplained", system=12_000)
    it.wait(432).turn(rebuilt="idle")
    it.model = "claude-opus-5"
    it.turn(rebuilt="model")
    it.level = "low"
    it.turn()
    it.level = "high"
    it.turn(rebuilt="thinking_level", system=12_000)
    it.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    before, it.prompt, it.cached = it.prompt, 0, 0
    it.say("Summary of the conversation.", isCompactSummary=True)
    it.prompt = 9_000 - 900
    it.answer(rebuilt="compaction")
    it.planted[-1] = ("compaction", before + 4)
    it.line(
        "user",
        message={
            "role": "user",
            "content": [{"type": "text", "text": "[Request interrupted by user]"}],
        },
    )
    it.turn(rebuilt="after_abort")
    error = {"id": "e", "model": "<synthetic>", "role": "assistant", "content": [], "usage": {}}
    it.say().line("assistant", message=error, isApiErrorMessage=True)
    it.turn(rebuilt="after_error")
    it.version = "2.4.0"
    it.turn(rebuilt="client_update")
    return it.save()


def long_pauses(folder):
    """Written for an hour: twenty minutes are no pause, seventy are one."""
    it = Transcript(folder / "pauses.jsonl", session="pauses")
    it.long = True
    it.turn(new=40_000).wait(1_200).turn().wait(4_200).turn(rebuilt="idle")
    return it.save()


def with_agents(folder):
    """Two sub-agents between the turns, one in a file of its own, one in the middle of the main."""
    it = plain_session(folder / "agents.jsonl", session="agents")
    inner = plain_session(
        folder / "inner.jsonl", session="agents", agent="a1b2", model="claude-haiku-4-5"
    )
    it.lines += inner.lines[:6]
    it.turn()
    it.lines += inner.lines[6:]
    it.turn().save()
    outer = plain_session(
        folder / "agents" / "subagents" / "agent-c3d4.jsonl", session="agents", agent="c3d4"
    )
    outer.turn(rebuilt="unexplained").save()
    it.planted += outer.planted
    return it


def resumed(folder):
    """A resumed session begins with a copy of the old one's lines, and goes on with a rebuild."""
    old = rebuilds(folder)
    it = Transcript(folder / "resumed.jsonl", session="resumed")
    it.lines = [dict(line) for line in old.lines]
    it.last_uuid, it.now, it.prompt, it.cached = old.last_uuid, old.now, old.prompt, old.cached
    it.model, it.version, it.level = old.model, old.version, old.level
    it.turn(rebuilt="unexplained")
    return it.save()


def found(path):
    _, records = read(path)
    return [(j.cause, j.lost) for j in Auditor().judge(records) if j.missed]


def test_every_planted_rebuild_is_found_with_its_cause_and_its_tokens(tmp_path):
    it = rebuilds(tmp_path)
    assert len(it.planted) == 8
    assert found(it.path) == it.planted


def test_a_prompt_that_was_written_for_an_hour_is_not_idle_after_twenty_minutes(tmp_path):
    it = long_pauses(tmp_path)
    assert [cause for cause, _ in it.planted] == ["idle"]
    assert found(it.path) == it.planted


def test_a_sub_agent_is_compared_with_itself_wherever_its_lines_stand(tmp_path):
    it = with_agents(tmp_path)
    assert found(it.path) == []
    (agents,) = (tmp_path / "agents").rglob("*.jsonl")
    assert found(agents) == it.planted


def test_sub_agents_without_an_id_are_told_apart_by_their_first_line(tmp_path):
    path = tmp_path / "old.jsonl"
    one = plain_session(path.with_name("one.jsonl"), agent="x").turn()
    two = plain_session(path.with_name("two.jsonl"), agent="y").turn()
    mixed = [line for pair in zip(one.lines, two.lines, strict=True) for line in pair]
    for line in mixed:
        del line["agentId"]
    path.write_text("".join(json.dumps(line) + "\n" for line in mixed))
    assert found(path) == []


def test_the_lines_of_an_answer_count_once_and_with_their_last_figures(tmp_path):
    it = plain_session(tmp_path / "one.jsonl").save()
    _, records = read(it.path)
    rows = list(Auditor().judge(records))
    assert len(rows) == it.number
    assert {row.answer.output for row in rows} == {300}


def test_a_tool_result_between_the_lines_of_an_answer_does_not_make_it_two(tmp_path):
    it = plain_session(tmp_path / "one.jsonl")
    first = next(i for i, line in enumerate(it.lines) if line["type"] == "assistant")
    it.lines.insert(first + 1, it.lines[first + 2])  # the result stands before the second block
    it.save()
    _, records = read(it.path)
    assert len(list(Auditor().judge(records))) == it.number


def test_what_a_resumed_session_copied_is_paid_for_once(tmp_path):
    it = resumed(tmp_path)
    spending = Spending(PriceBook())
    spend(spending, session_files([tmp_path]), None)
    assert (spending.files, spending.copies) == (
        2,
        it.planted and _answers(tmp_path / "rebuilds.jsonl"),
    )
    assert spending.total.misses == 9
    assert spending.total.requests == spending.copies + 4


def _answers(path):
    _, records = read(path)
    return len(list(Auditor().judge(records)))


@pytest.mark.parametrize("damage", ["not json", '{"type": "assistant"', "[1]", '{"type": 7}', ""])
def test_a_damaged_line_does_not_hide_the_rest(tmp_path, damage):
    it = rebuilds(tmp_path)
    lines = it.path.read_text().splitlines()
    lines[9:9] = [damage]
    it.path.write_text("\n".join(lines) + '\n{"torn')
    assert [lost for _, lost in found(it.path)] == [lost for _, lost in it.planted]


if __name__ == "__main__":
    project = Path(sys.argv[1]) / "projects" / "-w-app"
    for made in (rebuilds, long_pauses, with_agents):
        script = made(project)
        print(script.path.name, *script.planted, sep="\n  ")
