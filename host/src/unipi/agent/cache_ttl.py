"""How long the provider is asked to keep the prompt: a setting, or what the session's pauses say.

It stands in the head, so it is chosen when an epoch begins and holds for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from unipi.providers.keeping import keepings
from unipi_hookspecs import UserMessage

if TYPE_CHECKING:
    from unipi.session import Session
    from unipi_hookspecs import Model

CacheTtl: TypeAlias = Literal["5m", "1h", "24h", "auto"]
CHOICES: Final[tuple[CacheTtl, ...]] = ("5m", "1h", "24h", "auto")
_SECONDS: Final = {"5m": 0, "1h": 3_600, "24h": 86_400}


def wire_ttl(choice: CacheTtl, session: Session, model: Model) -> str:
    """The time to live of the next epoch's head; empty for the provider's own.

    The shortest that is as long as the choice, else the longest there is. "auto" takes a longer one
    once a pause before a prompt would have been outlasted by it and not by the provider's own time.
    By Anthropic's prices (a write costs 1.25 times the input for five minutes, twice for an hour, a
    read a tenth) the hour adds 0.75 of what is new, and one such pause costs 1.15 of everything.
    """
    offered = keepings(model)
    if not offered:
        return ""
    own, longest = offered[0].seconds, offered[-1].seconds
    wanted = _SECONDS[choice] if choice != "auto" else _pause(session, own, longest)
    return next((each.wire for each in offered if each.seconds >= wanted), offered[-1].wire)


def _pause(session: Session, over: int, at_most: int) -> float:
    """The longest pause before a prompt, in seconds, between the two; 0 when there was none."""
    longest, last = 0.0, 0
    for message in session.messages():
        pause = (message.timestamp - last) / 1000 if last else 0.0
        if isinstance(message, UserMessage) and over < pause <= at_most:
            longest = max(longest, pause)
        last = message.timestamp or last
    return longest
