"""What has changed since the head was sent, said at the end of the conversation.

A model may take an instruction, a tool or another effort there, each by its API's own means
(`providers.verbs`). Such a message has one place: right before a request, behind what a user said.
So it is held until then. It enters the history as a custom message whose text stands for it
wherever the verb cannot, and whose `verb` makes the same bytes of it after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from unipi.providers.models import effort_told
from unipi.providers.verbs import awaits_answer, is_told, kinds, same_level, verbs_of
from unipi_hookspecs import AssistantMessage, CustomMessage, Text, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi.prefix.wire import HeadSpec
    from unipi_hookspecs import Message

    from .agent import Agent

TOOLS_TYPE = "unipi-tools"
EFFORT_TYPE = "unipi-effort"
SYSTEM = Verb(system=True)
_UNANSWERED = "(This turn ended before it was answered.)"


class Verbs:
    """Holds what is to be told, and knows what has been."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._held: list[CustomMessage] = []
        self._telling: Verb | None = None
        self._effort = ""  # told last by a verb on this branch
        self._used: list[str] = []

    @property
    def adds_tools(self) -> bool:
        """Whether a tool that is registered late can be offered in the running epoch.

        Both APIs build on a head that has a tool (Anthropic refuses it otherwise).
        """
        spec = self._agent.lineage.spec
        return "tool_addition" in verbs_of(self._agent.model) and bool(spec and spec.tools)

    def same_level(self, spec: HeadSpec) -> bool:
        """Whether the agent's thinking level can go on with a head that was made for another."""
        return same_level(spec.model, spec.thinking, self._agent.thinking)

    # On the way to a request.

    def hold(self, message: Message) -> bool:
        """Take a message that is told right before the next request; False: it is no such one."""
        if not is_told(message, self._agent.model):
            return False
        self._held.append(message)
        return True

    async def settle(self) -> list[Message]:
        """Tell what is held and what has changed. The next thing to happen is a request."""
        agent = self._agent
        held, self._held = self._held, []
        said: list[Message] = []
        room = self._has_room()
        for message in held:
            self._telling = SYSTEM if room else None
            try:
                said.append(await agent.add(message))
            finally:
                self._telling = None
        room = room or self._has_room()
        for made in (self._tools(), self._level()):
            if made is not None and room:
                self._telling = made.verb
                agent.store(made)
                self._telling = None
                said.append(made)
        return said

    def flush(self) -> None:
        """Nothing is asked any more: what is held is history, and its text stands for it."""
        held, self._held = self._held, []
        for message in held:
            self._agent.store(message)

    def _has_room(self) -> bool:
        items = self._agent.lineage.items
        if not items or isinstance(items[-1].message, AssistantMessage):
            return False
        return not awaits_answer(items[-1].message, self._agent.model)

    def _tools(self) -> CustomMessage | None:
        agent = self._agent
        if agent.prompt_text.due:
            return None  # the new head says it
        verb = agent.toolbox.changes(
            adds=self.adds_tools, removes="tool_removal" in verbs_of(agent.model)
        )
        if verb is None:
            return None
        added = (*(tool.name for tool in verb.define), *verb.offer)
        lines = [f"Tools from here on: {', '.join(added)}"] if added else []
        if verb.withdraw:
            lines.append(f"Tools no more: {', '.join(verb.withdraw)}")
        return CustomMessage(
            TOOLS_TYPE, "\n".join(lines), display=False, timestamp=agent.now(), verb=verb
        )

    def _level(self) -> CustomMessage | None:
        agent = self._agent
        spec = agent.lineage.spec
        wanted = effort_told(agent.model, agent.thinking)
        of_head = wanted  # that of a new head; what stands in the history comes after it
        if spec is not None and not agent.prompt_text.due:
            of_head = effort_told(spec.model, spec.thinking)
        if not wanted or "effort" not in verbs_of(agent.model):
            return None
        if wanted == (self._effort or of_head):
            return None
        return CustomMessage(
            EFFORT_TYPE,
            f"Effort from here on: {wanted}",
            display=False,
            timestamp=agent.now(),
            verb=Verb(effort=wanted),
        )

    # In the history.

    def admitted(self, message: Message) -> Message:
        """A message as it may enter the history: with a verb only where one is being told."""
        if isinstance(message, CustomMessage) and message.verb != self._telling:
            return evolve(message, verb=self._telling)
        return message

    def stand_in(self, before: Message | None, following: Message) -> AssistantMessage | None:
        """What has to stand between two messages, where the answer between them never came."""
        agent = self._agent
        if before is None or self._telling is not None or isinstance(following, AssistantMessage):
            return None
        if not awaits_answer(before, agent.model):
            return None
        return AssistantMessage(
            (Text(_UNANSWERED),),
            api=agent.model.api,
            provider=agent.model.provider,
            model=agent.model.id,
            timestamp=agent.now(),
        )

    def seen(self, message: Message) -> None:
        """A message has entered the history."""
        if not isinstance(message, CustomMessage) or message.verb is None:
            return
        if is_told(message, self._agent.model):
            self._used += kinds(message.verb)
            self._agent.toolbox.told(message.verb)
        self._effort = message.verb.effort or self._effort

    def take_used(self) -> Sequence[str]:
        """The verbs that the next request is the first to use."""
        used, self._used = tuple(dict.fromkeys(self._used)), []
        return used

    def rebuilt(self) -> None:
        """The history is another one: after a restart, a compaction, a move in the tree."""
        self._effort = ""
        lineage = self._agent.lineage
        for item in lineage.items:
            if not lineage.is_dropped(item.entry_id):
                self.seen(item.message)
        self._used = []


def is_of_tools(message: Message) -> bool:
    """Whether a message tells of tools: true of the head before it, and of no other."""
    if not isinstance(message, CustomMessage) or message.verb is None:
        return False
    return bool({"tool_addition", "tool_removal"}.intersection(kinds(message.verb)))
