"""Plugins' messages enter the history at its tail, and a snapshot only when it says something new."""

import pytest

from unipi.agent.queues import Queues
from unipi.agent.tail import Tail
from unipi_hookspecs import CustomMessage, Image, SummaryMessage, Text, UserMessage


class Agent:
    """What the tail needs of an agent, in memory."""

    def __init__(self):
        self.queues = Queues()
        self.running = False
        self.history = []
        self.woken = 0
        self.tail = Tail(self.queues, lambda: self.running, self.append, self.wake)

    async def append(self, message):
        self.history.append(message)
        return message

    async def wake(self):
        self.woken += 1

    async def state(self, content, *, supersedes=True, deliver="steer", trigger_turn=False):
        return await self.tail.add(
            CustomMessage("state", content), supersedes, deliver, trigger_turn
        )


@pytest.fixture
def agent():
    return Agent()


async def test_an_equal_snapshot_is_not_appended_again(agent):
    assert await agent.state("open: 3")
    assert not await agent.state("open: 3")
    assert await agent.state("open: 2")
    assert await agent.state("open: 3")
    assert len(agent.history) == 3


async def test_a_snapshot_says_that_it_replaces_the_earlier_ones(agent):
    await agent.state("open: 3")
    assert agent.history[0].content == ("[state] This replaces every earlier [state].\nopen: 3")
    picture = Image("AAAA", "image/png")
    await agent.state([Text("open: 2"), picture])
    head, text, image = agent.history[1].content
    assert "replaces every earlier" in head.text
    assert (text, image) == (Text("open: 2"), picture)


async def test_a_message_that_replaces_nothing_is_appended_each_time(agent):
    assert await agent.state("done", supersedes=False)
    assert await agent.state("done", supersedes=False)
    assert [m.content for m in agent.history] == ["done", "done"]


async def test_types_do_not_replace_each_other(agent):
    await agent.state("same")
    assert await agent.tail.add(CustomMessage("other", "same"), True, "steer", False)


async def test_while_a_run_is_active_it_waits_in_its_queue(agent):
    agent.running = True
    await agent.state("one")
    await agent.state("two", deliver="follow_up", trigger_turn=True)
    await agent.state("three", deliver="next_turn")
    assert agent.history == []
    assert [(m.content[-3:], turn) for m, turn in agent.queues.steer] == [("one", False)]
    assert [(m.content[-3:], turn) for m, turn in agent.queues.follow_up] == [("two", True)]
    assert [m.content[-5:] for m in agent.queues.next_turn] == ["three"]


async def test_a_queued_snapshot_is_live_already(agent):
    agent.running = True
    assert await agent.state("one")
    assert not await agent.state("one")


async def test_one_that_asks_for_a_turn_wakes_an_idle_agent(agent):
    await agent.state("wake up", trigger_turn=True)
    assert agent.woken == 1
    assert agent.history == []
    assert len(agent.queues.steer) == 1


async def test_the_live_snapshots_are_those_of_the_branch_since_its_last_compaction(agent):
    await agent.state("open: 3")
    (stored,) = agent.history
    resumed = Agent()
    resumed.tail.remember([UserMessage("hi"), stored])
    assert not await resumed.state("open: 3")
    resumed.tail.remember(
        [stored, SummaryMessage("compaction", "what was done"), UserMessage("go")]
    )
    assert await resumed.state("open: 3")


async def test_a_lone_surrogate_is_repaired_before_it_is_compared(agent):
    assert await agent.state("name\ud800")
    assert not await agent.state("name\ufffd")
    assert agent.history[0].content.endswith("name\ufffd")
