"""With which model and thinking level a session was last worked in, so that its prefix goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent import records
from unipi.cli._session import LEVELS
from unipi_hookspecs import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi.session import Session
    from unipi_hookspecs import Model, ThinkingLevel


def model_of(session: Session, models: Mapping[str, Model]) -> Model | None:
    """The model that was chosen last, or answered last, on the session's branch; None: unknown."""
    for entry in reversed(session.branch()):
        if entry.type == "model_change":
            return models.get(f"{entry.fields.get('provider')}/{entry.fields.get('modelId')}")
        if isinstance(entry.message, AssistantMessage):
            return models.get(f"{entry.message.provider}/{entry.message.model}")
    return None


def thinking_of(session: Session) -> ThinkingLevel | None:
    """The level that was chosen last, else the one of the stored head; None: unknown."""
    branch = session.branch()
    for entry in reversed(branch):
        if entry.type == "thinking_level_change":
            return _level(entry.fields.get("thinkingLevel"))
        if entry.type == "custom" and entry.fields.get("customType") == records.HEAD:
            break
    return _level((records.latest(branch, records.HEAD) or {}).get("thinking"))


def _level(value: object) -> ThinkingLevel | None:
    return value if value in LEVELS else None  # type: ignore[return-value]  # one of the levels
