"""Messages that wait for their place."""

from unipi.agent.queues import Queues
from unipi_hookspecs import CustomMessage, UserMessage

SAID = UserMessage("said")
MORE = UserMessage("more")
STATE = CustomMessage("state", "a snapshot")


def test_steering_gives_one_user_message_a_request_with_the_snapshots_around_it():
    queues = Queues()
    queues.steer.extend([(STATE, False), (SAID, True), (STATE, False), (MORE, True)])
    assert queues.take_steering() == ([STATE, SAID, STATE], True)
    assert queues.take_steering() == ([MORE], True)
    assert queues.take_steering() == ([], False)


def test_a_follow_up_takes_what_stands_before_the_next_user_message_along():
    queues = Queues()
    queues.follow_up.extend([(STATE, False), (SAID, True), (MORE, True)])
    assert queues.take_follow_up() == ([STATE, SAID], True)
    assert queues.take_follow_up() == ([MORE], True)


def test_snapshots_alone_ask_for_no_turn():
    queues = Queues()
    queues.steer.append((STATE, False))
    queues.follow_up.append((STATE, False))
    assert not queues
    assert queues.take_follow_up() == ([STATE], False)
    queues.follow_up.append((SAID, True))
    assert queues


def test_what_waits_for_the_next_prompt_is_given_once_and_keeps_nothing_going():
    queues = Queues()
    queues.next_turn.extend([STATE, SAID])
    assert not queues
    assert queues.take_next_turn() == [STATE, SAID]
    assert queues.take_next_turn() == []
