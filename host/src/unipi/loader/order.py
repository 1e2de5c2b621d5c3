"""The one total order of plugins (design section 3.1).

Topological by `before`, `after` and `requires`; ties by tier (the host's own plugins first), then
by name in UTF-16 code-unit order. Nothing else enters: not install order, locale, file system, or
hash seed.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Literal

from attrs import frozen

from .values import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import Manifest

    from .values import LoadedPlugin, LoadResult


def utf16_key(name: str) -> bytes:
    """A sort key in UTF-16 code-unit order, as JavaScript's `<` and RFC 8785 section 3.2.3."""
    return name.encode("utf-16-be", "surrogatepass")


@frozen
class Node:
    """What ordering needs to know of one plugin; `label` names it in messages."""

    name: str
    builtin: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    requires: tuple[str, ...]
    label: str
    distribution: str | None = None

    @property
    def key(self) -> tuple[bool, bytes]:
        """The place among plugins that nothing else orders."""
        return (not self.builtin, utf16_key(self.name))


@frozen
class Edge:
    """`first` comes before `then`, because of what the manifest of `owner` says."""

    first: str
    then: str
    owner: str
    word: Literal["before", "after", "requires"]


def node(manifest: Manifest, *, builtin: bool, distribution: str | None, label: str) -> Node:
    """The ordering node of a plugin."""
    return Node(
        manifest.name,
        builtin,
        tuple(manifest.before),
        tuple(manifest.after),
        tuple(manifest.requires),
        label,
        distribution,
    )


def edges(nodes: Sequence[Node]) -> list[Edge]:
    """Every constraint between plugins that are here."""
    here = {item.name for item in nodes}
    found: list[Edge] = []
    for item in nodes:
        found += [Edge(item.name, t, item.name, "before") for t in item.before if t in here]
        found += [Edge(t, item.name, item.name, "after") for t in item.after if t in here]
        found += [Edge(t, item.name, item.name, "requires") for t in item.requires if t in here]
    return found


def order(nodes: Sequence[Node], absent: Mapping[str, str]) -> tuple[list[str], list[Problem]]:
    """Names in load order, and the cycles and missing `after` targets found on the way.

    `absent` says of known plugins that are not active how they ended. Members of a cycle are
    ordered by name; whatever they ask of plugins outside it still holds.
    """
    by_name = {item.name: item for item in nodes}
    problems = [
        _missing_target(item, target, absent.get(target))
        for item in sorted(nodes, key=lambda n: n.key)
        for target in item.after
        if target not in by_name
    ]
    constraints = edges(nodes)
    cycles = _cycles(by_name, constraints)
    group = {name: index for index, members in enumerate(cycles) for name in members}
    problems += [_cycle_problem([by_name[name] for name in members]) for members in cycles]
    held = [e for e in constraints if group.get(e.first, -1) != group.get(e.then, -2)]
    return _kahn(by_name, held), problems


def _kahn(by_name: Mapping[str, Node], constraints: Sequence[Edge]) -> list[str]:
    followers: dict[str, set[str]] = {name: set() for name in by_name}
    for edge in constraints:
        followers[edge.first].add(edge.then)
    waiting = dict.fromkeys(by_name, 0)
    for targets in followers.values():
        for target in targets:
            waiting[target] += 1
    ready = [(by_name[name].key, name) for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    done: list[str] = []
    while ready:
        _, name = heapq.heappop(ready)
        done.append(name)
        for target in followers[name]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, (by_name[target].key, target))
    return done


def _cycles(by_name: Mapping[str, Node], constraints: Sequence[Edge]) -> list[list[str]]:
    """The strongly connected groups with a cycle in them, each sorted, in order of their first."""
    reach = {name: _reachable(name, constraints) for name in by_name}
    found: list[list[str]] = []
    seen: set[str] = set()
    for name in sorted(by_name, key=lambda n: by_name[n].key):
        if name in seen or name not in reach[name]:
            continue
        members = [other for other in reach[name] if name in reach[other]]
        members.sort(key=lambda n: by_name[n].key)
        seen.update(members)
        found.append(members)
    return found


def _reachable(start: str, constraints: Sequence[Edge]) -> set[str]:
    seen: set[str] = set()
    stack = [start]
    while stack:
        current = stack.pop()
        for edge in constraints:
            if edge.first == current and edge.then not in seen:
                seen.add(edge.then)
                stack.append(edge.then)
    return seen


def _cycle_problem(members: Sequence[Node]) -> Problem:
    names = ", ".join(item.label for item in members)
    if len(members) == 1:
        text = f"{names} asks to stand before or after itself; that is set aside."
    else:
        text = (
            f"these plugins ask to stand before and after each other in a circle: {names}. They"
            " load in the order of their names; one of them must drop a `before`, `after` or"
            " `requires`, or be disabled with `unipi plugins disable NAME`."
        )
    return Problem("cycle", text, tuple(item.name for item in members), _distributions(members))


def _missing_target(item: Node, target: str, ended: str | None) -> Problem:
    what = f"which is {ended}" if ended else "which is not installed"
    text = (
        f"{item.label} asks to load after {target!r}, {what}. It loads without it; install or"
        f" enable {target!r}, or drop the `after`."
    )
    return Problem("after", text, (item.name, target), _distributions([item]))


def _distributions(members: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m.distribution for m in members if m.distribution))


def explain(result: LoadResult) -> list[str]:
    """Of each active plugin, in order, why it stands where it stands; one line each."""
    active = result.active
    nodes = [_node_of(item) for item in active]
    by_name = {item.name: item for item in nodes}
    constraints = edges(nodes)
    cycles = {name: members for members in _cycles(by_name, constraints) for name in members}
    lines: list[str] = []
    for plugin, item in zip(active, nodes, strict=True):
        why = [_tier(item)]
        if item.name in cycles:
            why.append("in a circle of " + ", ".join(cycles[item.name]) + ", which goes by name")
        inside = set(cycles.get(item.name, ()))
        why += [
            _reason(edge, item.name)
            for edge in constraints
            if item.name in (edge.first, edge.then)
            and not (edge.first in inside and edge.then in inside)
        ]
        lines.append(f"{plugin.position}. {item.label}: {'; '.join(why)}")
    return lines


def _node_of(item: LoadedPlugin) -> Node:
    shown = f"{item.distribution} {item.version}" if item.distribution else None
    label = f"{item.name} ({shown or item.source})"
    return node(item.manifest, builtin=item.source == "built-in", distribution=shown, label=label)


def _tier(item: Node) -> str:
    return "built-in, so before the others, by name" if item.builtin else "by name"


def _reason(edge: Edge, name: str) -> str:
    if edge.word == "before":
        mine, theirs = f"before {edge.then}", f"after {edge.first}, which asks to stand before it"
        return mine + ", as it asks" if edge.owner == name else theirs
    if edge.owner == name:
        verb = "asks" if edge.word == "after" else "requires"
        return f"after {edge.first}, as it {verb}"
    verb = "asks to stand after it" if edge.word == "after" else "requires it"
    return f"before {edge.then}, which {verb}"
