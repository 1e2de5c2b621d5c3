"""The tools of a session: the list is frozen for the epoch, policy is enforced when a call is made.

A tool that is registered late waits for the next epoch, unless the model can be told of it where the
conversation is (`verbs`); one that is disabled is refused at once, and leaves the list in the same
way or with the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from unipi.prefix.canonical import canonical, repair, utf16_key
from unipi.prefix.wire import ToolSpec
from unipi_hookspecs import ToolText, Verb

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
        self._declared: set[str] = set()  # told in this epoch, by the head or by a verb
        self._withdrawn: set[str] = set()  # of these, what the model was told is gone
        self._moved = False  # whether anything may have to be told
        self.tells: Callable[[], bool] = lambda: False  # whether a late tool can be told

    def freeze(self) -> tuple[ToolSpec, ...]:
        """Make the list of a new epoch: every tool that is not disabled, in UTF-16 order."""
        self.visible = {owned.tool.name: owned for owned in self.enabled()}
        self._frozen = True
        self._declared, self._withdrawn = set(self.visible), set()
        self._moved = False
        return tuple(map(_spec, self.visible.values()))

    def changes(self, *, adds: bool, removes: bool) -> Verb | None:
        """What the model has to be told so that it has the tools which are enabled now.

        `adds` and `removes` say what it can be told. Costs nothing while nothing has moved.
        """
        if not self._moved:
            return None
        enabled = self.enabled()
        names = {owned.tool.name for owned in enabled}
        verb = Verb()
        if adds:
            new = [_spec(owned) for owned in enabled if owned.tool.name not in self._declared]
            verb = Verb(
                define=tuple(ToolText(t.name, t.description, t.schema.decode()) for t in new),
                offer=tuple(sorted(self._withdrawn & names, key=utf16_key)),
            )
        if removes:
            gone = self._declared - self._withdrawn - names
            verb = evolve(verb, withdraw=tuple(sorted(gone, key=utf16_key)))
        self._moved = verb != Verb()
        return verb if self._moved else None

    def told(self, verb: Verb) -> None:
        """The model was told of tools, now or on this branch before a restart."""
        named = [tool.name for tool in verb.define]
        self._declared.update(named)
        self.visible.update({name: self._known[name] for name in named if name in self._known})
        self._withdrawn.difference_update(verb.offer, named)
        self._withdrawn.update(verb.withdraw)

    def enabled(self) -> list[OwnedTool]:
        """What the list of an epoch that began now would hold."""
        names = sorted((n for n in self._known if not self._disabled.get(n)), key=utf16_key)
        return [self._known[name] for name in names]

    def restore(self, names: Sequence[str]) -> list[str]:
        """Take over the list of an epoch that another process began; returns what is gone."""
        self.visible = {name: self._known[name] for name in names if name in self._known}
        self._frozen = True
        self._declared, self._withdrawn = set(names), set()
        self._moved = True
        return [name for name in names if name not in self._known]

    @property
    def pending(self) -> list[str]:
        """Tools that wait for the next epoch, or to be told."""
        return [name for name in self._known if self._frozen and name not in self.visible]

    def offer(self, plugin: str, tools: Sequence[Tool], where: str = "") -> None:
        """Register more tools; inside an epoch they wait to be told, or for the next one.

        One that the epoch's list holds already, of a plugin that was slow to come back, is there. One
        that its plugin had registered otherwise is another from the next epoch on.
        """
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
                elif (other.tool.description, other.tool.parameters) != (
                    tool.description,
                    tool.parameters,
                ):
                    self._known[tool.name] = OwnedTool(plugin, tool)  # the epoch keeps the old one
                continue
            self._known[tool.name] = OwnedTool(plugin, tool)
            self._moved = True
            if tool.name in self._declared:
                self.visible[tool.name] = self._known[tool.name]
            else:
                added.append(tool.name)
        if added and self._frozen and not self.tells():
            hook = f" in {where}" if where else ""
            self._warn(
                plugin,
                f"plugin {plugin!r} registered {', '.join(added)}{hook}, after the tool list was "
                "sent; pending until the next cache epoch: register in register_tools, or call "
                "ctx.request_boundary",
            )

    def disable(self, name: str, plugin: str, reason: str) -> None:
        self._disabled.setdefault(name, {})[plugin] = reason
        self._moved = True

    def enable(self, name: str, plugin: str) -> None:
        self._disabled.get(name, {}).pop(plugin, None)
        self._moved = True

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


def _spec(owned: OwnedTool) -> ToolSpec:
    tool = owned.tool
    return ToolSpec(tool.name, repair(tool.description), canonical(tool.parameters))
