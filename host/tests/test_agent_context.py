"""What a plugin's context does in its session, and that it does nothing after it."""

from __future__ import annotations

import sys

import pytest

from unipi.sim import Call, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import (
    Context,
    CustomMessage,
    PluginError,
    PrefixError,
    StaleContextError,
    Text,
    UserMessage,
    hookimpl,
)

SCRIPT = [[Say(f"answer {n}")] for n in range(6)]


class Keeper:
    """Keeps its context."""

    ctx: Context

    @hookimpl
    def session_start(self, ctx):
        self.ctx = ctx


@pytest.fixture
def keeper():
    return Keeper()


def started(tmp_path, keeper, script=SCRIPT, **options):
    return lab(tmp_path, script, plugins=[("keeper", keeper)], **options)


async def test_it_tells_where_and_with_whom_it_is(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        ctx = keeper.ctx
        assert ctx.plugin == "keeper"
        assert ctx.cwd == tmp_path
        assert ctx.session.id == it.agent.session.id
        assert ctx.model == it.agent.model
        assert ctx.thinking_level == "off"
        assert ctx.settings == {}
        assert (ctx.idle, ctx.cancelled) == (True, False)
        assert not ctx.ui.interactive
        assert not await ctx.ui.confirm("sure?")


async def test_an_empty_message_is_refused_in_words(tmp_path, keeper):
    async with started(tmp_path, keeper):
        for content in ("", []):
            with pytest.raises(PluginError, match="an empty message says nothing"):
                await keeper.ctx.append_message("state", content)


async def test_what_is_said_in_the_users_place_is_answered_and_repaired(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        await keeper.ctx.send_user_message("do it")
        await it.agent.settled()
        await keeper.ctx.send_user_message([Text("half \ud800")])
        await it.agent.settled()
        said = [m.content for m in it.agent.session.messages() if isinstance(m, UserMessage)]
    assert said == ["do it", (Text("half \ufffd"),)]
    assert [r.status for r in it.sim.requests] == [200, 200]
    assert prefix_breaks(it.requests) == []


async def test_what_is_said_while_a_run_settles_is_answered_next(tmp_path, keeper):
    class Adds:
        said = False

        @hookimpl
        async def agent_end(self, ctx):
            if not self.said:
                self.said = True
                await ctx.send_user_message("one more thing")

    async with lab(tmp_path, SCRIPT, plugins=[("adds", Adds())]) as it:
        await it.agent.prompt("go")
    roles = [m.role for m in it.agent.session.messages()]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert [r.status for r in it.sim.requests] == [200, 200]
    assert prefix_breaks(it.requests) == []


async def test_what_waits_for_the_next_prompt_goes_out_after_it(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        await keeper.ctx.append_message("hint", "look at b", deliver="next_turn")
        await keeper.ctx.send_user_message("and this", deliver="next_turn")
        assert it.requests == []
        await it.agent.prompt("go")
        said = [m.content for m in it.agent.session.messages()[:3]]
    assert said == ["go", "look at b", "and this"]
    assert len(it.requests) == 1


async def test_an_entry_is_kept_out_of_the_models_sight(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        entry_id = await keeper.ctx.append_entry("mine", {"secret": "plans"})
        await it.agent.prompt("go")
        assert it.agent.session.custom("mine") == {"secret": "plans"}
        assert entry_id in {e.id for e in keeper.ctx.session.entries()}
    assert b"plans" not in it.requests[0].body


async def test_a_type_is_excluded_before_its_first_message_or_not_at_all(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        keeper.ctx.exclude_custom_type("note")
        keeper.ctx.exclude_custom_type("note")
        await keeper.ctx.append_message("note", "for people only")
        await keeper.ctx.append_message("state", "for the model")
        await it.agent.prompt("go")
        with pytest.raises(PrefixError, match="'state' were already sent"):
            keeper.ctx.exclude_custom_type("state")
        await it.agent.prompt("go on")
    assert b"for people only" not in it.requests[-1].body
    assert b"for the model" in it.requests[-1].body
    assert prefix_breaks(it.requests) == []


async def test_a_boundary_that_it_asks_for_is_its_own_and_happens_once(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        await it.agent.prompt("one")
        keeper.ctx.request_boundary("workspace", "another folder")
        await it.agent.prompt("two")
        await it.agent.prompt("three")
    (boundary,) = it.boundaries[1:]
    assert (boundary.cause, boundary.owner, boundary.avoidable, boundary.detail) == (
        "workspace",
        "keeper",
        False,
        "another folder",
    )


async def test_a_process_runs_in_the_sessions_folder(tmp_path, keeper):
    show = "import os; print(os.getcwd())"
    async with started(tmp_path, keeper):
        done = await keeper.ctx.run_process([sys.executable, "-c", show])
    assert done.stdout.strip() == str(tmp_path)


async def test_a_tool_that_it_disables_is_refused_until_it_takes_that_back(tmp_path, keeper):
    asks = [Call("ls", {"path": "."})]
    script = [[Say("hello")], asks, [Say("ok")], asks, [Say("ok")]]
    async with started(tmp_path, keeper, script) as it:
        await it.agent.prompt("hello")
        keeper.ctx.disable_tool("ls", "not now")
        await it.agent.prompt("go")
        keeper.ctx.enable_tool("ls")
        await it.agent.prompt("go")
        results = [m for m in it.agent.session.messages() if m.role == "toolResult"]
    assert [r.is_error for r in results] == [True, False]


async def test_after_the_session_every_use_raises_and_the_first_is_told(tmp_path, keeper):
    async with started(tmp_path, keeper) as it:
        await it.agent.prompt("go")
    ctx = keeper.ctx
    uses = [
        lambda: ctx.cwd,
        lambda: ctx.session,
        lambda: ctx.idle,
        lambda: ctx.bound_output("x"),
        lambda: ctx.request_boundary("tools"),
        lambda: ctx.register_tools([]),
        lambda: ctx.start_task(Keeper),
    ]
    for use in uses:
        with pytest.raises(StaleContextError, match=r"plugin 'keeper' .* has ended"):
            use()
    with pytest.raises(StaleContextError):
        await ctx.append_message("state", "too late")
    with pytest.raises(StaleContextError):
        await ctx.append_entry("mine")
    assert ctx.plugin == "keeper"
    ctx.log.info("still speaks")
    assert [n.plugin for n in it.notices] == ["keeper"]
    assert not [m for m in it.agent.session.messages() if isinstance(m, CustomMessage)]
