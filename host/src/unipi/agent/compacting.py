"""Compaction in a running session: when it is due, who writes the summary, and what follows.

Nothing is given up before a summary is there that can stand for it: any failure leaves the session
and its prefix as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import anyio
from attrs import frozen

from unipi.compaction.cut import KEEP, Cut, NothingToCompactError, find_cut, open_calls
from unipi.compaction.estimate import Accuracy, Calibration, estimate, message_tokens
from unipi.compaction.files import file_lists
from unipi.compaction.summary import UnusableSummaryError, instruction, is_summary, summary_of
from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Item
from unipi.providers import ProviderError
from unipi_hookspecs import (
    Cancel,
    Compaction,
    ContextUsage,
    CustomMessage,
    SessionBeforeCompactEvent,
    SessionCompactEvent,
    SummaryMessage,
    ToolResultMessage,
    UserMessage,
)

from .notices import Compacted, Notice
from .side import ask_beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON, AssistantMessage, Entry, Message

    from .agent import Agent

Why: TypeAlias = Literal["manual", "threshold", "overflow"]
RESERVE: Final = 16_384
"""Tokens of the window that are left for the answer (Pi's default)."""
_SHORTER: Final = (1.0, 0.7, 0.45, 0.25)
_QUOTED: Final = 60


@frozen
class CompactionOptions:
    """When to compact by itself, what stays as it is; sizes in tokens."""

    enabled: bool = True
    reserve: int = RESERVE
    keep: int = KEEP


class Compactor:
    """Compacts the session of one agent."""

    def __init__(self, agent: Agent, options: CompactionOptions) -> None:
        self._agent = agent
        self.options = options
        self.calibration = Calibration()
        self._accuracy = Accuracy()
        self._size: int | None = None  # of the context, as far as it was reported
        self._since = 0  # estimated tokens of what came after the report
        self._answer_tokens = 0
        self._tired = (
            False  # an automatic attempt has gained nothing: no other until the user speaks
        )
        self._busy = anyio.Lock()
        self._asked: str | None = None  # a plugin's wish, with what to mind

    # What is known of the context's size.

    @property
    def tokens(self) -> int:
        """The context's size: what was reported last, and an estimate of what came since."""
        if self._size is None:
            found = estimate(self._agent.session.messages())
            self._size, self._since = found.reported, found.since
        return self._size + round(self.calibration.ratio * self._since)

    def usage(self) -> ContextUsage:
        """The same, beside the window, and how far such estimates were off so far."""
        window, tokens = self._agent.model.context_window, self.tokens
        return ContextUsage(tokens, window, self._size or None, self._accuracy.off_by)

    def grew(self, message: Message) -> None:
        """A message was appended; answers count by what is reported of them."""
        self._since += message_tokens(message)

    def reported(self, answer: AssistantMessage) -> None:
        """An answer of the session's line told how large its prompt was."""
        if answer.usage is None or not answer.usage.prompt:
            return
        if self._size:
            grown = answer.usage.prompt - self._size
            guess = round(self.calibration.ratio * self._since)
            self._accuracy = self._accuracy.learn(guess, grown)
            self.calibration = self.calibration.learn(self._since, grown)
        self._size = answer.usage.prompt + answer.usage.output
        self._since = -message_tokens(answer)  # it is appended next, and counted already

    def rebuilt(self) -> None:
        """The branch is another one: what was reported is about a context that is gone."""
        self._size, self._since = None, 0

    def rested(self) -> None:
        """The user has spoken, or chosen another model: automatic attempts may begin again."""
        self._tired = False

    # When.

    async def before_request(self) -> bool:
        """Compact if a plugin has asked, or the context has outgrown the window less its reserve.

        Returns whether a summary stands in the place of older history now.
        """
        waits = self._agent.model.binds_thinking and self._in_round()
        applied = False
        if self._asked is not None and not waits:
            asked, self._asked = self._asked, None
            applied = (await self.compact("manual", asked or None)).status == "applied"
        if self._tired or not self.options.enabled or not self._over():
            return applied
        if waits:
            return applied  # its thinking would have to go, and is wanted until the round is over
        outcome = await self.compact("threshold")
        if outcome.status != "applied" or self._over():
            self._tired = True
            self._agent.observer(Notice("warning", self._stuck(outcome)))
        return applied or outcome.status == "applied"

    def ask(self, instructions: str) -> None:
        """Compact before the next request of the running turn, by a plugin's wish."""
        self._asked = instructions

    async def after_overflow(self) -> bool:
        """Compact because the provider had no room; whether the request is worth another try."""
        if self._tired or not self.options.enabled:
            return False
        self._tired = True  # once a user message, whatever comes of it
        outcome = await self.compact("overflow", will_retry=True)
        if outcome.status != "applied":
            self._agent.observer(Notice("warning", self._stuck(outcome)))
        return outcome.status == "applied"

    def _over(self) -> bool:
        model = self._agent.model
        return self.tokens > model.context_window - min(
            self.options.reserve, model.context_window // 2
        )

    def _in_round(self) -> bool:
        """Whether the model is in the middle of its calls: the last thing said is a result."""
        items = self._agent.lineage.items
        return bool(items) and isinstance(items[-1].message, ToolResultMessage)

    def _stuck(self, outcome: Compacted) -> str:
        window = self._agent.model.context_window
        return (
            f"the context is about {self.tokens:,} tokens of a window of {window:,}, of which "
            f"{self.options.reserve:,} are kept free, and compaction ended as {outcome.status}: "
            f"{outcome.reason or 'it did not gain enough'}. Say /compact with what may go, lower "
            "compaction.keep_recent_tokens, or choose a model with a larger window"
        )

    # What.

    async def compact(
        self, why: Why, instructions: str | None = None, *, will_retry: bool = False
    ) -> Compacted:
        """Put a summary in the place of older history; the outcome says whether, and why not.

        Everything stays as it was unless the outcome is "applied".
        """
        async with self._busy:
            try:
                outcome = await self._compact(why, instructions, will_retry)
            except NothingToCompactError as error:
                outcome = Compacted("skipped", why, str(error))
            except (UnusableSummaryError, ProviderError) as error:
                outcome = Compacted("failed", why, str(error))
        self._agent.observer(outcome)
        return outcome

    async def _compact(self, why: Why, instructions: str | None, will_retry: bool) -> Compacted:
        agent = self._agent
        branch = agent.session.branch()
        if calls := open_calls(branch):
            names = ", ".join(call.name for call in calls)
            raise NothingToCompactError(f"calls are waiting for their results: {names}")
        cut = find_cut(branch, self.options.keep, self.calibration)
        event = SessionBeforeCompactEvent(
            reason=why,
            will_retry=will_retry,
            branch_entries=branch,
            first_kept_entry_id=cut.first_kept_entry_id,
            tokens_before=cut.tokens_before,
            previous_summary=cut.previous_summary,
            custom_instructions=instructions,
            summarised=cut.summarised,
            turn_prefix=cut.turn_prefix,
            tokens_kept=cut.tokens_kept,
        )
        answer = await agent.hooks.session_before_compact(event)
        if answer is not None and isinstance(answer[0], Cancel):
            return Compacted("cancelled", why, answer[0].reason, plugin=answer[1])
        if answer is not None and isinstance(answer[0], Compaction):
            made, plugin = answer[0], answer[1]
            problem = _problem(made, branch)
            if problem:
                raise UnusableSummaryError(f"the compaction of plugin {plugin!r} {problem}")
            return await self._apply(why, cut, made, plugin, will_retry)
        earlier = _details_of(branch)
        files = file_lists(cut.summarised, earlier)
        text = await self._ask(why, cut, instructions)
        made = Compaction(
            "\n\n".join(part for part in (text, files.text()) if part),
            cut.first_kept_entry_id,
            files.details(),
        )
        return await self._apply(why, cut, made, None, will_retry)

    async def _ask(self, why: Why, cut: Cut, instructions: str | None) -> str:
        """Ask the model, on the prefix that it has read already; less of it where it has no room."""
        agent = self._agent
        place = [item.entry_id for item in agent.lineage.items]
        kept = place.index(cut.first_kept_entry_id) if cut.first_kept_entry_id in place else None
        quote = _quote(agent.lineage.items[kept].message) if kept is not None else None
        request = instruction(cut.previous_summary, instructions, from_here=quote)
        tail = [UserMessage(request, agent.now())]
        tries: list[int | None] = [None] if why != "overflow" else []
        end = kept if kept is not None else len(place)
        tries += [max(1, int(end * share)) for share in _SHORTER]
        for upto in tries:
            try:
                answer = await ask_beside(agent, "compaction", tail, upto)
            except ProviderError as error:
                if error.action != "compact" or upto == tries[-1]:
                    raise
                continue
            text = summary_of(answer)
            if upto is not None and upto < end:
                text += (
                    f"\n\n(Of what was cut off, the last {end - upto} messages could not be read.)"
                )
            return text
        raise UnusableSummaryError("the model has no room for any of what is to be summed up")

    async def _apply(
        self, why: Why, cut: Cut, made: Compaction, plugin: str | None, will_retry: bool
    ) -> Compacted:
        agent = self._agent
        after = cut.tokens_kept + message_tokens(SummaryMessage("compaction", made.summary))
        if after >= cut.tokens_before and made.first_kept_entry_id:
            raise NothingToCompactError(
                f"the summary would not make the context smaller ({cut.tokens_before:,} tokens "
                f"before, {after:,} after)"
            )
        live = _live_states(agent.session.messages())
        fields: dict[str, JSON] = {
            "summary": made.summary,
            "firstKeptEntryId": made.first_kept_entry_id,
            "tokensBefore": cut.tokens_before,
        }
        if made.details is not None:
            fields["details"] = made.details
        owner = plugin or ("user" if why == "manual" else "host")
        fields["unipi"] = {"owner": owner, "why": why}  # for a process that goes on from here
        if plugin is not None:
            fields["fromHook"] = True
        entry = agent.session.append("compaction", fields)
        items = [Item(item.entry_id, item.message) for item in agent.session.context()]
        agent.lineage.replace(items, Reason("compaction", owner, detail=why))
        agent.verbs.rebuilt()
        messages = [item.message for item in items]
        agent.tail.remember(messages)
        self.rebuilt()
        for state in live:
            if not any(_is_state(message, state) for message in messages):
                await agent.add(state)  # what was live and has been cut off stays said
                agent.tail.is_news(state)
        await agent.hooks.session_compact(SessionCompactEvent(entry, why, will_retry, plugin))
        return Compacted(
            "applied",
            why,
            plugin=plugin,
            entry_id=entry.id,
            tokens_before=cut.tokens_before,
            tokens_after=self.tokens,
        )


def _problem(made: Compaction, branch: list[Entry]) -> str:
    """What is wrong with a plugin's compaction; nothing when it can be used."""
    if not made.summary.strip():
        return "has an empty summary"
    if not is_summary(made.summary):
        return "has a summary that says nothing beyond headings"
    if not made.first_kept_entry_id:
        return ""
    entry = next((e for e in branch if e.id == made.first_kept_entry_id), None)
    if entry is None:
        return f"keeps from an entry that is not on the branch ({made.first_kept_entry_id!s:.40})"
    if isinstance(entry.message, ToolResultMessage):
        return "would part a tool result from its call"
    return ""


def _details_of(branch: list[Entry]) -> JSON:
    """The details of the last compaction, unless a plugin made it: its are of its own kind."""
    for entry in reversed(branch):
        if entry.type == "compaction":
            fields: Mapping[str, JSON] = entry.fields
            return None if fields.get("fromHook") is True else fields.get("details")
    return None


def _quote(message: Message) -> str | None:
    if not isinstance(message, UserMessage):
        return None
    text = (
        message.content
        if isinstance(message.content, str)
        else next((part.text for part in message.content if part.type == "text"), "")
    )
    return text[:_QUOTED] or None


def _live_states(messages: list[Message]) -> list[CustomMessage]:
    """The newest message of each custom type since the last summary that supersedes earlier ones."""
    live: dict[str, CustomMessage] = {}
    for message in messages:
        if isinstance(message, SummaryMessage) and message.kind == "compaction":
            live.clear()
        elif isinstance(message, CustomMessage) and _supersedes(message):
            live[message.custom_type] = message
    return list(live.values())


def _supersedes(message: CustomMessage) -> bool:
    head = f"[{message.custom_type}] This replaces"
    if isinstance(message.content, str):
        return message.content.startswith(head)
    first = message.content[0] if message.content else None
    return first is not None and first.type == "text" and first.text.startswith(head)


def _is_state(message: Message, state: CustomMessage) -> bool:
    return isinstance(message, CustomMessage) and message.custom_type == state.custom_type
