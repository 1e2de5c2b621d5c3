"""The guard: what a plugin hands back is compared with what was there, by identity first.

A plugin that leaves things alone costs a constant. A change of the head or of a message that was
already sent is a rewrite; the policy says what becomes of it. Every rewrite has an owner.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import evolve, field, frozen

from unipi_hookspecs import AssistantMessage, Message, Payload, ToolResultMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unipi_hookspecs import JSON

PrefixPolicy: TypeAlias = Literal["enforce", "record", "off"]
POLICIES: tuple[PrefixPolicy, ...] = ("enforce", "record", "off")


@frozen
class Rewrite:
    """A plugin's attempt to change what the provider has already seen."""

    plugin: str
    hook: str
    what: str
    advice: str

    @property
    def text(self) -> str:
        return f"plugin {self.plugin!r} ({self.hook}) {self.what}; {self.advice}"


Report: TypeAlias = "Callable[[Rewrite], None]"
_APPEND = "append with ctx.append_message instead, or ask for ctx.request_boundary"


class ContextGuard:
    """Checks what the implementations of `context` return, one after another.

    `tail` is what stands for the messages from `first` on: pairs of their position among these and
    the message to send. `override` is a whole rewritten list, which only `record` and `off` allow.

    The plugin `asked_by` has asked for the boundary that this request crosses: it may decide on all
    messages, as the provider reads all of them anew. For the others what was sent stands.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        new_from: int,
        policy: PrefixPolicy,
        report: Report,
        asked_by: str | None = None,
    ) -> None:
        self._new_from = new_from
        self._asked_by = asked_by
        self._policy = policy
        self._report = report
        self.first = new_from if asked_by is None else 0
        self.tail = list(enumerate(messages[self.first :]))
        self.override: list[Message] | None = None
        self.owner: str | None = None

    def check(
        self, plugin: str, before: Sequence[Message], returned: Sequence[Message]
    ) -> Sequence[Message]:
        """Accept `returned`, or what of it the policy allows; the result goes to the next plugin."""
        if returned is before:
            return before
        returned = list(returned)
        if self.override is None:
            problem, tail = self._align(plugin, before, returned)
            if not problem:
                self.tail = tail
                return returned
            self._report(Rewrite(plugin, "context", problem, _APPEND))
            if self._policy == "enforce":
                return before
            self.owner = plugin
        self.override = returned  # whoever comes later works on what the first one made
        return returned

    def _align(
        self, plugin: str, before: Sequence[Message], returned: list[Message]
    ) -> tuple[str, list[tuple[int, Message]]]:
        if self._asked_by is None:
            return self._aligned(before, returned, self._new_from, self.tail)
        # What was sent and is still there, for those who did not ask.
        kept = [] if plugin == self._asked_by else [p for p in self.tail if p[0] < self._new_from]
        problem, tail = self._aligned(before, returned, len(kept), self.tail[len(kept) :])
        return problem, [] if problem else [*kept, *tail]

    @staticmethod
    def _aligned(
        before: Sequence[Message],
        returned: list[Message],
        new_from: int,
        ours: list[tuple[int, Message]],
    ) -> tuple[str, list[tuple[int, Message]]]:
        if len(returned) < new_from or any(
            ours is not theirs for ours, theirs in zip(before, returned[:new_from], strict=False)
        ):
            return "changed messages that were already sent", []
        theirs = returned[new_from:]
        if len(theirs) > len(ours):
            return "added messages that are not in the session", []
        if len(theirs) == len(ours):
            kept = [
                (place, new)
                for (place, old), new in zip(ours, theirs, strict=True)
                if new is old or _may_replace(old, new)
            ]
            problem = "" if len(kept) == len(ours) else "replaced a message by one of another kind"
            return problem, kept
        return _dropped(ours, theirs)


def _may_replace(old: Message, new: Message) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, AssistantMessage):
        return False  # an answer is replayed as the provider wrote it
    if isinstance(old, ToolResultMessage) and isinstance(new, ToolResultMessage):
        return old.tool_call_id == new.tool_call_id
    return True


def _dropped(
    ours: list[tuple[int, Message]], theirs: list[Message]
) -> tuple[str, list[tuple[int, Message]]]:
    kept: list[tuple[int, Message]] = []
    wanted = iter(theirs)
    following = next(wanted, None)
    for place, message in ours:
        if message is following:
            kept.append((place, message))
            following = next(wanted, None)
        elif isinstance(message, AssistantMessage | ToolResultMessage):
            return "left out an answer or a tool result, which belong together", []
    if following is not None:
        return "changed the order of new messages, or dropped and replaced at once", []
    return "", kept


@frozen
class _Parts:
    envelope: Mapping[str, JSON]
    system: Sequence[JSON]
    tools: Sequence[Mapping[str, JSON]]


class PayloadGuard:
    """Checks what the implementations of `before_provider_request` return.

    The head may be shaped while it has not been sent; afterwards the same shape must come back.
    `sent_messages` counts the wire messages that earlier requests carried.
    """

    def __init__(self, sent_messages: int, policy: PrefixPolicy, report: Report) -> None:
        self._sent = sent_messages
        self._policy = policy
        self._report = report
        self.touched_head: list[tuple[str, Payload]] = []
        self.changed: dict[int, Mapping[str, JSON]] = {}
        self.marked: dict[tuple[int, int], str] = {}  # cache markers: message and block, by whom
        self.override: Payload | None = None
        self.owner: str | None = None

    def check(self, plugin: str, before: Payload, returned: Payload) -> Payload:
        """Accept `returned`, or what of it the policy allows; the result goes to the next plugin."""
        if returned is before:
            return before
        accepted = before
        if _Parts(returned.envelope, returned.system, returned.tools) != _Parts(
            before.envelope, before.system, before.tools
        ):
            accepted = evolve(returned, messages=before.messages)
            self.touched_head.append((plugin, accepted))
        if returned.messages is before.messages:
            return accepted
        if self.override is not None:  # works on what an earlier one made
            self.override = evolve(accepted, messages=list(returned.messages))
            return self.override
        problem, changed = self._messages(plugin, before.messages, returned.messages)
        if not problem:
            self.changed.update(changed)
            return evolve(accepted, messages=returned.messages) if changed else accepted
        self._report(Rewrite(plugin, "before_provider_request", problem, _APPEND))
        if self._policy == "enforce":
            return accepted
        self.owner = plugin
        self.override = evolve(accepted, messages=list(returned.messages))
        return self.override

    def _messages(
        self,
        plugin: str,
        before: Sequence[Mapping[str, JSON]],
        returned: Sequence[Mapping[str, JSON]],
    ) -> tuple[str, dict[int, Mapping[str, JSON]]]:
        if len(returned) > len(before):
            return "added messages that are not in the session", {}
        if len(returned) < len(before):
            return "took messages out of the request", {}
        changed: dict[int, Mapping[str, JSON]] = {}
        for index, (ours, theirs) in enumerate(zip(before, returned, strict=True)):
            if ours is theirs:
                continue
            theirs, blocks = take_markers(theirs)
            self.marked.update(((index, block), plugin) for block in blocks)
            if without_markers(ours) == without_markers(theirs):
                continue
            if index < self._sent:
                return "changed messages that were already sent", {}
            if any(ours.get(name) != theirs.get(name) for name in ("role", "type")):
                return "changed the role of a message", {}
            changed[index] = theirs
        return "", changed


def take_markers(
    message: Mapping[str, JSON],
) -> tuple[Mapping[str, JSON], list[int]]:
    """A wire message without the cache markers of its blocks, and the blocks that had one."""
    content = message.get("content")
    if not isinstance(content, list):
        return message, []
    blocks = [
        place
        for place, block in enumerate(content)
        if isinstance(block, dict) and not MARKERS.isdisjoint(block)
    ]
    if not blocks:
        return message, []
    bare = [
        {key: value for key, value in block.items() if key not in MARKERS}
        if isinstance(block, dict)
        else block
        for block in content
    ]
    return {**message, "content": bare}, blocks


MARKERS = frozenset(("cache_control", "prompt_cache_breakpoint"))


def without_markers(value: JSON) -> JSON:
    """A wire value without cache breakpoints, which are not content.

    Anthropic and OpenAI both say that moving one does not change the prefix (Anthropic, Prompt
    caching; OpenAI, Prompt caching guide).
    """
    if isinstance(value, dict):
        return {key: without_markers(item) for key, item in value.items() if key not in MARKERS}
    if isinstance(value, list):
        return [without_markers(item) for item in value]
    return value


def shape_digest(raw: bytes) -> str:
    """What `HeadWatch` compares: enough to tell two heads apart, and small enough to keep."""
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


@frozen
class HeadWatch:
    """What each plugin made of the head when it was first sent, to tell later who moved it.

    `first` holds digests by plugin, in the order of their turns; a session keeps it, so that it
    can be told after a restart too.
    """

    first: dict[str, str] = field(factory=dict)

    def take(self, touched: Sequence[tuple[str, str]]) -> None:
        """A head is being sent for the first time."""
        self.first.clear()
        self.first.update(touched)

    def culprit(self, touched: Sequence[tuple[str, str]]) -> str | None:
        """The first plugin, in the order of turns, that did something else than before, or let go.

        `touched` are the digests after the turn of each plugin that changed something. What a
        later one made differs too, but for no fault of its own.
        """
        now = dict(touched)
        earlier = list(self.first)
        for plugin, digest in touched:
            before = earlier.index(plugin) if plugin in self.first else 0
            for other in earlier[:before]:
                if other not in now:
                    return other
            if self.first.get(plugin) != digest:
                return plugin
        return next((plugin for plugin in earlier if plugin not in now), None)
