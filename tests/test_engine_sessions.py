"""Whole sessions on an engine that we did not write, through every wire API that we speak.

Asserted are tokens, which are the same on every machine. The same session at 200 turns is
`python -m benchmarks --only engine`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from attrs import evolve
from benchmarks.engine_session import Played, play, served

from unipi.agent import RunFailedError
from unipi.providers.apis import APIS
from unipi.sim.engine import engine_available
from unipi_hookspecs import hookimpl

_MISSING = engine_available()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

TURNS = 20


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[str]:
    async with served(tmp_path) as url:
        yield url


def kept(played: Played) -> bool:
    return played.strayed == [] and all(b.cached >= a.prompt for a, b in played.pairs())


@pytest.mark.parametrize("api", sorted(APIS))
async def test_every_request_in_an_epoch_reads_at_least_the_prompt_before_it(
    engine: str, api: str, tmp_path: Path
) -> None:
    played = await play(engine, api, TURNS, tmp_path)
    assert played.strayed == []
    assert len(played.pairs()) == TURNS - 1
    assert [(b.prompt, a.cached) for b, a in played.pairs() if a.cached < b.prompt] == []
    assert played.share_exact() == 1.0
    assert played.states > TURNS // 2
    assert [b.cause for b in played.boundaries] == ["first"]


@pytest.mark.parametrize("api", sorted(APIS))
async def test_the_engine_reads_less_where_the_ledger_says_so_and_nowhere_else(
    engine: str, api: str, tmp_path: Path
) -> None:
    played = await play(engine, api, TURNS, tmp_path, boundary_after=[1])
    assert [(b.cause, b.owner) for b in played.boundaries[1:]] == [("system_prompt", "user")]
    assert played.lost() == played.begun() == [10]
    assert kept(played)
    (place,) = played.lost()
    before, after = played.rows[place - 1 : place + 1]
    lost = before.prompt - after.cached
    assert 0 < lost <= played.boundaries[1].tokens_lost


async def test_the_apis_share_the_engines_cache_and_only_their_wire_differs(
    engine: str, tmp_path: Path
) -> None:
    seen = {}
    for api in sorted(APIS):
        folder = tmp_path / api
        folder.mkdir()
        played = await play(engine, api, 10, folder)
        assert kept(played)
        seen[api] = [row.output for row in played.rows]
    assert len({tuple(outputs) for outputs in seen.values()}) == 1


class Shuffles:
    """What no plugin should do: the tools in another order each time."""

    def __init__(self) -> None:
        self.asked = 0

    @hookimpl
    def before_provider_request(self, event):
        tools = list(event.payload.tools)
        self.asked += 1
        return evolve(event.payload, tools=tools[self.asked :] + tools[: self.asked])


@pytest.mark.parametrize("api", sorted(APIS))
async def test_a_plugin_that_would_cost_every_cached_token_costs_none(
    engine: str, api: str, tmp_path: Path
) -> None:
    shuffles = Shuffles()
    played = await play(engine, api, TURNS, tmp_path, plugins=[("shuffles", shuffles)])
    assert shuffles.asked == TURNS
    assert kept(played)
    assert played.lost() == []


# Each of them reads 80,000 tokens again, which takes 10 seconds: `make test FULL=1`.
@pytest.mark.parametrize("api", sorted(APIS) if os.environ.get("UNIPI_FULL") else sorted(APIS)[:1])
async def test_where_it_is_let_the_engine_loses_and_the_ledger_names_the_plugin_each_time(
    engine: str, api: str, tmp_path: Path
) -> None:
    shuffles = [("shuffles", Shuffles())]
    played = await play(engine, api, 10, tmp_path, plugins=shuffles, policy="record")
    assert played.strayed == []
    assert {(b.owner, b.avoidable) for b in played.boundaries[1:]} == {("shuffles", True)}
    assert played.lost() == played.begun()
    assert len(played.lost()) > 3


@pytest.mark.parametrize("api", sorted(APIS))
async def test_a_prompt_that_the_engine_has_no_room_for_is_told_apart_from_other_refusals(
    api: str, tmp_path: Path
) -> None:
    async with served(tmp_path, ctx=2_048) as url:
        with pytest.raises(RunFailedError, match=r"overflow \(HTTP 400\)"):
            await play(url, api, 10, tmp_path)
