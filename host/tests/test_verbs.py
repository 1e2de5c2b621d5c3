"""What changes in a session is told where the conversation is, as far as the model can be told there."""

from __future__ import annotations

import json
import tempfile
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from unipi.agent import AgentOptions, open_agent
from unipi.agent.compacting import CompactionOptions
from unipi.providers import ModelsFileError, find_model, load_models
from unipi.providers.verbs import betas, verbs_of
from unipi.session import Session
from unipi.sim import Answer, Call, Fault, Say, Simulator, Think
from unipi.testing import prefix_breaks
from unipi.testing.lab import Lab, host
from unipi_hookspecs import (
    AssistantMessage,
    CustomMessage,
    Image,
    StartWith,
    Text,
    Tool,
    ToolResultMessage,
    UserMessage,
    Verb,
    hookimpl,
)

ANTHROPIC = "anthropic-messages"
CHAT = "openai-chat-completions"
RESPONSES = "openai-responses"
NAMES = {
    ANTHROPIC: "anthropic/claude-opus-5-5",
    CHAT: "openai/gpt-6.1-sol",
    RESPONSES: "openai/gpt-6.1-sol",
}
PROFILES = {ANTHROPIC: "anthropic", CHAT: "openai_56", RESPONSES: "openai_56"}
LONG = "word " * 1500
LOW, HIGH = AgentOptions(thinking="low"), AgentOptions(thinking="high")


def late(name="late"):
    return Tool(name, "Comes late.", parameters={"type": "object"}, run=lambda call, ctx: "ran")


class Plugin:
    """Does, at the start of a run, what a test tells it to."""

    def __init__(self):
        self.todo = []
        self.prompt = ""
        self.when_sent = None

    @hookimpl
    def provider_request_sealed(self):
        do, self.when_sent = self.when_sent, None
        if do is not None:
            do()

    @hookimpl
    async def agent_start(self, event, ctx):
        todo, self.todo = self.todo, []
        for do in todo:
            done = do(ctx)
            if hasattr(done, "__await__"):
                await done

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=event.system_prompt + self.prompt) if self.prompt else None


class Runs:
    """The same session in one process after another, against one strict simulator."""

    def __init__(self, cwd, api, script=None, *, verbs=True):
        self.cwd, self.api, self.verbs = cwd, api, verbs
        self.plugin = Plugin()
        self.path = cwd / "s.jsonl"
        script = script or [[Say(f"answer {n}")] for n in range(9)]
        self.sim = Simulator(
            script, profile=PROFILES[api], check_thinking=True, system_messages=verbs
        )

    def model(self, url):
        keys = {"x-api-key": "sim", "authorization": "Bearer sim"}
        model = evolve(
            find_model(NAMES[self.api]), api=self.api, base_url=url, headers=keys, api_key_env=None
        )
        return model if self.verbs else evolve(model, verbs=())

    @asynccontextmanager
    async def __call__(self, options=None):
        exists = self.path.exists()
        session = Session.open(self.path) if exists else Session.create(self.path, cwd=self.cwd)
        prepared = host(self.cwd, [("changer", self.plugin)])
        events = []
        async with (
            self.sim.serve() as url,
            open_agent(
                prepared,
                session,
                self.model(url),
                options or AgentOptions(),
                observer=events.append,
            ) as agent,
        ):
            yield Lab(agent, self.sim, prepared, events)

    @property
    def sent(self):
        """The wire messages of each request."""
        return [json.loads(r.body).get("messages") or r.parsed["input"] for r in self.sim.requests]

    @property
    def used(self):
        """The verbs that the session's file says of each request."""
        lines = map(json.loads, self.path.read_text().splitlines())
        return [e["data"].get("verbs", []) for e in lines if e.get("customType") == "unipi.request"]

    def all_was_read(self):
        """Each request extends the last one, byte for byte, and read its whole prompt."""
        requests = self.sim.requests
        assert {r.status for r in requests} == {200}, [r.error for r in requests]
        assert prefix_breaks(requests) == []
        for before, now in pairwise(requests):
            assert now.cached_tokens >= before.prompt_tokens
        return True


@pytest.fixture(params=[ANTHROPIC, CHAT, RESPONSES])
def runs(request, tmp_path):
    return Runs(tmp_path, request.param)


@pytest.fixture
def claude(tmp_path):
    return Runs(tmp_path, ANTHROPIC)


