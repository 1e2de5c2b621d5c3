"""The simulated provider of a replay: it gives the recorded answers, on the recorded clock."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from unipi.sim import Answer, Clock, Simulator
from unipi.sim.server import serve

from .watch import PrefixWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from unipi.sim import Profile, Recorded


class Provider:
    """Answers every request with `answer`, which the walk sets before it asks."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.answer = Answer()
        self.clock = Clock()
        self._sim = Simulator(
            lambda _request, _index: self.answer,
            profile=profile,
            clock=self.clock,
            keep_bodies=False,
        )
        self.watch = PrefixWatch(self._sim.exchange)

    @property
    def requests(self) -> list[Recorded]:
        """What has arrived, bodies left out."""
        return self._sim.requests

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve on a free loopback port; gives the base URL."""
        async with serve(self.watch) as url:
            yield url
