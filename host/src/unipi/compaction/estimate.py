"""How many tokens messages take: four characters a token, set right by what a provider reported.

The rule of thumb is Pi's, so that a session is cut there where Pi would cut it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from unipi.prefix.canonical import compact
from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    SummaryMessage,
    Text,
    Thinking,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import Message, UserContent

CHARACTERS: Final = 4
"""Characters a token (Pi's estimate)."""
IMAGE_CHARACTERS: Final = 4_800
"""What a picture counts as, in characters (Pi's estimate: 1,200 tokens)."""
_LEAST, _MOST = 0.5, 4.0


def message_tokens(message: Message) -> int:
    """Tokens of one message, estimated; a fraction counts as one."""
    if isinstance(message, AssistantMessage):
        size = sum(_answered(block) for block in message.content)
    elif isinstance(message, BashMessage):
        size = len(message.command) + len(message.output)
    elif isinstance(message, SummaryMessage):
        size = len(message.summary)
    else:
        size = _content(message.content)
    return -(-size // CHARACTERS)


def _answered(block: Text | Thinking | ToolCall) -> int:
    if isinstance(block, Text):
        return len(block.text)
    if isinstance(block, Thinking):
        return len(block.thinking)
    return len(block.name) + len(block.arguments_text or compact(block.arguments))


def _content(content: str | Sequence[UserContent]) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(b.text) if isinstance(b, Text) else IMAGE_CHARACTERS for b in content)


@frozen
class Estimate:
    """A prompt's size in tokens: what was `reported` last, and the estimate of what came since."""

    reported: int
    since: int

    @property
    def total(self) -> int:
        return self.reported + self.since


@frozen
class Calibration:
    """How far the rule of thumb is off for a provider: real tokens over estimated ones.

    Learnt from how much a prompt grew between two reports and what the rule said of the messages
    in between; a ratio outside 0.5 to 4 is a report about something else and is not believed.
    """

    ratio: float = 1.0
    estimated: int = 0

    def learn(self, estimated: int, reported: int) -> Calibration:
        """Take in that messages which were estimated at so many tokens took `reported`."""
        if estimated <= 0 or not _LEAST <= reported / estimated <= _MOST:
            return self
        whole = self.estimated + estimated
        return Calibration((self.ratio * self.estimated + reported) / whole, whole)

    def tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of messages, by what was learnt so far."""
        return round(self.ratio * sum(message_tokens(message) for message in messages))


@frozen
class Accuracy:
    """How far estimates were off: the sum of their errors, and of what was then reported."""

    errors: int = 0
    real: int = 0

    def learn(self, guess: int, real: int) -> Accuracy:
        """Take in that `guess` tokens were expected and `real` were reported."""
        return Accuracy(self.errors + abs(guess - real), self.real + real) if real > 0 else self

    @property
    def off_by(self) -> float | None:
        return self.errors / self.real if self.real else None


def estimate(messages: Sequence[Message], calibration: Calibration | None = None) -> Estimate:
    """The size of the context that `messages` make.

    The last answer with a usage counts for everything up to and with it; what follows is
    estimated. Without one everything is. An answer from before a compaction, though it was kept,
    tells of a context that is gone.
    """
    known = calibration or Calibration()
    compacted = max(
        (m.timestamp for m in messages if isinstance(m, SummaryMessage) and m.kind == "compaction"),
        default=-1,
    )
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, AssistantMessage) or message.timestamp <= compacted:
            continue
        if message.stop_reason in ("error", "aborted") or message.usage is None:
            continue
        if total := message.usage.prompt + message.usage.output:
            return Estimate(total, known.tokens(messages[place + 1 :]))
    return Estimate(0, known.tokens(messages))
