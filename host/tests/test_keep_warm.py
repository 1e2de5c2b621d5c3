"""An idle session can renew the provider's cache; nothing of that enters it, and it ends by itself."""

from __future__ import annotations

import json

import anyio
import pytest
from attrs import evolve

from unipi.agent import AgentOptions, KeepWarm, open_agent
from unipi.prefix.wire import Head
from unipi.providers import find_model
from unipi.providers.ping import ping_head
from unipi.session import Session
from unipi.sim import Clock, Say, Simulator
from unipi.testing.lab import Lab, host
from unipi_hookspecs import hookimpl

LONG = "word " * 3_000
NAME = "anthropic/claude-opus-5-5"


class Watch:
    """Counts pings as they are answered, so that a test can wait for the next one."""

    def __init__(self):
        self.pings = []
        self.beat = anyio.Event()

    @hookimpl
    def provider_response_end(self, event):
        if event.info.purpose == "keep_warm":
            self.pings.append(event)
            self.beat.set()
            self.beat = anyio.Event()


class Idle:
    """A session with pings, on the recorded clock of its simulator."""

    def __init__(self, cwd, wish, script, name=NAME, profile="anthropic", **changes):
        self.clock = Clock()
        self.sim = Simulator(script, profile=profile, clock=self.clock)
        self.cwd, self.wish, self.name, self.changes = cwd, wish, name, changes
        self.watch = Watch()

    async def __aenter__(self):
        self._stack = anyio.create_task_group()
        prepared = host(self.cwd, [("watch", self.watch)])
        self._serving = self.sim.serve()
        url = await self._serving.__aenter__()
        keys = {"x-api-key": "sim", "authorization": "Bearer sim"}
        model = evolve(
            find_model(self.name), base_url=url, headers=keys, api_key_env=None, **self.changes
        )
        self.session = Session.create(None, cwd=self.cwd)
        self._open = open_agent(
            prepared, self.session, model, AgentOptions(keep_warm=self.wish), observer=self.see
        )
        self.events = []
        return Lab(await self._open.__aenter__(), self.sim, prepared, self.events)

    def see(self, event):
        self.events.append(event)

    async def __aexit__(self, *error):
        await self._open.__aexit__(*error)
        await self._serving.__aexit__(*error)

    async def ended(self, it):
        """Wait until no more pings can come in this pause."""
        with anyio.fail_after(5):
            while it.agent.warmer.active:
                await anyio.sleep(0.001)

    async def pinged(self, count):
        with anyio.fail_after(5):
            while len(self.watch.pings) < count:
                await self.watch.beat.wait()


def quick(pings):
    return KeepWarm(pings=pings, every=0.01)


async def test_a_ping_is_the_last_request_again_and_asks_for_no_answer(tmp_path):
    idle = Idle(tmp_path, quick(1), [Say("a")])
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.pinged(1)
    asked, ping = (json.loads(request.body) for request in it.sim.requests)
    assert (ping.pop("max_tokens"), ping.pop("stream")) == (0, False)
    del asked["max_tokens"], asked["stream"]
    assert ping == asked
    assert it.sim.requests[1].cached_tokens == it.sim.requests[0].prompt_tokens
    assert [m.role for m in idle.session.messages()] == ["user", "assistant"]
    assert idle.watch.pings[0].usage.cache_read == it.sim.requests[0].prompt_tokens


async def test_with_pings_a_long_pause_costs_nothing_and_without_them_the_whole_prompt(tmp_path):
    read = {}
    for pings in (0, 2):
        idle = Idle(tmp_path, quick(pings), [Say("a"), Say("b")])
        async with idle as it:
            await it.agent.prompt(LONG)
            for number in range(1, 3):
                idle.clock.advance(200)
                if pings:
                    await idle.pinged(number)
            await it.agent.prompt("and?")
        last = it.sim.requests[-1]
        read[pings] = last.cached_tokens / it.sim.requests[0].prompt_tokens
        assert it.boundaries[1:] == []
    assert read[0] == 0
    assert read[2] >= 1


async def test_pings_end_after_so_many_and_begin_again_with_the_next_pause(tmp_path):
    idle = Idle(tmp_path, quick(2), [Say("a"), Say("b")])
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.pinged(2)
        await it.agent.prompt("and?")
        await idle.pinged(4)
        await idle.ended(it)
    assert len(idle.watch.pings) == 4


async def test_they_end_when_one_finds_the_cache_gone(tmp_path):
    idle = Idle(tmp_path, quick(9), [Say("a")])
    async with idle as it:
        await it.agent.prompt(LONG)
        idle.clock.advance(1_000)
        await idle.pinged(1)
        await idle.ended(it)
    assert len(idle.watch.pings) == 1
    assert any("nothing was read" in notice.text for notice in it.notices)


async def test_they_end_once_they_cost_what_one_rewrite_would(tmp_path):
    idle = Idle(tmp_path, quick(200), [Say("a")])
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.ended(it)
    # A read costs a twentieth of the input price here, a write 1.25 of it.
    assert 22 <= len(idle.watch.pings) <= 25


async def test_a_failed_ping_ends_them_and_not_the_session(tmp_path):
    def busy(request, index):
        return Say("a")

    idle = Idle(tmp_path, quick(3), busy)
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.pinged(1)
        it.agent.lineage.prefix.head = evolve(
            it.agent.lineage.prefix.head,
            open=it.agent.lineage.prefix.head.open.replace(
                b'"messages":[', b'"nonsense":1,"messages":['
            ),
        )
        await idle.pinged(2)
        await idle.ended(it)
    assert any("not kept warm any longer" in notice.text for notice in it.notices)


async def test_nobody_pings_unless_asked_to(tmp_path):
    idle = Idle(tmp_path, KeepWarm(), [Say("a")])
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.ended(it)
    assert len(it.sim.requests) == 1


async def test_an_api_without_such_a_request_is_not_pinged(tmp_path):
    idle = Idle(tmp_path, quick(3), [Say("a")], "openai/gpt-6.1-sol", "openai_56")
    async with idle as it:
        await it.agent.prompt(LONG)
        await idle.ended(it)
    assert len(it.sim.requests) == 1


@pytest.mark.parametrize(
    "member",
    [
        '"thinking":{"type":"enabled","budget_tokens":2048},',
        '"output_config":{"format":{"type":"json_schema"}},',
        '"tool_choice":{"type":"any"},',
    ],
)
def test_what_the_api_refuses_beside_it_is_not_pinged(member):
    head = Head(b'{"model":"m","max_tokens":9,"stream":true,%b"messages":[' % member.encode())
    assert ping_head(find_model(NAME), head) is None


def test_a_head_s_other_bytes_stand_even_where_they_look_alike():
    head = Head(b'{"system":"\\"max_tokens\\":9","max_tokens":64000,"stream":true,"messages":[')
    assert ping_head(find_model(NAME), head).open == (
        b'{"system":"\\"max_tokens\\":9","max_tokens":0,"stream":false,"messages":['
    )