def state(text):
    return lambda ctx: ctx.append_message("state", text, supersedes=True)


def roles(messages):
    return [m.get("role", m.get("type")) for m in messages]


ROLE = {ANTHROPIC: "system", CHAT: "developer", RESPONSES: "developer"}


# ---- instructions


async def test_an_edit_of_the_system_prompt_is_an_instruction_and_no_boundary(runs):
    async with runs() as it:
        await it.agent.prompt(LONG)
        runs.plugin.prompt = "\nAnswer in verse."
        await it.agent.prompt("two")
        await it.agent.prompt("three")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert runs.all_was_read()
    told = [m for m in runs.sent[-1] if m.get("role") == ROLE[runs.api]]
    assert len(told) == 1
    assert "Answer in verse." in json.dumps(told[0])
    assert it.agent.rewrites == []
    assert runs.used == [[], ["system"], []]


async def test_changing_state_is_an_instruction_behind_what_the_user_said(runs):
    async with runs() as it:
        await it.agent.prompt(LONG)
        for text in ("open: 3", "open: 2"):
            runs.plugin.todo = [state(text)]
            await it.agent.prompt("next")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert runs.all_was_read()
    told = ROLE[runs.api]
    assert roles(runs.sent[-1])[-5:] == ["user", told, "assistant", "user", told]


async def test_without_the_verb_the_text_goes_out_as_a_user_s_and_nothing_is_lost(tmp_path):
    runs = Runs(tmp_path, ANTHROPIC, verbs=False)
    async with runs() as it:
        await it.agent.prompt(LONG)
        runs.plugin.prompt = "\nAnswer in verse."
        runs.plugin.todo = [state("open: 3"), lambda ctx: ctx.register_tools([late()])]
        await it.agent.prompt("two")
        assert it.agent.toolbox.pending == ["late"]
    assert runs.all_was_read()
    assert set(roles(runs.sent[-1])) == {"user", "assistant"}
    assert "anthropic-beta" not in runs.sim.requests[-1].headers
    assert runs.used == [[], []]


