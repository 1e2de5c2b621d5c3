"""What the plugin remembers of the sessions that are open in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import define, field

from .settings import PRESETS, read_options
from .trigger import PercentageTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unipi_hookspecs import Context, Entry

    from .recall import Recall
    from .settings import Options

PRESET: Final = "unipi-compactor-preset"


@define
class SessionState:
    """What one session needs: the trigger's memory, and its recall once it was asked for."""

    trigger: PercentageTrigger = field(factory=PercentageTrigger)
    recall: Recall | None = None
    recall_path: Path | None = None
    recall_from_file: bool = False


_sessions: dict[str, SessionState] = {}


def of(ctx: Context) -> SessionState:
    """The state of a context's session, begun when there is none."""
    return _sessions.setdefault(ctx.session.id, SessionState())


def end(ctx: Context) -> None:
    """Forget a session and close what it had open."""
    state = _sessions.pop(ctx.session.id, None)
    if state is not None and state.recall is not None:
        state.recall.close()


def options_of(ctx: Context, branch: Sequence[Entry] | None = None) -> Options:
    """The options in force: settings, and the preset that was chosen for this branch."""
    return read_options(
        ctx.settings, chosen_preset(ctx.session.branch() if branch is None else branch)
    )


def chosen_preset(branch: Sequence[Entry]) -> str | None:
    """The preset that was chosen last on a branch, or None."""
    for entry in reversed(branch):
        if entry.type == "custom" and entry.fields.get("customType") == PRESET:
            data = entry.fields.get("data")
            name = data.get("preset") if isinstance(data, Mapping) else None
            return name if isinstance(name, str) and name in PRESETS else None
    return None
