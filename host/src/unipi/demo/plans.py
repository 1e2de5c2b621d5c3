"""The three sessions of the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from . import careless, state

if TYPE_CHECKING:
    from unipi.prefix.guard import PrefixPolicy

CARELESS = careless.manifest.name


@frozen
class Plan:
    """One session: the plugins that it loads besides the built-in ones, and the prefix policy."""

    name: str
    title: str
    policy: PrefixPolicy
    plugins: tuple[tuple[str, object], ...]


_STATE = (state.manifest.name, state)
_CARELESS = (CARELESS, careless)
PLANS = (
    Plan("steady", "plugins that behave", "enforce", (_STATE,)),
    Plan("record", "a careless plugin, recorded", "record", (_STATE, _CARELESS)),
    Plan("enforce", "a careless plugin, refused", "enforce", (_STATE, _CARELESS)),
)
