"""A session of any length against the real engine, and what its cache gave each request.

The agent is whole: built-in tools, every installed plugin, a tool of its own, and a plugin that
tells a changing state at the tail. The model is scripted (`unipi.sim.tiny_model`); what is real is
tokenizer, attention, prefix cache and the count of cached tokens.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

from unipi.agent import AgentOptions, open_agent, prepare_host
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.loader import LoadOptions
from unipi.session import Session
from unipi.sim.engine import start_engine
from unipi.sim.tiny_model import Action, tool_call, write_model
from unipi_hookspecs import (
    AssistantMessage,
    BeforeAgentStartEvent,
    Call,
    Context,
    EpochBoundaryEvent,
    LoadContext,
    Model,
    ProviderResponseEndEvent,
    StartWith,
    Text,
    Tool,
    TurnEndEvent,
    Usage,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from unipi.prefix.guard import PrefixPolicy
    from unipi_hookspecs import Boundary

TURNS_A_PROMPT = 10
_PROMPT = "Begin with the first row, please."
_END = "All rows are read."
_FILE = "rows.txt"
_KEY: dict[str, object] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


@frozen
class Row:
    """One answered request: its epoch, and its tokens as the engine reported them."""

    epoch: int
    prompt: int
    cached: int
    output: int


@define
class Played:
    """What a session left: its requests, its boundaries, and how many texts of state it told."""

    rows: list[Row] = Factory(list)
    boundaries: list[Boundary] = Factory(list)
    states: int = 0
    strayed: list[str] = Factory(list)

    def pairs(self) -> list[tuple[Row, Row]]:
        """Each request in an epoch with the one before it."""
        return [(a, b) for a, b in pairwise(self.rows) if a.epoch == b.epoch]

    def share_kept(self) -> float:
        """Requests in an epoch that read at least the whole prompt before them, over all such."""
        pairs = self.pairs()
        return sum(after.cached >= before.prompt for before, after in pairs) / len(pairs)

    def share_exact(self) -> float:
        """Those that read what the engine can give at most: prompt and answer, less one token."""
        pairs = self.pairs()
        exact = sum(after.cached == before.prompt + before.output - 1 for before, after in pairs)
        return exact / len(pairs)

    def lost(self) -> list[int]:
        """By the number of the request: the first of an epoch that read less than its past."""
        return [
            place
            for place, (before, after) in enumerate(pairwise(self.rows), 1)
            if after.cached < before.prompt
        ]

    def begun(self) -> list[int]:
        """The numbers of the requests that begin an epoch, the first of all left out."""
        return [i for i, (a, b) in enumerate(pairwise(self.rows), 1) if a.epoch != b.epoch]


def actions() -> list[Action]:
    """Nine turns with tools and one with text: single calls, batches, text before a call."""
    script = [Action("row 9 is read", _END)]
    for n in range(1, 9):
        say = tool_call("row", n=n + 1)
        if n % 3 == 0:
            say = f"Rows up to {n} are read.\n{say}"
        if n == 4:
            say = tool_call("read", path=_FILE) + "\n" + say
        if n == 7:
            say = tool_call("bash", command="echo a look around") + "\n" + say
        script.append(Action(f"row {n} is read", say))
    return [*script, Action("the first row", tool_call("row", n=1)), Action("", "I am lost.")]


class _Plugin:
    """The tool, a rule in the system prompt that changes at a boundary only, and the state."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.rules = 1

    @hookimpl
    def register_tools(self, ctx: LoadContext) -> list[Tool]:
        return [Tool("row", "Read one row of the table.", parameters=_KEY, run=self._row)]  # type: ignore[arg-type]  # a JSON Schema

    def _row(self, call: Call, ctx: Context) -> str:
        return f"row {call.input['n']} is read: {len(self.played.rows):04d} → café"

    @hookimpl
    def before_agent_start(self, event: BeforeAgentStartEvent) -> StartWith:
        return StartWith(system_prompt=f"Rules, edition {self.rules}.\n{event.system_prompt}")

    @hookimpl
    async def turn_end(self, event: TurnEndEvent, ctx: Context) -> None:
        done = len(self.played.rows)
        if done % 3 != 2:  # now and then there is no news
            self.played.states += 1
        text = f"{self.played.states} news so far."
        await ctx.append_message("news", text, display=False, supersedes=True)

    @hookimpl
    def provider_response_end(self, event: ProviderResponseEndEvent) -> None:
        usage = event.usage or Usage()
        if event.error or usage.cache_read is None:
            self.played.strayed.append(event.error or "the cached tokens were not reported")
        row = Row(event.info.epoch, usage.prompt, usage.cache_read or 0, usage.output)
        self.played.rows.append(row)

    @hookimpl
    def epoch_boundary(self, event: EpochBoundaryEvent) -> None:
        self.played.boundaries.append(event.boundary)


def engine_model(base_url: str, api: str) -> Model:
    """The scripted model, served by the engine at `base_url`, through one of its APIs."""
    return Model(
        "engine",
        "scripted",
        api,
        base_url,
        context_window=65_536,
        headers={"x-api-key": "none", "authorization": "Bearer none"},
    )


@asynccontextmanager
async def served(folder: Path, ctx: int = 65_536) -> AsyncIterator[str]:
    """The engine with the model of this session and `ctx` tokens of room; gives its base URL."""
    path = folder / "scripted.gguf"
    write_model(path, actions())
    async with start_engine(path, ctx) as url:
        yield url


async def play(
    base_url: str,
    api: str,
    turns: int,
    folder: Path,
    *,
    boundary_after: Sequence[int] = (),
    plugins: Sequence[tuple[str, object]] = (),
    policy: PrefixPolicy = "enforce",
) -> Played:
    """Play a session of `turns` requests (a multiple of `TURNS_A_PROMPT`) in `folder`.

    After each prompt whose number (from 1) is in `boundary_after` the system prompt changes and
    the user asks for an epoch.
    """
    (folder / _FILE).write_text("what stands in the file\n")
    played = Played()
    plugin = _Plugin(played)
    host = prepare_host(
        folder,
        LoadOptions(builtins=(*builtin_plugins(), ("rows", plugin), *plugins), essential=ESSENTIAL),
    )
    played.strayed += [problem.message for problem in host.problems]
    session = Session.create(folder / f"{api}.jsonl", cwd=folder)
    options = AgentOptions(policy=policy, max_turns=TURNS_A_PROMPT + 1)
    async with open_agent(host, session, engine_model(base_url, api), options) as agent:
        for number in range(1, turns // TURNS_A_PROMPT + 1):
            await agent.prompt(_PROMPT)
            if number in boundary_after:
                plugin.rules += 1
                agent.want_boundary("system_prompt", "another edition of the rules")
        answers = [m for m in agent.session.messages() if isinstance(m, AssistantMessage)]
    said = [part.text for m in answers for part in m.content if isinstance(part, Text)]
    if len(played.rows) != turns or said.count(_END) != turns // TURNS_A_PROMPT:
        played.strayed.append(f"{len(played.rows)} requests of {turns}; it last said {said[-1:]}")
    return played
