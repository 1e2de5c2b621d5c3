"""Field reports F02 and F16 for every way into a run, and F66: contexts end with their session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from unipi.agent import AgentOptions, RetryPolicy, RunFailedError
from unipi.prefix.guard import ContextGuard, Rewrite
from unipi.session import Session
from unipi.sim import Fault, Say
from unipi.testing import lab, prefix_breaks
from unipi.testing.lab import host
from unipi_hookspecs import (
    CustomMessage,
    Message,
    StaleContextError,
    StartWith,
    UserMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SCRIPT = [[Say(f"answer {n}")] for n in range(4)]


# F02


class Sentence:
    """Adds one constant sentence to the system prompt of every run."""

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=f"{event.system_prompt}\nAlways answer in verse.")


class FollowsUp:
    """Asks for one more thing while a run that was asked to is active."""

    @hookimpl
    async def turn_start(self, ctx):
        if any("with more" in str(m.content) for m in ctx.session.messages()) and not self.asked:
            self.asked = True
            await ctx.send_user_message("one more thing")

    asked = False


@pytest.mark.parametrize("api", APIS)
async def test_every_way_of_starting_a_run_builds_the_same_head(tmp_path: Path, api: str) -> None:
    answers = [[Say(f"answer {n}")] for n in range(8)]
    busy = Fault(status=529, type="overloaded_error")
    refused = Fault(status=400, type="invalid_request_error")
    script = [*answers[:5], busy, answers[5], refused, answers[6]]
    follower = FollowsUp()
    plugins = [("follower", follower), ("sentence", Sentence())]
    options = AgentOptions(retry=RetryPolicy(base=0.01, cap=0.01))
    async with lab(tmp_path, script, plugins=plugins, api=api, options=options) as it:
        ctx = it.agent.contexts.of("follower")
        await it.agent.prompt("prompt")
        await ctx.append_message("wake", "wake up", trigger_turn=True)
        await it.agent.settled()
        await ctx.send_user_message("in the user's place")
        await it.agent.settled()
        await it.agent.prompt("prompt with more")
        await it.agent.prompt("retried")
        with pytest.raises(RunFailedError):
            await it.agent.prompt("refused")
        await it.agent.prompt("/continue")
        notices = [n.text for n in it.notices if n.level == "error"]
    assert notices == []
    assert follower.asked
    assert [r.status for r in it.sim.requests] == [200] * 5 + [529, 200, 400, 200]
    assert prefix_breaks(it.sim.requests[:7]) == []
    assert prefix_breaks(it.requests) == []
    assert it.sim.requests[5].body == it.sim.requests[6].body
    assert it.sim.requests[7].body == it.sim.requests[8].body
    heads = {re.split(rb'"(?:messages|input)":\[', r.body)[0] for r in it.sim.requests}
    assert len(heads) == 1
    assert all(b"Always answer in verse." in r.body for r in it.sim.requests)


# F16


class Untouchable(Sequence[Message]):
    """A history of a million messages of which only the new ones may be looked at."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, where):
        assert where == slice(999_999, None), "an old message was looked at"
        return [UserMessage("new")]


def test_a_plugin_that_returns_what_it_got_costs_no_look_at_the_history() -> None:
    reported: list[Rewrite] = []
    history = Untouchable()
    guard = ContextGuard(history, 999_999, "enforce", reported.append)
    for plugin in ("a", "b"):
        assert guard.check(plugin, history, history) is history
    assert reported == []
    assert guard.override is None


# F66


def ticks(session: Session) -> list[str]:
    found = [e.message for e in session.entries() if isinstance(e.message, CustomMessage)]
    return [m.content for m in found if m.custom_type == "tick"]


