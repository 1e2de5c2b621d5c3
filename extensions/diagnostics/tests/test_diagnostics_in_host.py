"""The diagnostics plugin in a real host, against the simulator."""

from __future__ import annotations

import re

import pytest

import unipi_diagnostics
from unipi.agent import AgentOptions
from unipi.sim import Call, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import Resources, StartWith, Tool, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
PLUGIN = ("diagnostics", unipi_diagnostics)


class Clocked:
    """Puts another time into the system prompt with every prompt, and offers a tool."""

    def __init__(self):
        self.seconds = 0

    @hookimpl
    def register_tools(self):
        return [Tool("look", "Look.", run=lambda call, ctx: "seen")]

    @hookimpl
    def resources_discover(self):
        return Resources(["Rule. " * 1500])

    @hookimpl
    def before_agent_start(self, event):
        self.seconds += 61
        return StartWith(system_prompt=f"{event.system_prompt}\nIt is {self.seconds} s past noon.")


async def report(it):
    command, _ = unipi_diagnostics.register_commands(None)
    return await command.run("", it.agent.contexts.of("diagnostics"))


async def test_the_status_points_to_the_report_and_the_doctor_and_touches_nothing(tmp_path):
    async with lab(tmp_path, [[Say("one")]], plugins=[PLUGIN]) as it:
        await it.agent.prompt("first")
        before = len(it.agent.session.entries())
        said = await it.agent.prompt("/unipi:status")
        assert "/unipi:prefix-cache" in said
        assert "unipi doctor" in said
        assert len(it.agent.session.entries()) == before
    assert len(it.requests) == 1


def row(text, name):
    (value,) = re.findall(rf"^{name} {{2,}}(.+)$", text, re.MULTILINE)
    return value


@pytest.mark.parametrize("api", APIS)
async def test_what_is_reported_is_what_the_provider_saw(tmp_path, api):
    script = [[Call("look", {})], [Say("done")], [Say("again")]]
    async with lab(tmp_path, script, plugins=[("clocked", Clocked()), PLUGIN], api=api) as it:
        await it.agent.prompt("first")
        await it.agent.prompt("second")
        text = await report(it)
    sent = it.requests
    assert len(sent) == 3
    assert prefix_breaks(sent) == []
    assert row(text, "Epoch") == "1"
    assert row(text, "Requests") == "3"
    assert row(text, "Prefix extensions") == "2"
    assert row(text, "Boundaries") == "0"
    assert row(text, "Last transition") == "prefix_extended"
    assert row(text, "Cache read") == f"{sum(r.cached_tokens for r in sent):,} tokens"
    assert row(text, "Read share").endswith("over 3 of 3 answers")


@pytest.mark.parametrize("api", APIS)
async def test_a_careless_plugin_is_named_with_the_field_that_it_changed(tmp_path, api):
    options = AgentOptions(policy="record")
    script = [[Say("one")], [Say("two")]]
    plugins = [("clocked", Clocked()), PLUGIN]
    async with lab(tmp_path, script, plugins=plugins, api=api, options=options) as it:
        await it.agent.prompt("first")
        await it.agent.prompt("second")
        text = await report(it)
    field = dict(
        zip(APIS, ("system[0].text", "messages[0].content[0].text", "instructions"), strict=True)
    )[api]
    assert row(text, "Last transition") == f"envelope_changed ({field})"
    assert row(text, "Boundaries") == "1"
    assert row(text, "Epoch") == "2"
    assert re.search(r"^  \w+ by clocked: avoidable; [\d,]+ tokens lost", text, re.MULTILINE)
    assert "not recorded" not in text


async def test_the_report_never_enters_the_session(tmp_path):
    async with lab(tmp_path, [[Say("one")], [Say("two")]], plugins=[PLUGIN]) as it:
        await it.agent.prompt("first")
        before = len(it.agent.session.entries())
        await report(it)
        assert len(it.agent.session.entries()) == before
        await it.agent.prompt("second")
    assert b"fingerprint" not in it.requests[-1].body
    assert prefix_breaks(it.requests) == []
