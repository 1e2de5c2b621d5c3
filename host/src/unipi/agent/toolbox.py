"""The tools of a session: the list is frozen for the epoch, policy is enforced when a call is made.

A tool that is registered late waits for the next epoch; one that is disabled is refused at once and
leaves the list with the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from unipi.prefix.canonical import canonical, repair, utf16_key
from unipi.prefix.wire import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from unipi_hookspecs import Tool


@frozen(eq=False)
class OwnedTool:
    """A tool and the plugin that registered it."""

    owner: str
    tool: Tool


class Toolbox:
    """Which tools there are, which the model sees, and which it may not call."""

    def __init__(self, tools: Iterable[OwnedTool], warn: Callable[[str, str], None]) -> None:
        self._known = {owned.tool.name: owned for owned in tools}
        self._warn = warn
        self._disabled: dict[str, dict[str, str]] = {}
        self.visible: dict[str, OwnedTool] = {}
        self._frozen = False

    def freeze(self) -> tuple[ToolSpec, ...]:
        """Make the list of a new epoch: every tool that is not disabled, in UTF-16 order."""
        self.visible = {owned.tool.name: owned for owned in self.enabled()}
        self._frozen = True
        return tuple(
            ToolSpec(name, repair(owned.tool.description), canonical(owned.tool.parameters))
            for name, owned in self.visible.items()
        )

    def enabled(self) -> list[OwnedTool]:
        """What the list of an epoch that began now would hold."""
        names = sorted((n for n in self._known if not self._disabled.get(n)), key=utf16_key)
        return [self._known[name] for name in names]

    def restore(self, names: Sequence[str]) -> list[str]:
        """Take over the list of an epoch that another process began; returns what is gone."""
        self.visible = {name: self._known[name] for name in names if name in self._known}
        self._frozen = True
        return [name for name in names if name not in self._known]

    @property
    def pending(self) -> list[str]:
        """Tools that wait for the next epoch."""
        return [name for name in self._known if self._frozen and name not in self.visible]

    def offer(self, plugin: str, tools: Sequence[Tool], where: str = "") -> None:
        """Register more tools; inside an epoch they wait for the next one."""
        added = []
        for tool in tools:
            other = self._known.get(tool.name)
            if other is not None:
                if other.owner != plugin:
                    self._warn(
                        plugin,
                        f"plugin {plugin!r} offers a tool {tool.name!r}, which plugin "
                        f"{other.owner!r} has already; rename one of them",
                    )
                continue
            self._known[tool.name] = OwnedTool(plugin, tool)
            added.append(tool.name)
        if added and self._frozen:
            hook = f" in {where}" if where else ""
            self._warn(
                plugin,
                f"plugin {plugin!r} registered {', '.join(added)}{hook}, after the tool list was "
                "sent; pending until the next cache epoch: register in register_tools, or call "
                "ctx.request_boundary",
            )

    def disable(self, name: str, plugin: str, reason: str) -> None:
        self._disabled.setdefault(name, {})[plugin] = reason

    def enable(self, name: str, plugin: str) -> None:
        self._disabled.get(name, {}).pop(plugin, None)

    def refusal(self, name: str) -> str | None:
        """Why a call of this tool is refused, for the model, or None."""
        policies = self._disabled.get(name)
        if policies:
            plugin, reason = next(iter(policies.items()))
            return f"{name} is disabled by plugin {plugin!r}: {reason}"
        if name not in self.visible:
            known = ", ".join(self.visible) or "none"
            if name in self._known:
                return f"{name} is not available yet. Tools: {known}"
            return f"There is no tool {name!r}. Tools: {known}"
        return None