class Ticker:
    """Says something every few milliseconds, from a task of the host or from one of its own."""

    def __init__(self, *, own: bool) -> None:
        self.own = own
        self.sessions = 0
        self.said = anyio.Event()
        self.over = anyio.Event()
        self.refused: list[int] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended: list[int] = []

    @hookimpl
    def session_start(self, ctx):
        self.sessions += 1
        number = self.sessions
        self.said, self.over = anyio.Event(), anyio.Event()
        over = self.over

        async def tick() -> None:
            try:
                while self.refused.count(number) < 3:
                    await self.say(ctx, number)
                    await anyio.sleep(0.005)
            finally:
                self.ended.append(number)
                over.set()

        if self.own:
            self.tasks.add(asyncio.get_running_loop().create_task(tick()))
        else:
            ctx.start_task(tick, name="ticker")

    async def say(self, ctx, number: int) -> None:
        try:
            await ctx.append_message("tick", f"from session {number}")
            self.said.set()
        except StaleContextError:
            self.refused.append(number)


async def two_sessions(tmp_path: Path, ticker: Ticker) -> tuple[list[Path], list[object]]:
    """Run one session, and then another on the same host; returns their files and what was told."""
    ready = host(tmp_path, [("ticker", ticker)])
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    told: list[object] = []
    for path in paths:
        session = Session.create(path, cwd=tmp_path)
        async with lab(tmp_path, SCRIPT, prepared=ready, session=session) as it:
            await it.agent.prompt("go")
            await ticker.said.wait()
        size = path.stat().st_size
        with anyio.fail_after(5):
            await ticker.over.wait()
        assert path.stat().st_size == size
        told.append([n for n in it.notices if n.plugin == "ticker"])
    return paths, told


def said_in(path: Path) -> set[str]:
    with Session.open(path, read_only=True) as session:
        return set(ticks(session))


async def test_a_task_of_the_host_ends_with_its_session_and_says_nothing_in_the_next(
    tmp_path: Path,
) -> None:
    ticker = Ticker(own=False)
    (one, two), told = await two_sessions(tmp_path, ticker)
    assert said_in(one) == {"from session 1"}
    assert said_in(two) == {"from session 2"}
    assert ticker.ended == [1, 2]
    assert ticker.refused == []
    assert told == [[], []]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_the_plugins_own_is_refused_told_once_and_harms_nobody(
    tmp_path: Path,
) -> None:
    ticker = Ticker(own=True)
    (one, two), told = await two_sessions(tmp_path, ticker)
    assert said_in(one) == {"from session 1"}
    assert said_in(two) == {"from session 2"}
    assert ticker.refused == [1, 1, 1, 2, 2, 2]
    ((notice,), (_again,)) = told
    assert notice.level == "error"
    assert (
        "plugin 'ticker' used a context whose session has ended (session_shutdown)" in notice.text
    )


async def test_the_context_still_works_while_the_session_says_goodbye(tmp_path: Path) -> None:
    class Farewell:
        @hookimpl
        async def session_shutdown(self, ctx):
            await ctx.append_entry("farewell", {"seen": len(ctx.session.entries()) > 0})

    path = tmp_path / "s.jsonl"
    session = Session.create(path, cwd=tmp_path)
    async with lab(tmp_path, SCRIPT, plugins=[("bye", Farewell())], session=session) as it:
        await it.agent.prompt("go")
    assert it.notices == []
    with Session.open(path, read_only=True) as again:
        assert again.custom("farewell") == {"seen": True}


async def test_a_background_task_that_fails_is_named_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    class Fails:
        @hookimpl
        def session_start(self, ctx):
            async def task() -> None:
                raise SystemExit(3) if self.exits else ValueError("no")

            ctx.start_task(task, name="crasher")

        exits = False

    for exits in (False, True):
        plugin = Fails()
        plugin.exits = exits
        async with lab(tmp_path, SCRIPT, plugins=[("fails", plugin)]) as it:
            await it.agent.prompt("go")
        (notice,) = [n for n in it.notices if n.plugin == "fails"]
        assert "background task 'crasher' of plugin 'fails' failed" in notice.text
        assert len(it.requests) == 1
