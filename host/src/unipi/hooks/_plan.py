"""Frozen plans: each hook's implementations, in the order in which they are called."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from unipi_hookspecs import POLICIES, HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pluggy

    from ._record import Recorder

Call: TypeAlias = "Callable[[object, object], object]"
Step: TypeAlias = "tuple[Call, object, tuple[str, str], list[int]]"
"""What dispatch needs of one implementation: how to call it, its ctx, its plugin and hook, its
figures."""


@frozen
class Implementation:
    """One plugin's implementation of a hook; `call` takes `(event, ctx)` whatever it names."""

    plugin: str
    hook: str
    argnames: tuple[str, ...]
    call: Call
    row: list[int]


@frozen
class Plan:
    """A hook with its implementations bound to a session's contexts."""

    policy: HookPolicy
    steps: Iterable[Step]
    recorder: Recorder
    clock: Callable[[], int]


class Unbound:
    """The steps of a hook that has implementations while no session is bound."""

    def __init__(self, hook: str) -> None:
        self._hook = hook

    def __iter__(self) -> Iterator[Step]:
        raise RuntimeError(f"{self._hook} was dispatched outside a session: call bind() first")


def _positional(function: Callable[..., object], argnames: tuple[str, ...]) -> Call:
    """`function` as one that takes `(event, ctx)`: pluggy lets it name fewer, in any order."""
    match argnames:
        case ("event", "ctx"):
            return function
        case ("ctx", "event"):
            return lambda event, ctx: function(ctx, event)
        case ("event",):
            return lambda event, _: function(event)
        case ("ctx",):
            return lambda _, ctx: function(ctx)
        case _:
            return lambda _, __: function()


def _tier(implementation: pluggy.HookImpl) -> int:
    if implementation.tryfirst:
        return 0
    return 2 if implementation.trylast else 1


def compile_plans(
    manager: pluggy.PluginManager, recorder: Recorder
) -> dict[str, tuple[Implementation, ...]]:
    """The implementations of every hook, in calling order.

    First registered is first called: the loader registers in its own total order (design 3.1).
    `tryfirst` and `trylast` come first and last inside that; hooks declared `reverse` walk each of
    the three groups backwards. Wrappers are refused and reported. Raises ValueError when the
    manager lacks the hook specifications.
    """
    position = {name: index for index, (name, _) in enumerate(manager.list_name_plugin())}
    plans: dict[str, tuple[Implementation, ...]] = {}
    for hook, policy in POLICIES.items():
        caller = getattr(manager.hook, hook, None)
        if caller is None or not caller.has_spec():
            raise ValueError(f"the plugin manager has no specification of the hook {hook!r}")
        usable = [found for found in caller.get_hookimpls() if not _refused(hook, found, recorder)]
        sign = -1 if policy.reverse else 1
        usable.sort(key=lambda found: (_tier(found), sign * position[found.plugin_name]))
        plans[hook] = tuple(
            Implementation(
                found.plugin_name,
                hook,
                tuple(found.argnames),
                _positional(found.function, tuple(found.argnames)),
                recorder.row(found.plugin_name, hook),
            )
            for found in usable
        )
    return plans


def _refused(hook: str, found: pluggy.HookImpl, recorder: Recorder) -> bool:
    if not (found.wrapper or found.hookwrapper):
        return False
    text = "is a hook wrapper, which cannot be awaited or timed; implement the hook itself"
    recorder.fail(found.plugin_name, hook, "refused", text)
    return True


def steps(
    implementations: Sequence[Implementation], contexts: Callable[[str], object]
) -> tuple[Step, ...]:
    """`implementations` bound to what `contexts` gives for each plugin's name."""
    return tuple(
        (each.call, contexts(each.plugin), (each.plugin, each.hook), each.row)
        for each in implementations
    )


def digest(plans: Mapping[str, Sequence[Implementation]]) -> str:
    """SHA-256, in hex, of who implements what, with which arguments and in which order."""
    shape = [
        [hook, [[each.plugin, *each.argnames] for each in implementations]]
        for hook, implementations in sorted(plans.items())
        if implementations
    ]
    return hashlib.sha256(json.dumps(shape, separators=(",", ":")).encode("ascii")).hexdigest()
