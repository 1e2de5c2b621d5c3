"""A plugin can ask whether the cache is cold now, and what rewriting history would cost."""

from __future__ import annotations

import pytest
from attrs import evolve

from unipi.agent import AgentOptions
from unipi.providers import find_model
from unipi.session import Session
from unipi.sim import Say, Simulator
from unipi.testing import lab
from unipi_hookspecs import CacheState

LONG = "word " * 3_000


class Place:
    """An agent on a model of the built-in list, with a clock that a test moves."""

    def __init__(
        self, cwd, name="anthropic/claude-opus-5-5", profile="anthropic", ttl="5m", **changes
    ):
        self.cwd, self.name, self.changes = cwd, name, changes
        self.sim = Simulator([Say("a"), Say("b"), Say("c")], profile=profile)
        self.options = AgentOptions(cache_ttl=ttl)
        self.ms = 1_000_000

    async def talk(self, agent, text=LONG):
        agent.now = lambda: self.ms
        model = find_model(self.name)
        agent.model = evolve(
            model,
            provider="sim",
            base_url=agent.model.base_url,
            headers=agent.model.headers,
            api_key_env=None,
            **self.changes,
        )
        await agent.prompt(text)

    def open(self):
        return lab(self.cwd, (), sim=self.sim, options=self.options, api=find_model(self.name).api)


async def test_before_the_first_request_there_is_nothing_to_lose(tmp_path):
    async with Place(tmp_path).open() as it:
        assert it.agent.cache_state() == CacheState(cold=True, why="first", boundary_due=True)
        assert it.agent.cache_state().rewrite_is_free


async def test_while_the_prompt_is_kept_a_rewrite_costs_what_it_would_write_again(tmp_path):
    place = Place(tmp_path)
    async with place.open() as it:
        await place.talk(it.agent)
        place.ms += 60_000
        state = it.agent.cache_state()
    prompt = it.requests[0].prompt_tokens
    assert (state.cold, state.tokens, state.seconds_left) == (False, prompt, 240.0)
    assert state.price == pytest.approx(prompt * (5.0 - 0.20) / 1e6)
    assert not state.rewrite_is_free


async def test_once_its_time_is_over_the_cache_is_cold_and_a_rewrite_is_free(tmp_path):
    place = Place(tmp_path)
    async with place.open() as it:
        await place.talk(it.agent)
        place.ms += 300_000
        state = it.agent.cache_state()
    assert state == CacheState(cold=True, why="idle", price=0.0, kept_seconds=300, seconds_left=0.0)
    assert state.rewrite_is_free


async def test_the_time_is_the_one_that_was_asked_for(tmp_path):
    place = Place(tmp_path, ttl="1h")
    async with place.open() as it:
        await place.talk(it.agent)
        place.ms += 600_000
        assert it.agent.cache_state().seconds_left == 3_000.0


async def test_a_prompt_below_the_minimum_is_never_kept(tmp_path):
    place = Place(tmp_path, min_cache_tokens=1_000_000)
    async with place.open() as it:
        await place.talk(it.agent)
        state = it.agent.cache_state()
    assert (state.cold, state.why) == (True, "minimum")


async def test_where_the_provider_promises_no_time_nobody_knows(tmp_path):
    place = Place(tmp_path, "deepseek/deepseek-v4-pro", "deepseek")
    async with place.open() as it:
        await place.talk(it.agent)
        state = it.agent.cache_state()
    assert (state.cold, state.seconds_left) == (None, None)
    assert state.tokens > 0


async def test_a_boundary_that_is_due_makes_a_rewrite_free_while_the_cache_is_warm(tmp_path):
    place = Place(tmp_path)
    async with place.open() as it:
        await place.talk(it.agent)
        it.agent.want_boundary("reload")
        state = it.agent.cache_state()
        assert state.cold is False
        assert state.boundary_due
        assert state.rewrite_is_free


async def test_after_a_restart_it_is_known_from_the_stored_answer(tmp_path):
    path, place = tmp_path / "s.jsonl", Place(tmp_path)
    with Session.create(path, cwd=tmp_path) as session:
        async with lab(tmp_path, (), sim=place.sim, session=session) as it:
            it.agent.now = lambda: place.ms
            await it.agent.prompt(LONG)
    with Session.open(path) as session:
        async with lab(tmp_path, (), sim=place.sim, session=session) as it:
            it.agent.now = lambda: place.ms + 10_000
            assert it.agent.cache_state().seconds_left == 290.0
            it.agent.now = lambda: place.ms + 301_000
            assert it.agent.cache_state().cold


async def test_a_plugin_asks_by_its_context(tmp_path):
    async with Place(tmp_path).open() as it:
        assert it.agent.contexts.of("any").cache_state().cold
