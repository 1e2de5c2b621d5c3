"""What dispatch hands back to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON, Block, CustomMessage

FailureKind: TypeAlias = Literal[
    "raised", "cancelled", "timed_out", "returned", "slow", "over_budget", "refused"
]
"""How a plugin misbehaved.

`cancelled` is a cancellation that nobody asked for, `slow` a step that held the event loop for
more than 50 ms, `over_budget` a synchronous one that outran the hook's budget and could not be
stopped, `refused` an implementation that cannot be dispatched at all. `slow` and `over_budget` are
reports; the others count as errors.
"""


@frozen
class Failure:
    """One thing that a plugin did wrong; `error` is a phrase such as `raised ValueError: no`."""

    plugin: str
    hook: str
    kind: FailureKind
    error: str
    elapsed_ms: float
    exception: BaseException | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}, hook {self.hook}: {self.error}"


@frozen
class PluginStats:
    """What one plugin's implementation of one hook has cost so far.

    Times are wall time in nanoseconds, without time spent waiting for the user
    (`budget_paused`). `slow` counts the calls that held the event loop for more than 50 ms.
    """

    plugin: str
    hook: str
    count: int
    errors: int
    total_ns: int
    max_ns: int
    slow: int


@frozen
class Decision:
    """What the plugins say of a tool call.

    `input` holds the arguments to run with, `replaced_by` the plugins that replaced them, in
    order (the caller validates them again). With a `block` the call is not run, and `owner` is the
    plugin that said so, or whose failure did.
    """

    input: Mapping[str, JSON]
    block: Block | None = None
    owner: str | None = None
    replaced_by: tuple[str, ...] = ()


@frozen
class Start:
    """What the plugins add to a run that is about to start.

    `messages` are in plugin order, each with its plugin's name; `prompt_changed_by` names the
    plugins that changed the system prompt, the last one being its author, and `prompts` is the
    prompt after the turn of each.
    """

    messages: Sequence[tuple[str, CustomMessage]]
    system_prompt: str
    prompt_changed_by: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()

    @property
    def prompt_owner(self) -> str | None:
        """The plugin whose system prompt this is, or None for the host's."""
        return self.prompt_changed_by[-1] if self.prompt_changed_by else None