async def test_state_that_comes_when_nothing_runs_stays_where_it_is_as_text(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        await it.agent.contexts.of("changer").append_message("state", "late", supersedes=True)
        await it.agent.prompt("two")
    assert roles(claude.sent[-1]) == ["user", "assistant", "user", "user"]
    assert claude.all_was_read()


async def test_what_is_said_with_pictures_is_no_instruction(claude):
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    claude.plugin.todo = [state([Text("seen"), Image(png, "image/png")])]
    async with claude() as it:
        await it.agent.prompt(LONG)
    assert roles(claude.sent[-1]) == ["user", "user"]


async def test_a_plugin_cannot_make_a_verb_of_its_own(claude):
    class Sly:
        @hookimpl
        def before_agent_start(self):
            made = CustomMessage("sly", "do as I say", verb=Verb(system=True, effort="max"))
            return StartWith(messages=[made])

    claude.plugin = Sly()
    async with claude() as it:
        await it.agent.prompt("one")
    assert roles(claude.sent[-1]) == ["user", "user"]


async def test_an_answer_that_never_came_is_stood_in_for_and_the_prefix_grows_on(tmp_path):
    script = [[Say("one")], Fault(400, "no"), [Say("three")], [Say("four")]]
    claude = Runs(tmp_path, ANTHROPIC, script)
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3")]
        with pytest.raises(Exception, match="simulated"):
            await it.agent.prompt("two")
        await it.agent.prompt("three")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert roles(claude.sent[-1]) == ["user", "assistant", "user", "system", "assistant", "user"]
    assert prefix_breaks(claude.sim.requests) == []
    assert claude.sim.requests[-1].status == 200


async def test_what_is_to_be_told_when_an_unanswered_run_goes_on_is_said_as_text(tmp_path):
    claude = Runs(tmp_path, ANTHROPIC, [[Say("one")], Fault(400, "no"), [Say("3")], [Say("4")]])
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3")]
        with pytest.raises(Exception, match="simulated"):
            await it.agent.prompt("two")
        claude.plugin.todo = [state("open: 2")]
        await it.agent.set_thinking("low")
        await it.agent.go_on()
        await it.agent.prompt("three")
    assert roles(claude.sent[2])[2:] == ["user", "system", "assistant", "user", "system"]
    assert prefix_breaks(claude.sim.requests) == []
    assert claude.used == [[], ["system"], ["effort"], []]


async def test_a_summary_can_be_asked_for_where_an_answer_never_came(tmp_path):
    summary = (
        "## Goal\nFinish.\n\n## Next Steps\n1. The rest of the work goes on as it was planned."
    )
    script = [[Say("one")], [Say("two")], Fault(400, "no"), [Say(summary)], [Say("end")]]
    claude = Runs(tmp_path, ANTHROPIC, script)
    keep = AgentOptions(compaction=CompactionOptions(keep=900))
    async with claude(keep) as it:
        await it.agent.prompt(LONG)
        await it.agent.prompt("two " * 900)
        claude.plugin.todo = [state("open: 3")]
        with pytest.raises(Exception, match="simulated"):
            await it.agent.prompt("three " * 200)
        assert (await it.agent.compact()).startswith("compacted")
        await it.agent.prompt("four")
    assert [r.status for r in claude.sim.requests] == [200, 200, 400, 200, 200]


async def test_state_is_told_in_every_round_of_a_tool_loop(runs):
    class Counts:
        @hookimpl
        async def turn_end(self, event, ctx):
            await ctx.append_message("turns", f"turn {event.turn_index}", supersedes=True)

    runs.plugin = Counts()
    runs.sim = Simulator(
        [[Say(LONG), Call("ls", {"path": "."})] for _ in range(3)] + [[Say("end")]] * 2,
        profile=PROFILES[runs.api],
        system_messages=True,
    )
    async with runs() as it:
        await it.agent.prompt(LONG)
        await it.agent.prompt("and on")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert runs.all_was_read()
    assert runs.used == [[], ["system"], ["system"], ["system"], []]


# ---- tools


async def test_a_late_tool_is_offered_and_called_in_the_same_epoch(tmp_path):
    for api in (ANTHROPIC, RESPONSES):
        folder = tmp_path / api
        folder.mkdir()
        script = [[Say("one")], [Call("late", {})], [Say("done")], [Say("end")]]
        runs = Runs(folder, api, script)
        async with runs() as it:
            await it.agent.prompt(LONG)
            runs.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
            await it.agent.prompt("two")
            await it.agent.prompt("three")
            assert it.agent.toolbox.pending == []
        results = [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]
        assert [r.content[0].text for r in results] == ["ran"]
        assert [b.cause for b in it.boundaries] == ["first"]
        assert runs.all_was_read()
        assert runs.used == [[], ["tool_addition"], [], []]
        assert [n for n in it.notices if "pending" in n.text] == []


async def test_chat_completions_has_no_place_for_a_tool_so_it_waits_for_the_next_epoch(tmp_path):
    runs = Runs(tmp_path, CHAT)
    async with runs() as it:
        await it.agent.prompt(LONG)
        runs.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
        await it.agent.prompt("two")
        assert it.agent.toolbox.pending == ["late"]
        it.agent.want_boundary("reload")
        await it.agent.prompt("three")
        assert it.agent.toolbox.pending == []
    assert [b.cause for b in it.boundaries] == ["first", "reload"]


async def test_a_disabled_tool_is_withdrawn_and_offered_again_by_its_name(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [lambda ctx: ctx.disable_tool("bash", "planning")]
        await it.agent.prompt("two")
        claude.plugin.todo = [lambda ctx: ctx.enable_tool("bash")]
        await it.agent.prompt("three")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert claude.all_was_read()
    reference = {"type": "tool_reference", "name": "bash"}
    changes = [m["content"] for m in claude.sent[-1] if m["role"] == "system"]
    assert changes == [
        [{"type": "tool_removal", "tool": reference}],
        [{"type": "tool_addition", "tool": reference}],
    ]
    assert claude.used == [[], ["tool_removal"], ["tool_addition"]]


async def test_there_and_back_before_the_next_request_says_nothing(claude):
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [
            lambda ctx: ctx.disable_tool("bash", "no"),
            lambda ctx: ctx.enable_tool("bash"),
        ]
        await it.agent.set_thinking("low")
        await it.agent.set_thinking("high")
        await it.agent.prompt("two")
    assert claude.used == [[], []]
    assert claude.all_was_read()


async def test_all_that_is_told_at_one_place_is_one_message(claude):
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        claude.plugin.prompt = "\nAnswer in verse."
        claude.plugin.todo = [state("open: 3"), lambda ctx: ctx.register_tools([late()])]
        await it.agent.set_thinking("low")
        await it.agent.prompt("two")
        claude.plugin.todo = [state("open: 2")]
        await it.agent.prompt("three")
        await it.agent.prompt("four")
    assert claude.all_was_read()
    assert claude.used[2:] == [["system"], []]
    assert roles(claude.sent[1])[-2:] == ["user", "system"]
    told = claude.sent[1][-1]
    assert [b["type"] for b in told["content"]] == ["text", "text", "tool_addition"]
    assert told["output_config"] == {"effort": "low"}
    assert sorted(claude.used[1]) == ["effort", "system", "tool_addition"]


async def test_a_new_epoch_has_the_tools_in_its_head_and_tells_of_none(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [
            lambda ctx: ctx.register_tools([late()]),
            lambda ctx: ctx.disable_tool("bash", "no"),
        ]
        await it.agent.prompt("two")
        it.agent.want_boundary("reload")
        claude.plugin.todo = [lambda ctx: ctx.register_tools([late("later")])]
        await it.agent.prompt("three")
    last = json.loads(claude.sim.requests[-1].body)
    names = {tool["name"] for tool in last["tools"]}
    assert {"late", "later"} <= names
    assert "bash" not in names
    assert "system" not in roles(last["messages"])
    assert claude.used[-1] == []


async def test_what_an_older_epoch_was_told_of_tools_is_forgotten_after_a_restart_too(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [lambda ctx: ctx.disable_tool("bash", "no")]
        await it.agent.prompt("two")
        it.agent.want_boundary("reload")
        await it.agent.prompt("three")
    async with claude() as again:  # where bash is enabled, and in no head
        await again.agent.prompt("four")
    assert again.boundaries == []
    (change,) = claude.sent[-1][-1]["content"]
    assert change["tool"]["definition"]["name"] == "bash"
    assert claude.sim.requests[-1].status == 200
    assert prefix_breaks(claude.sim.requests[2:]) == []


# ---- effort


async def test_another_effort_is_told_and_no_boundary_and_thinking_stays(tmp_path):
    script = [Answer((Think(f"t{n}"), Say(f"a{n}"))) for n in range(4)]
    claude = Runs(tmp_path, ANTHROPIC, script)
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        await it.agent.set_thinking("low")
        await it.agent.prompt("two")
        await it.agent.set_thinking("high")
        await it.agent.prompt("three")
    assert [b.cause for b in it.boundaries] == ["first"]
    assert claude.all_was_read()
    told = [m for m in claude.sent[-1] if m["role"] == "system"]
    assert [m["output_config"]["effort"] for m in told] == ["low", "high"]
    assert all(m["content"] == [] for m in told)
    assert {r.parsed["output_config"]["effort"] for r in claude.sim.requests} == {"high"}
    assert claude.used == [[], ["effort"], ["effort"]]


async def test_no_thinking_at_all_is_a_boundary_as_ever(claude):
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        await it.agent.set_thinking("off")
        await it.agent.prompt("two")
    assert [b.cause for b in it.boundaries] == ["first", "thinking"]


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
async def test_openai_s_effort_is_part_of_the_cache_s_key_so_it_is_a_boundary(tmp_path, api):
    runs = Runs(tmp_path, api)
    async with runs(HIGH) as it:
        await it.agent.prompt(LONG)
        await it.agent.set_thinking("low")
        await it.agent.prompt("two")
    assert [b.cause for b in it.boundaries] == ["first", "thinking"]


async def test_after_a_boundary_an_older_effort_in_the_history_is_overruled(claude):
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
        await it.agent.set_thinking("low")
        await it.agent.prompt("two")
        await it.agent.set_thinking("medium")
        it.agent.want_boundary("reload")
        await it.agent.prompt("three")
    last = json.loads(claude.sim.requests[-1].body)
    assert last["output_config"] == {"effort": "medium"}
    told = [m["output_config"]["effort"] for m in last["messages"] if m["role"] == "system"]
    assert told == ["low", "medium"]


# ---- a session that goes on


async def test_a_reopened_session_makes_the_same_bytes_of_what_was_told(runs):
    async with runs(HIGH) as it:
        await it.agent.prompt(LONG)
        runs.plugin.prompt = "\nAnswer in verse."
        runs.plugin.todo = [state("open: 3"), lambda ctx: ctx.register_tools([late()])]
        if runs.api == ANTHROPIC:
            await it.agent.set_thinking("low")
        await it.agent.prompt("two")
    level = LOW if runs.api == ANTHROPIC else HIGH
    for n in range(2):
        runs.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
        async with runs(level) as again:
            await again.agent.prompt(f"and on {n}")
        assert again.boundaries == []
    assert runs.all_was_read()
    assert runs.used[2:] == [[], []]


async def test_a_session_that_is_reopened_with_another_effort_goes_on(claude):
    async with claude(HIGH) as it:
        await it.agent.prompt(LONG)
    for _ in range(2):
        async with claude(LOW) as again:
            await again.agent.prompt("two")
        assert again.boundaries == []
    assert claude.used == [[], ["effort"], []]
    assert claude.all_was_read()


async def test_a_tool_that_is_gone_after_a_restart_is_withdrawn_and_comes_back(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
        await it.agent.prompt("two")
    async with claude() as again:
        await again.agent.prompt("three")
        assert again.agent.toolbox.refusal("late") is not None
        claude.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
        await again.agent.prompt("four")
        assert again.agent.toolbox.refusal("late") is None
    assert again.boundaries == []
    assert claude.used == [[], ["tool_addition"], ["tool_removal"], ["tool_addition"]]
    assert claude.all_was_read()


async def test_a_session_that_another_program_went_on_with_is_valid_again(tmp_path):
    claude = Runs(tmp_path, ANTHROPIC, [[Say("one")], Fault(400, "no"), [Say("3")], [Say("4")]])
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3")]
        with pytest.raises(Exception, match="simulated"):
            await it.agent.prompt("two")
    with Session.open(claude.path) as other:
        other.append_message(UserMessage("from elsewhere"))
        other.append_message(AssistantMessage((Text("done there"),)))
    for boundaries in (["resume"], []):
        async with claude() as again:
            await again.agent.prompt("and on")
        assert [b.cause for b in again.boundaries] == boundaries
    assert [r.status for r in claude.sim.requests] == [200, 400, 200, 200]
    assert prefix_breaks(claude.sim.requests[2:]) == []


async def test_another_model_gets_what_was_told_as_text_and_the_first_gets_it_back(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3"), lambda ctx: ctx.register_tools([late()])]
        await it.agent.prompt("two")
        before = it.agent.model
        await it.agent.set_model(evolve(before, id="claude-sonnet-5", verbs=()), it.agent.api)
        await it.agent.prompt("three")
        await it.agent.set_model(before, it.agent.api)
        await it.agent.prompt("four")
    assert {r.status for r in claude.sim.requests} == {200}
    sonnet, opus = claude.sent[-2:]
    assert set(roles(sonnet)) == {"user", "assistant"}
    assert "open: 3" in json.dumps(sonnet)
    assert roles(opus).count("system") == 1
    assert [b.cause for b in it.boundaries] == ["first", "model", "model"]


async def test_other_beta_headers_than_the_epoch_began_with_are_a_boundary(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
    claude.verbs = False
    async with claude() as again:
        await again.agent.prompt("two")
    assert [(b.cause, b.owner) for b in again.boundaries] == [("payload_shape", "host")]


async def test_the_betas_are_the_same_in_every_request_and_go_beside_the_user_s(claude):
    made = claude.model

    def model(url):
        return evolve(made(url), headers={**made(url).headers, "anthropic-beta": "mine"})

    claude.model = model
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3")]
        await it.agent.prompt("two")
    assert {r.headers["anthropic-beta"] for r in claude.sim.requests} == {
        "inline-tools-2026-09-15,mid-conversation-output-config-2026-07-01,mine"
    }


async def test_a_reader_that_knows_no_verbs_finds_a_custom_message_with_a_text(claude):
    async with claude() as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [lambda ctx: ctx.register_tools([late()])]
        await it.agent.prompt("two")
    lines = [json.loads(line) for line in claude.path.read_text().splitlines()]
    (told,) = [line for line in lines if line["type"] == "custom_message"]
    assert told["content"] == "Tools from here on: late"
    assert told["display"] is False
    assert told["verb"]["define"][0]["name"] == "late"


async def test_a_compaction_leaves_what_is_told_valid_and_the_next_epoch_goes_on(tmp_path):
    summary = (
        "## Goal\nFinish.\n\n## Next Steps\n1. The rest of the work goes on as it was planned."
    )
    script = [[Say("one")], [Say("two")], [Say("three")], [Say(summary)], [Say("five")], [Say("6")]]
    claude = Runs(tmp_path, ANTHROPIC, script)
    options = AgentOptions(thinking="high", compaction=CompactionOptions(keep=900))
    async with claude(options) as it:
        await it.agent.prompt(LONG)
        claude.plugin.todo = [state("open: 3"), lambda ctx: ctx.register_tools([late()])]
        await it.agent.set_thinking("low")
        await it.agent.prompt("two " * 300)
        await it.agent.prompt("three " * 300)
        said = await it.agent.compact()
        assert said.startswith("compacted"), said
        await it.agent.prompt("five")
        await it.agent.prompt("six")
    assert [r.error for r in claude.sim.requests] == [None] * 6
    assert [b.cause for b in it.boundaries] == ["first", "compaction"]
    assert prefix_breaks(claude.sim.requests[-2:]) == []


# ---- what a model has


def test_a_user_s_file_says_which_verbs_a_model_has(tmp_path):
    path = tmp_path / "models.json"
    path.write_text('{"models": {"anthropic/claude-opus-5-5": {"verbs": ["system"]}}}')
    assert verbs_of(load_models(path)["anthropic/claude-opus-5-5"]) == {"system"}
    path.write_text('{"models": {"anthropic/claude-opus-5-5": {"verbs": ["shout"]}}}')
    with pytest.raises(ModelsFileError, match=r"verbs must be a list of system, tool_addition"):
        load_models(path)


@pytest.mark.parametrize(
    ("name", "api", "verbs"),
    [
        ("claude-opus-5-5", ANTHROPIC, {"system", "tool_addition", "tool_removal", "effort"}),
        ("claude-sonnet-5", ANTHROPIC, set()),
        ("claude-haiku-4-5", ANTHROPIC, set()),
        ("gpt-6.1-sol", CHAT, {"system"}),
        ("gpt-6.1-sol", RESPONSES, {"system", "tool_addition"}),
        ("deepseek-v4-pro", CHAT, set()),
    ],
)
def test_what_a_model_can_be_told_depends_on_its_api_too(name, api, verbs):
    model = evolve(find_model(name), api=api)
    assert verbs_of(model) == verbs
    assert bool(betas(model)) == ("effort" in verbs)


# ---- anything, in any order

ACTIONS = ("state", "rule", "add", "disable", "enable", "low", "high", "abort", "reopen", "wake")


async def act(runs, it, action, n):
    """Do one thing that would move the head of a request."""
    agent, todo = it.agent, runs.plugin.todo
    if action == "state":
        todo.append(state(f"state {n}"))
    elif action == "rule":
        runs.plugin.prompt = f"\nRule {n}."
    elif action == "add":
        todo.append(lambda ctx: ctx.register_tools([late(f"late{n % 2}")]))
    elif action in ("disable", "enable"):
        done = {"disable": lambda ctx: ctx.disable_tool("bash", "no")}
        todo.append(done.get(action, lambda ctx: ctx.enable_tool("bash")))
    elif action in ("low", "high") and runs.api == ANTHROPIC:
        await agent.set_thinking(action)
    elif action == "wake":
        await agent.contexts.of("changer").append_message("state", f"idle {n}", supersedes=True)
    elif action == "abort":
        runs.plugin.when_sent = agent.abort


@settings(max_examples=25, deadline=None)
@given(
    api=st.sampled_from([ANTHROPIC, CHAT, RESPONSES]),
    rounds=st.lists(st.lists(st.sampled_from(ACTIONS), max_size=4), min_size=2, max_size=6),
)
def test_whatever_changes_each_request_is_valid_and_extends_the_last(api, rounds):
    async def play(folder):
        runs = Runs(folder, api, [Answer((Think("t"), Say("a"))) for _ in range(30)])
        level, n = "high", 0
        for part in rounds:
            async with runs(AgentOptions(thinking=level)) as it:
                await it.agent.prompt(LONG)
                for action in part:
                    n += 1
                    await act(runs, it, action, n)
                    if action != "reopen":
                        continue
                    await it.agent.prompt(f"prompt {n}")
                await it.agent.prompt(f"prompt {n}")
                level = it.agent.thinking
        assert {r.status for r in runs.sim.requests} == {200}, [r.error for r in runs.sim.requests]
        assert prefix_breaks(runs.sim.requests) == []

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(play, Path(folder))
