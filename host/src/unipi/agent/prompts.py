"""The head that the next request wants, and what becomes of plugins' edits of the system prompt.

Inside an epoch the head stands. An edit that a plugin returns from `before_agent_start` becomes a
tail note under `enforce` (an instruction of the system's where the model takes one there); under
`record` and `off` it moves the head, as a boundary that the plugin owns. At a boundary that a plugin
asked for, edits enter the new head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from unipi.prefix.canonical import repair
from unipi.prefix.guard import HeadWatch, Rewrite, shape_digest
from unipi.prefix.ledger import Reason
from unipi.prefix.wire import HeadSpec
from unipi.providers.verbs import verbs_of
from unipi_hookspecs import BeforeAgentStartEvent, CustomMessage, ResourcesDiscoverEvent

from .cache_ttl import wire_ttl
from .system_prompt import addition, base_prompt, moved_edit
from .verbs import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.hooks import Start
    from unipi_hookspecs import Image, Message
    from unipi_hookspecs._events import SessionReason

    from .agent import Agent


@frozen
class _Edit:
    """What plugins made of the prompt they were given: each of them, and a digest of its text."""

    steps: tuple[tuple[str, str], ...]
    given: str
    returned: str


class SystemPrompt:
    """Builds the head's specification once an epoch, and holds plugins to it in between."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._edit: _Edit | None = None
        self._watch = HeadWatch()
        self._base_text: str | None = None
        self._spec: HeadSpec | None = None
        self.instructions: tuple[str, ...] = ()
        self.instead: str | None = None  # a side session's own prompt, in place of the base

    def restore(self, spec: HeadSpec, given: str, edits: Mapping[str, str]) -> None:
        """Go on with the head of an epoch that another process began.

        `given` is the prompt that plugins were given then: they make the same edit of it again.
        `edits` are the digests of what they made of it.
        """
        self._spec = spec
        self._base_text = given
        self._watch.first.update(edits)

    @property
    def edits(self) -> Mapping[str, str]:
        """What each plugin made of the epoch's prompt, by digest."""
        return self._watch.first

    @property
    def given(self) -> str:
        """The epoch's prompt before plugins edited it."""
        return self._base_text or ""

    def spec(self) -> HeadSpec:
        """The next request's head: the epoch's, or a new one where a boundary is due."""
        agent, spec = self._agent, self._spec
        if spec is not None and not self.due:
            return spec
        tools = agent.toolbox.freeze()
        if spec is not None and tools == spec.tools:
            tools = tuple(spec.tools)
        self._base_text = self.base()
        self._spec = HeadSpec(
            model=agent.model,
            system=(self._text(),),
            tools=tools,
            thinking=agent.thinking,
            lineage=agent.session.id,
            options=agent.model.options,
            ttl=wire_ttl(agent.cache_ttl, agent.session, agent.model),
        )
        return self._spec

    @property
    def due(self) -> bool:
        """Whether the next request has a new head."""
        agent, spec = self._agent, self._spec
        if spec is None or agent.lineage.boundary_wanted or spec.model != agent.model:
            return True
        return not agent.verbs.same_level(spec)

    def base(self) -> str:
        """The host's own prompt, from what is enabled now."""
        agent = self._agent
        if self.instead is not None:
            return repair(self.instead)
        tools = [owned.tool for owned in agent.toolbox.enabled()]
        return repair(base_prompt(agent.session.cwd, tools, self.instructions))

    def _text(self) -> str:
        text, edit = self._base_text or "", self._edit
        return repair(moved_edit(edit.given, edit.returned, text)) if edit else text

    async def discover(self, reason: SessionReason) -> None:
        """Ask plugins for the instructions of the next head."""
        agent = self._agent
        if agent.hooks.has("resources_discover"):
            event = ResourcesDiscoverEvent(str(agent.session.cwd), reason)
            found = await agent.hooks.resources_discover(event)
            self.instructions = tuple(t for _, resources in found for t in resources.instructions)

    async def begin_run(self, prompt: str, images: Sequence[Image]) -> list[Message]:
        """Ask `before_agent_start`; returns the messages that plugins want at the tail."""
        agent = self._agent
        if not agent.hooks.has("before_agent_start"):
            return []
        given = self._base_text
        if given is not None and agent.lineage.boundary_wanted:
            await self.discover("reload")  # files may say something else by now
        if given is None or agent.lineage.boundary_wanted:
            given = self._base_text = self.base()
        event = BeforeAgentStartEvent(prompt, tuple(images), given)
        start = await agent.hooks.before_agent_start(event)
        messages: list[Message] = [evolve(message, verb=None) for _, message in start.messages]
        edit = None
        if start.system_prompt != given:
            edit = _Edit(_steps(start), given, start.system_prompt)
        if self._spec is not None and (start.system_prompt,) == tuple(self._spec.system):
            self._take(edit)
            return messages
        return messages + self._settle(edit)

    def _settle(self, edit: _Edit | None) -> list[Message]:
        agent = self._agent
        if agent.lineage.boundary_wanted:
            self._take(edit)
            return []
        if agent.policy == "enforce":
            return self._note(edit) if edit else []
        owner = self._watch.culprit(edit.steps if edit else ()) or "host"
        self._take(edit)
        if self._spec is not None and self._text() != self._spec.system[0]:
            self._name(owner, "changed the system prompt")
            agent.lineage.want_boundary(
                Reason("system_prompt", owner, avoidable=True, detail="before_agent_start")
            )
        return []

    def _take(self, edit: _Edit | None) -> None:
        self._edit = edit
        self._watch.take(edit.steps if edit else ())

    def _note(self, edit: _Edit) -> list[Message]:
        """What an edit says becomes a tail message, unless the tail says it already.

        Plugins are named for it, but where the model takes an instruction there: then it is as good
        as in the prompt.
        """
        agent = self._agent
        text = addition(edit.given, edit.returned)
        told = bool(text) and "system" in verbs_of(agent.model)
        for plugin, _ in () if told else edit.steps:
            added = "added to the system prompt, and its text goes to the tail"
            self._name(plugin, added if text else "replaced the system prompt")
        if not text:
            return []
        content = f"Further instructions:\n{repair(text)}"
        note = CustomMessage(NOTE_TYPE, content, display=False, timestamp=agent.now(), verb=SYSTEM)
        return [note] if agent.tail.is_news(note) else []

    def _name(self, plugin: str, what: str) -> None:
        self._agent.requester.name(Rewrite(plugin, "before_agent_start", what, _ADVICE))


def _steps(start: Start) -> tuple[tuple[str, str], ...]:
    digests = (shape_digest(text.encode("utf-8", "surrogatepass")) for text in start.prompts)
    return tuple(zip(start.prompt_changed_by, digests, strict=True))


NOTE_TYPE = "unipi-system-note"
_ADVICE = "use resources_discover for what never changes, ctx.append_message for what does"
