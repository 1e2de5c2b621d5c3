"""An agent against the simulator, in one line: what the host's own tests and plugin tests use."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import Factory, define

from unipi.agent import AgentOptions, Notice, open_agent, prepare_host
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.loader import LoadOptions
from unipi.prefix.marks import extended_by
from unipi.session import Session
from unipi.sim import Clock, Simulator
from unipi_hookspecs import Boundary, EpochBoundaryEvent, Model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from unipi.agent import Agent, Host
    from unipi.sim import Recorded

PROFILES = {
    "anthropic-messages": "anthropic",
    "openai-chat-completions": "openai_legacy",
    "openai-responses": "openai_legacy",
}
"""The cache rule that is usual for each wire API."""


@define(eq=False)
class Lab:
    """A running agent, its simulator, and all that it said."""

    agent: Agent
    sim: Simulator
    host: Host
    events: list[object] = Factory(list)

    @property
    def requests(self) -> Sequence[Recorded]:
        """What the provider received and answered, in order."""
        return [request for request in self.sim.requests if request.status == 200]

    @property
    def notices(self) -> list[Notice]:
        return [event for event in self.events if isinstance(event, Notice)]

    @property
    def boundaries(self) -> list[Boundary]:
        return [event.boundary for event in self.events if isinstance(event, EpochBoundaryEvent)]


def model(base_url: str, api: str = "anthropic-messages") -> Model:
    """A model served by the simulator at `base_url`; Anthropic's binds its thinking, as new ones do."""
    return Model(
        "sim",
        "sim-model",
        api,
        base_url,
        headers={"x-api-key": "sim", "authorization": "Bearer sim"},
        binds_thinking=api == "anthropic-messages",
    )


def host(cwd: Path, plugins: Sequence[tuple[str, object]] = ()) -> Host:
    """A host with the built-in plugins and these, and nothing that is installed.

    Raises `unipi.loader.LoadError` for any problem with a plugin.
    """
    load = LoadOptions(
        entry_points=False,
        builtins=(*builtin_plugins(resources=False), *plugins),
        essential=ESSENTIAL,
        strict=True,
    )
    return prepare_host(cwd, load)


@asynccontextmanager
async def lab(
    cwd: Path,
    script: object,
    *,
    plugins: Sequence[tuple[str, object]] = (),
    api: str = "anthropic-messages",
    session: Session | None = None,
    options: AgentOptions | None = None,
    sim: Simulator | None = None,
    prepared: Host | None = None,
) -> AsyncIterator[Lab]:
    """Run an agent in `cwd` against a simulator that answers by `script`.

    Without a `session` one is kept in memory. Two labs may share a `sim`, one after the other, so
    that the second resumes what the first began.
    """
    sim = sim or Simulator(script, profile=PROFILES[api], clock=Clock())  # type: ignore[arg-type]  # the simulator checks its script
    prepared = prepared or host(cwd, plugins)
    session = session or Session.create(None, cwd=cwd)
    events: list[object] = []
    async with (
        sim.serve() as base_url,
        open_agent(
            prepared,
            session,
            model(base_url, api),
            options or AgentOptions(),
            observer=events.append,
        ) as agent,
    ):
        yield Lab(agent, sim, prepared, events)


def prefix_breaks(requests: Sequence[Recorded]) -> list[int]:
    """The requests that do not extend the one before them, by index.

    A body extends another when it begins with its bytes up to the closing brackets; cache markers
    inside messages, which are no content, are set aside.
    """
    return [
        index
        for index in range(1, len(requests))
        if extended_by(requests[index - 1].body, requests[index].body) is None
    ]
