"""The walk through a recording: entries become the replay session's, answers become requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from attrs import evolve

from unipi.agent.records import PROJECTION, decision_from
from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Item
from unipi.providers import ProviderError, api_for
from unipi_hookspecs import (
    AssistantMessage,
    SummaryMessage,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
)

from .answers import recorded_answer
from .report import Sent

if TYPE_CHECKING:
    from unipi.agent import Agent
    from unipi_hookspecs import JSON, Entry, Message

    from .models import Models
    from .provider import Provider

_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
_NO_RESULT = "the recorded session has no result for this call"


class ReplayError(Exception):
    """The replay cannot go on; the text names the entry and says what the provider refused."""


class Walk:
    """Takes recorded entries in file order. No tool is run: recorded results are stored."""

    def __init__(self, agent: Agent, provider: Provider, models: Models) -> None:
        self._agent = agent
        self._provider = provider
        self._models = models
        self._waiting: set[str] = set()  # ids of calls whose results have not come
        self._leaf: str | None = None  # of the recording
        self._ends: dict[str, str | None] = {}  # recorded entry -> our leaf behind it
        self._starts: dict[str, str] = {}  # recorded entry -> our entry in its place
        self._unplaced: list[str] = []
        self._last_at: float | None = None
        self.sent: list[Sent] = []
        self.unsent = 0
        agent.now = lambda: round(provider.clock.now() * 1000)

    async def take(self, entry: Entry) -> None:
        """Do what the host did when this entry was written.

        Raises ReplayError when the simulator refuses a request.
        """
        session = self._agent.session
        if entry.parent_id != self._leaf:
            self._move(entry.parent_id)
        before = session.leaf_id
        if entry.type == "model_change":
            await self._model(entry.fields.get("provider"), entry.fields.get("modelId"))
        elif entry.type == "thinking_level_change":
            await self.thinking(entry.fields.get("thinkingLevel"))
        elif entry.type == "compaction":
            fields = _own(entry)
            fields["firstKeptEntryId"] = self._place(fields.get("firstKeptEntryId"))
            session.append("compaction", fields)
            self._rebuild(Reason("compaction", "host"))
        elif entry.type == "context_edit":
            session.append("context_edit", {**_own(entry), "targetId": self._place(_target(entry))})
            self._rebuild(Reason("plugin_rewrite", "host", detail="context_edit"))
        elif entry.type == "custom":
            self._projection(entry)
        elif entry.message is not None:
            await self._message(entry, entry.message)
        self._leaf = entry.id
        self._ends[entry.id] = session.leaf_id
        self._unplaced.append(entry.id)
        if session.leaf_id is not None and session.leaf_id != before:
            self._starts.update(dict.fromkeys(self._unplaced, session.leaf_id))
            self._unplaced.clear()

    # Where the branch changes.

    def _move(self, parent: str | None) -> None:
        """The recording went on from another entry of its tree."""
        session = self._agent.session
        target = self._ends.get(parent) if parent is not None else None
        if target != session.leaf_id:
            session.move_leaf(target)
            self._rebuild(Reason("tree", "user"))

    def _rebuild(self, reason: Reason) -> None:
        session = self._agent.session
        items = [Item(item.entry_id, item.message) for item in session.context()]
        self._agent.lineage.replace(items, reason)
        self._waiting = {call.id for call in session.open_calls()}

    def _place(self, recorded: JSON) -> str | None:
        return self._starts.get(recorded) if isinstance(recorded, str) else None

    def _projection(self, entry: Entry) -> None:
        """Show the model what a plugin once decided to show in place of a message.

        Decisions on wire bytes are left out: they belong to the API that was recorded.
        """
        data = entry.fields.get("data")
        if entry.fields.get("customType") != PROJECTION or not isinstance(data, dict):
            return
        decision = decision_from(data)
        place = self._place(decision.entry_id) if decision is not None else None
        if decision is not None and decision.wire is None and place is not None:
            self._agent.lineage.decide(evolve(decision, entry_id=place))

    async def _model(self, provider: JSON, model_id: JSON) -> None:
        if isinstance(provider, str) and isinstance(model_id, str) and model_id:
            model = self._models.find(provider, model_id)
            await self._agent.set_model(model, api_for(model.api))

    async def thinking(self, level: JSON) -> None:
        """Choose a recorded thinking level; what is none changes nothing."""
        for known in _LEVELS:
            if level == known:
                await self._agent.set_thinking(known)

    # What was said.

    async def _message(self, entry: Entry, message: Message) -> None:
        agent = self._agent
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in self._waiting:
                self._waiting.remove(message.tool_call_id)
                await agent.add(message)
            else:
                agent.session.append_message(message)  # no model may see it: its call is gone
            return
        self._close_calls()
        if isinstance(message, AssistantMessage):
            await self._answer(entry, message)
        elif isinstance(message, SummaryMessage):
            added = agent.session.append(
                "branch_summary", {"fromId": agent.session.leaf_id, "summary": message.summary}
            )
            agent.lineage.append(Item(added.id, evolve(message, kind="branch")))
        else:
            await agent.add(message)

    def _close_calls(self) -> None:
        """The recording went on without a result; a host may not."""
        if not self._waiting:
            return
        self._waiting.clear()
        for entry in self._agent.session.close_open_calls(_NO_RESULT):
            if entry.message is not None:
                self._agent.lineage.append(Item(entry.id, entry.message))

    async def _answer(self, entry: Entry, recorded: AssistantMessage) -> None:
        agent = self._agent
        items = agent.lineage.items
        await self._model(recorded.provider, recorded.model)
        if not items or isinstance(items[-1].message, AssistantMessage):
            self.unsent += 1
            agent.session.append_message(recorded)
            return
        answered = recorded.stop_reason not in ("error", "aborted")
        received = await self._request(entry, recorded, answered=answered)
        if not answered:
            agent.store(recorded)
            return
        await agent.seal(received)
        self._waiting = {part.id for part in received.content if isinstance(part, ToolCall)}

    async def _request(
        self, entry: Entry, recorded: AssistantMessage, *, answered: bool
    ) -> AssistantMessage:
        agent, provider = self._agent, self._provider
        at = recorded.timestamp / 1000
        provider.clock.set(at)
        provider.answer = recorded_answer(recorded)
        epoch = agent.lineage.ledger.number
        try:
            received = await agent.requester.answer()
        except ProviderError as error:
            raise ReplayError(
                f"the request before entry {entry.id} ({entry.timestamp}) was refused: {error}"
            ) from error
        ledger, seen = agent.lineage.ledger, provider.requests[-1]
        usage = received.usage
        self.sent.append(
            Sent(
                model=seen.model,
                gap=0.0 if self._last_at is None else at - self._last_at,
                prompt=usage.prompt if usage else 0,
                cached=(usage.cache_read or 0) if usage else 0,
                boundary=ledger.boundaries[-1] if ledger.number != epoch else None,
                user_text=provider.watch.user_text,
                answered=answered,
            )
        )
        self._last_at = at
        return received


def _own(entry: Entry) -> dict[str, JSON]:
    """An entry's fields without those that place it in its file."""
    placed = ("type", "id", "parentId", "timestamp")
    return {key: value for key, value in entry.fields.items() if key not in placed}


def _target(entry: Entry) -> JSON:
    return entry.fields.get("targetId")
