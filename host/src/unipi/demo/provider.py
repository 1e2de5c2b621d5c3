"""Who answers in the demo: the real local engine where it is installed, else the simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from attrs import evolve, field, frozen

from unipi.providers.models import MODELS
from unipi.sim import Simulator
from unipi.sim.engine import EngineUnavailable, engine_available, start_engine
from unipi.sim.tiny_model import write_model
from unipi_hookspecs import Model

from .script import actions, answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from unipi_hookspecs import Prices

PRICED_AS = "anthropic/claude-sonnet-5"
"""The model whose prices serve as the example."""


@frozen
class Provider:
    """`serve` starts a fresh provider, with nothing in its cache, and gives its base URL.

    `why` says, for people, why it is this one.
    """

    kind: Literal["engine", "simulator"]
    title: str
    why: str
    api: str
    prices: Prices
    serve: Callable[[], AbstractAsyncContextManager[str]] = field(repr=False)

    def model(self, base_url: str) -> Model:
        """The model that it serves at `base_url`."""
        return Model(
            "demo",
            "scripted",
            self.api,
            base_url,
            context_window=65_536,
            prices=self.prices,
            headers={"x-api-key": "none"},  # it looks for one, as the real API does
        )


async def choose_provider(folder: Path, *, simulator: bool) -> Provider:
    """The engine if it is installed, starts here and is wanted; its model goes into `folder`."""
    if simulator:
        return _simulator("it was asked for with --simulator")
    if reason := engine_available():
        return _simulator(reason)
    model = folder / "scripted.gguf"
    try:
        write_model(model, actions())
        async with start_engine(model):
            pass
    except EngineUnavailable as error:
        return _simulator(str(error))
    return _engine(model)


def _engine(model: Path) -> Provider:
    return Provider(
        kind="engine",
        title="llama.cpp, scripted weights, a character a token",
        why="xllamacpp is installed",
        api="openai-chat-completions",
        # It reports no tokens written to its cache: what is not read is paid as fresh input.
        prices=evolve(_example_prices(), cache_write=_example_prices().input),
        serve=lambda: start_engine(model),
    )


def _simulator(why: str) -> Provider:
    return Provider(
        kind="simulator",
        title="Anthropic's cache rules, four bytes a token",
        why=why,
        api="anthropic-messages",
        prices=_example_prices(),
        serve=_simulated,
    )


@asynccontextmanager
async def _simulated() -> AsyncIterator[str]:
    async with Simulator(answer, profile="anthropic", keep_bodies=False).serve() as url:
        yield url


def _example_prices() -> Prices:
    prices = MODELS[PRICED_AS].prices
    assert prices is not None, "the table prices every model of Anthropic's"
    return prices
