"""What the demo tells while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from unipi_hookspecs import Boundary

    from .plans import Plan
    from .provider import Provider

    Tell: TypeAlias = Callable[[object], None]


@frozen
class ProviderChosen:
    """Who answers, and why."""

    provider: Provider


@frozen
class RunBegins:
    """A session starts, the `number`-th of all."""

    number: int
    plan: Plan


@frozen
class Asked:
    """A prompt was given to the agent."""

    text: str


@frozen
class Answered:
    """A request was answered. `boundary` is the one that it crossed, if any; tokens of the prompt."""

    number: int
    prompt_tokens: int
    cache_read_tokens: int
    answer: str
    boundary: Boundary | None


@frozen
class Warned:
    """The host said something about a plugin."""

    text: str


@frozen
class Told:
    """A message to the model joined the tail: a plugin's state, or a note of the host's."""

    custom_type: str
    text: str
