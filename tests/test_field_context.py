"""Field report F66: contexts and background tasks end with their session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from unipi.session import Session
from unipi.sim import Say
from unipi.testing import lab
from unipi.testing.lab import host
from unipi_hookspecs import CustomMessage, StaleContextError, hookimpl

SCRIPT = [[Say(f"answer {n}")] for n in range(4)]


def ticks(session: Session) -> list[str]:
    found = [e.message for e in session.entries() if isinstance(e.message, CustomMessage)]
    return [m.content for m in found if m.custom_type == "tick"]


class Ticker:
    """Says something every few milliseconds, from a task of the host or from one of its own."""

    def __init__(self, *, own: bool) -> None:
        self.own = own
        self.sessions = 0
        self.said = anyio.Event()
        self.refused: list[StaleContextError] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended: list[int] = []

    @hookimpl
    def session_start(self, ctx):
        self.sessions += 1
        number = self.sessions
        self.said = anyio.Event()

        async def tick() -> None:
            try:
                while len(self.refused) < 3:
                    await self.say(ctx, number)
                    await anyio.sleep(0.005)
            finally:
                self.ended.append(number)

        if self.own:
            self.tasks.add(asyncio.get_running_loop().create_task(tick()))
        else:
            ctx.start_task(tick, name="ticker")

    async def say(self, ctx, number: int) -> None:
        try:
            await ctx.append_message("tick", f"from session {number}")
            self.said.set()
        except StaleContextError as error:
            self.refused.append(error)


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
        await anyio.sleep(0.05)
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
    assert len(ticker.refused) >= 3
    ((notice,), _) = told
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
