"""The contexts of all plugins in one session, and the tasks that plugins start there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from unipi.hooks import acting_as
from unipi_hookspecs import StaleContextError

from .notices import Notice
from .plugin_context import PluginContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from unipi_hookspecs import JSON

    from .agent import Agent


class Contexts:
    """Makes a plugin's context when it is first needed, and ends all of them with the session."""

    def __init__(self, agent: Agent, settings: Mapping[str, Mapping[str, JSON]]) -> None:
        self._agent = agent
        self._settings = settings
        self._made: dict[str, PluginContext] = {}

    def of(self, plugin: str) -> PluginContext:
        """The context of a plugin in this session."""
        context = self._made.get(plugin)
        if context is None:
            context = PluginContext(self._agent, plugin, self._settings.get(plugin, {}))
            self._made[plugin] = context
        return context

    def end(self, event: str) -> None:
        """Make the plugins' contexts stale; the first use of each after that is told."""
        for plugin, context in self._made.items():
            context.end(event, partial(self.tell_of, plugin))

    def tell_of(self, plugin: str, text: str) -> None:
        """Tell the user of a plugin's error."""
        self._agent.observer(Notice("error", text, plugin))

    def start_task(self, plugin: str, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a plugin's background task in the session's task group, isolated and named."""

        async def isolated() -> None:
            try:
                with acting_as(plugin):
                    await run()
            except StaleContextError:
                pass  # its context has told
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's task must not end the session
                text = f"background task {name!r} of plugin {plugin!r} failed: {error!r}"
                self.tell_of(plugin, text)

        self._agent.tasks.start_soon(isolated, name=f"{plugin}:{name}")
