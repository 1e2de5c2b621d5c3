"""F17: clearing old tool results to save tokens. It is refused; or counted, cost beside gain; or free."""

from __future__ import annotations

import re

from attrs import evolve

import unipi_diagnostics
from unipi.agent import AgentOptions
from unipi.providers import find_model
from unipi.sim import Answer, Call, Clock, Say, Simulator
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import Text, Tool, ToolResultMessage, hookimpl

TURNS = 30
KEPT = 5
CLEARED = (Text("[cleared]"),)


class Pruner:
    """Replaces results that are older than five turns, in one of three ways of going about it."""

    def __init__(self, way):
        self.way = way
        self.asked = 0

    @hookimpl
    def register_tools(self):
        return [Tool("look", "Look.", run=lambda call, ctx: call.id + "x" * 2_000)]

    @hookimpl
    def turn_start(self, event, ctx):
        if self.way == "asks" and event.turn_index == TURNS - 2:
            ctx.request_boundary("prune", "old results are cleared")
            self.asked += 1
        begun = event.turn_index == 0 and len(ctx.session.messages()) > 1
        if self.way == "waits" and begun and ctx.cache_state().rewrite_is_free:
            ctx.request_boundary("prune", "the cache is cold")
            self.asked += 1

    @hookimpl
    def context(self, event):
        places = [i for i, m in enumerate(event.messages) if isinstance(m, ToolResultMessage)]
        old = set(places[:-KEPT])
        if not old or (self.way in ("asks", "waits") and not self.asked):
            return None
        if self.asked > 1:
            return None
        self.asked += self.asked == 1  # once
        return [evolve(m, content=CLEARED) if i in old else m for i, m in enumerate(event.messages)]


def simulator(clock=None):
    calls = [Answer([Call("look", {})]) for _ in range(TURNS)]
    return Simulator([*calls, Say("done"), Say("more")], profile="anthropic", clock=clock)


def opened(tmp_path, way, policy="enforce", sim=None):
    plugins = [("diagnostics", unipi_diagnostics), ("pruner", Pruner(way))]
    options = AgentOptions(policy=policy)
    return lab(tmp_path, (), sim=sim or simulator(), plugins=plugins, options=options)


def priced(it):
    """The model of the test with the prices of a real one: a read costs a twentieth, a write 1.25."""
    prices = find_model("anthropic/claude-opus-5-5").prices
    it.agent.model = evolve(it.agent.model, prices=prices, binds_thinking=False)


async def report(it):
    commands = {c.name: c for c in unipi_diagnostics.register_commands(None)}
    ctx = it.agent.contexts.of("diagnostics")
    return await commands["unipi:prefix-cache"].run("", ctx)


async def test_clearing_old_results_is_refused_and_the_plugin_named_once(tmp_path):
    async with opened(tmp_path, "always") as it:
        priced(it)
        await it.agent.prompt("go")
    assert prefix_breaks(it.requests) == []
    named = [n for n in it.notices if n.plugin == "pruner" and "prefix: refused" in n.text]
    assert len(named) == 1
    assert all(b"[cleared]" not in request.body for request in it.requests)


async def test_under_record_the_report_sets_what_it_cost_beside_what_it_saved(tmp_path):
    async with opened(tmp_path, "always", "record") as it:
        priced(it)
        await it.agent.prompt("go")
        text = await report(it)
    line = re.search(r"^  pruner: (.+)$", text, re.MULTILINE)[1]
    assert int(line.split()[0]) >= TURNS - KEPT - 1
    assert "fewer to read since" in line
    cost, worth = (float(x) for x in re.findall(r"\$([\d.]+)", line))
    assert cost > worth > 0


async def test_a_plugin_that_asks_may_do_it_once_and_what_it_did_stays(tmp_path):
    async with opened(tmp_path, "asks") as it:
        priced(it)
        await it.agent.prompt("go")
        await it.agent.prompt("and?")
    breaks = prefix_breaks(it.requests)
    assert len(breaks) == 1
    (boundary,) = [b for b in it.boundaries if b.cause != "first"]
    assert (boundary.cause, boundary.owner, boundary.avoidable) == ("prune", "pruner", False)
    assert it.requests[breaks[0]].body.count(b"[cleared]") == TURNS - 2 - KEPT
    assert it.requests[-1].body.count(b"[cleared]") == TURNS - 2 - KEPT
    assert [n for n in it.notices if "prefix: refused" in n.text] == []


async def test_when_the_cache_is_cold_it_costs_nothing(tmp_path):
    clock = Clock()
    async with opened(tmp_path, "waits", sim=simulator(clock)) as it:
        priced(it)
        it.agent.now = lambda: 1_000_000 + round(clock.now() * 1000)
        await it.agent.prompt("go")
        clock.advance(600)
        await it.agent.prompt("and?")
    (boundary,) = [b for b in it.boundaries if b.cause != "first"]
    assert (boundary.cause, boundary.tokens_lost, boundary.price) == ("prune", 0, 0.0)
    assert it.requests[-1].body.count(b"[cleared]") == TURNS - KEPT
    assert it.requests[-1].cached_tokens <= 4_000  # nothing but the head could have been kept
