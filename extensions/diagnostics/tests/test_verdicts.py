"""For each answer: what the provider should have read, what it says it read, and why it was less."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

import unipi_diagnostics
from unipi.agent import AgentOptions, open_agent
from unipi.providers import find_model
from unipi.session import Session
from unipi.sim import Answer, Call, Clock, Say, Simulator
from unipi.testing.lab import host
from unipi_diagnostics.verdict import Expectation, judge, span
from unipi_hookspecs import Boundary, CacheState, StartWith, Tool, Usage, hookimpl

LONG = "word " * 6_000
NAMES = {
    "anthropic": "anthropic/claude-opus-5-5",
    "openai_56": "openai/gpt-6.1-sol",
    "deepseek": "deepseek/deepseek-v4-pro",
}


class Prompted:
    """Adds a text to the system prompt, as a test tells it."""

    def __init__(self):
        self.text = ""

    @hookimpl
    def register_tools(self):
        return [Tool("look", "Look.", run=lambda call, ctx: "seen")]

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=event.system_prompt + self.text) if self.text else None


class Scene:
    """A session whose provider and whose host live on one clock."""

    def __init__(self, cwd, profile="anthropic", script=None, **changes):
        self.cwd, self.profile, self.changes = cwd, profile, changes
        self.clock = Clock()
        self.sim = Simulator(
            script or [Say("a"), Say("b"), Say("c"), Say("d")],
            profile=profile,
            clock=self.clock,
            **{k: changes.pop(k) for k in ("report_cache",) if k in changes},
        )
        self.prompted = Prompted()

    async def run(self, do, **options):
        prepared = host(self.cwd, [("diagnostics", unipi_diagnostics), ("prompted", self.prompted)])
        session = Session.create(None, cwd=self.cwd)
        keys = {"x-api-key": "sim", "authorization": "Bearer sim"}
        async with self.sim.serve() as url:
            model = evolve(
                find_model(NAMES[self.profile]),
                base_url=url,
                headers=keys,
                api_key_env=None,
                verbs=(),
                **self.changes,
            )
            async with open_agent(prepared, session, model, AgentOptions(**options)) as agent:
                agent.now = lambda: 1_000_000 + round(self.clock.now() * 1000)
                await do(agent)
                self.state = unipi_diagnostics._sessions().of(session.id)
                command, _ = unipi_diagnostics.register_commands(None)
                self.report = await command.run("", agent.contexts.of("diagnostics"))
        return [(v.kind, v.reason) for v in self.state.verdicts]


async def two(agent):
    await agent.prompt(LONG)
    await agent.prompt("and?")


@pytest.mark.parametrize("profile", sorted(NAMES))
async def test_what_could_be_read_and_was_is_a_hit(tmp_path, profile):
    scene = Scene(tmp_path, profile)
    verdicts = await scene.run(two)
    assert verdicts == [("first", ""), ("hit", "")]
    assert "Verdicts" in scene.report
    assert "1 read all they could" in scene.report


async def test_a_pause_past_the_ttl_is_told_with_its_length(tmp_path):
    scene = Scene(tmp_path)

    async def do(agent):
        await agent.prompt(LONG)
        scene.clock.advance(432)
        await agent.prompt("and?")

    verdicts = await scene.run(do)
    assert verdicts[1] == ("miss", "idle 7 m 12 s, past the 5 m that it is kept")
    assert "  request 2: read 0 of " in scene.report


async def test_a_boundary_explains_what_was_not_read(tmp_path):
    scene = Scene(tmp_path)

    async def do(agent):
        await agent.prompt(LONG)
        scene.prompted.text = "It is noon."
        await agent.prompt("and?")

    await scene.run(do, policy="record")
    verdict = scene.state.verdicts[1]
    assert verdict.reason == "boundary: system_prompt by prompted"
    assert verdict.explained
    owner = re.search(r"^  prompted: (.+)$", scene.report, re.MULTILINE)[1]
    assert owner.startswith("1 boundary, 1 of them avoidable; ")
    assert "$" in owner


async def test_a_prompt_below_the_minimum_is_no_riddle(tmp_path):
    scene = Scene(tmp_path, min_cache_tokens=4_096)
    scene.changes["id"] = "claude-haiku-4-5"  # keeps nothing shorter

    async def do(agent):
        await agent.prompt("word " * 2_000)
        await agent.prompt("and?")

    verdicts = await scene.run(do)
    assert verdicts[1] == ("miss", "below the shortest prompt that the provider keeps")


async def test_an_entry_that_went_before_its_time_is_unexplained(tmp_path):
    scene = Scene(tmp_path)

    async def do(agent):
        await agent.prompt(LONG)
        scene.sim._cache._entries.clear()  # the provider needed the room
        await agent.prompt("and?")

    await scene.run(do)
    verdict = scene.state.verdicts[1]
    assert (verdict.kind, verdict.explained) == ("miss", False)
    assert "evicted, or routed to another server" in verdict.reason
    assert "1 miss, unexplained" in scene.report


async def test_a_provider_that_reports_nothing_is_never_accused(tmp_path):
    scene = Scene(tmp_path, report_cache=False)
    verdicts = await scene.run(two)
    assert verdicts == [("not_reported", ""), ("not_reported", "")]
    assert "2 not reported" in scene.report


async def test_the_provider_s_own_word_stands_beside_ours(tmp_path):
    scene = Scene(tmp_path, asks_miss_reason=True)

    async def do(agent):
        await agent.prompt(LONG)
        scene.prompted.text = "It is noon."
        await agent.prompt("and?")

    verdicts = await scene.run(do, policy="record")
    expected = "boundary: system_prompt by prompted; the provider says system_changed"
    assert verdicts[1][1] == expected


async def test_a_request_beside_the_conversation_has_a_lineage_of_its_own(tmp_path):
    scene = Scene(tmp_path)

    async def do(agent):
        from unipi.agent.side import ask_beside
        from unipi_hookspecs import UserMessage

        await agent.prompt(LONG)
        await ask_beside(agent, "title", [UserMessage("A title, please.")])
        await agent.prompt("and?")

    verdicts = await scene.run(do)
    assert verdicts[-1] == ("hit", "")
    assert scene.state.boundary_count == 0


async def test_a_wide_turn_is_read_whole_and_called_a_hit(tmp_path):
    wide = Answer([Call("look", {}) for _ in range(30)])
    scene = Scene(tmp_path, script=[Say("a"), wide, Say("b"), Say("c")])
    verdicts = await scene.run(two)
    assert [kind for kind, _ in verdicts] == ["first", "hit", "hit"]


def usage(read, fresh=100):
    return Usage(fresh, 10, read, 0)


WARM = CacheState(cold=False, tokens=1_000, kept_seconds=300, seconds_left=200.0)


@pytest.mark.parametrize(
    ("read", "kind"), [(20_000, "hit"), (19_700, "hit"), (12_000, "partial"), (0, "miss")]
)
def test_what_a_provider_s_grain_leaves_unread_is_no_miss(read, kind):
    assert judge(Expectation(2, 20_000), usage(read), WARM).kind == kind


def test_a_look_back_that_nothing_bridges_is_named():
    verdict = judge(Expectation(2, 20_000, blocks=61), usage(0), WARM)
    assert verdict.reason == "look-back exceeded: 61 blocks were added and none is marked"
    marked = judge(Expectation(2, 20_000, blocks=61, marked=True), usage(0), WARM)
    assert not marked.explained


def test_a_word_of_the_provider_alone_explains_too_unless_it_says_that_it_does_not_know():
    expected = Expectation(2, 20_000)
    said = judge(expected, evolve(usage(0), miss_reason="tools_changed"), WARM)
    assert (said.reason, said.explained) == ("the provider says tools_changed", True)
    unknown = judge(expected, evolve(usage(0), miss_reason="unavailable"), WARM)
    assert not unknown.explained


def test_nobody_expects_what_was_never_counted():
    assert judge(Expectation(1, None), usage(5), None).kind == "first"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(432, "7 m 12 s"), (3_600, "1 h"), (0.2, "0 s"), (90_061, "25 h 1 m 1 s")],
)
def test_times_are_for_people(seconds, words):
    assert span(seconds) == words


def test_what_is_shared_of_a_rewritten_prefix_is_what_is_expected():
    from unipi_diagnostics.lineage import Lineage

    lineage = Lineage(b"k" * 32, prompt=10_000, share=0.25)
    assert lineage.expected == 2_500
    assert Boundary(1, "x", "y", False, 0).cause == "x"
