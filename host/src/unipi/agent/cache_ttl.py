"""How long the provider is asked to keep the prompt: a setting, or what the session's pauses say.

It stands in the head, so it is chosen when an epoch begins and holds for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from unipi_hookspecs import UserMessage

if TYPE_CHECKING:
    from unipi.session import Session

CacheTtl: TypeAlias = Literal["5m", "1h", "auto"]
_SHORT_MS: Final = 300_000
_LONG_MS: Final = 3_600_000


def wire_ttl(choice: CacheTtl, session: Session) -> str:
    """The time to live of the next epoch's head; empty for the provider's own five minutes.

    "auto" takes an hour once a pause before a prompt has lasted between five minutes and an hour.
    By Anthropic's prices (a write costs 1.25 times the input for five minutes, twice for an hour, a
    read a tenth) the hour adds 0.75 of what is new, and one such pause costs 1.15 of everything.
    """
    if choice == "auto":
        choice = "1h" if _has_paused(session) else "5m"
    return "1h" if choice == "1h" else ""


def _has_paused(session: Session) -> bool:
    last = 0
    for message in session.messages():
        pause = message.timestamp - last if last else 0
        if isinstance(message, UserMessage) and _SHORT_MS < pause <= _LONG_MS:
            return True
        last = message.timestamp or last
    return False
