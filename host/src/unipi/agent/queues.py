"""Messages that wait for their place: a request is never built between a call and its result."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from attrs import Factory, define

if TYPE_CHECKING:
    from unipi_hookspecs import Message


@define
class Queues:
    """`steer` waits for the next request, `follow_up` until the loop would stop, `next_turn` for
    the user's next prompt.

    User messages of `steer` and `follow_up` keep the loop going, one at a time (Pi's default);
    a plugin's state snapshot does not unless it asked for a turn.
    """

    steer: deque[tuple[Message, bool]] = Factory(deque)
    follow_up: deque[tuple[Message, bool]] = Factory(deque)
    next_turn: deque[Message] = Factory(deque)

    def take_steering(self) -> tuple[list[Message], bool]:
        """What goes to the model now, and whether it asks for an answer."""
        taken: list[Message] = []
        wants_turn = False
        while self.steer:
            message, turn = self.steer[0]
            if turn and wants_turn:
                break
            self.steer.popleft()
            taken.append(message)
            wants_turn = wants_turn or turn
        return taken, wants_turn

    def take_follow_up(self) -> tuple[list[Message], bool]:
        """The next thing to do once the loop would stop."""
        taken: list[Message] = []
        while self.follow_up:
            message, turn = self.follow_up.popleft()
            taken.append(message)
            if turn:
                return taken, True
        return taken, False

    def take_next_turn(self) -> list[Message]:
        taken = list(self.next_turn)
        self.next_turn.clear()
        return taken

    @property
    def steers(self) -> bool:
        """Whether something waits for the next request that asks for an answer."""
        return any(turn for _, turn in self.steer)

    def __bool__(self) -> bool:
        return any(turn for _, turn in (*self.steer, *self.follow_up))
