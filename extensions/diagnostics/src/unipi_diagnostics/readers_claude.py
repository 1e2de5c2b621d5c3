"""Claude Code's transcripts, one JSON object a line.

What is relied on, read from such files: an answer is written as one line a content block, all of
them with the same `message.id`, `requestId` and input figures, and the figures of the last line
are the final ones. Tool results may stand between them. Sub-agents have `isSidechain`, and an
`agentId` where the version is new enough. A compaction leaves a `system` line with the subtype
`compact_boundary`; an error of the API an answer of the model `<synthetic>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve

from .audit_records import MAIN, Answer, Mark, Place, count, milliseconds, obj, reported, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .audit_records import Record

_SYNTHETIC: Final = "<synthetic>"
_INTERRUPTED: Final = "[Request interrupted by user"
_REASONS: Final = {
    "model_changed": "model",
    "system_changed": "system_prompt",
    "tools_changed": "tools",
    "messages_changed": "history",
}
"""What Anthropic's cache diagnosis says (`message.diagnostics.cache_miss_reason.type`), in the
audit's words. Its other types say that it does not know."""

_REMEMBERED: Final = 4_096
"""Ids of answers that are known again in one file; older ones are forgotten."""


class ClaudeCode:
    """Reads the lines of one transcript; answers of several lanes may be interleaved in it."""

    def __init__(self) -> None:
        self._line = -1
        self._place = Place()
        self._version = ""
        self._thinking: object = None
        self._open: Answer | None = None  # more lines of it may follow
        self._behind: list[Record] = []  # what came after the open answer's first line
        self._done: dict[str, None] = {}
        self._roots: dict[str, str] = {}  # of sub-agents without an id: line -> first line

    def take(self, fields: Mapping[str, object]) -> Iterator[Record]:
        self._line += 1
        place = Place(text(fields.get("cwd")), text(fields.get("sessionId")))
        if place.session and not self._place.session:
            self._place = place
            yield place
        lane = self._lane(fields)
        kind = fields.get("type")
        if kind == "assistant":
            yield from self._answer(fields, lane)
        elif kind == "user":
            self._behind.extend(self._user(fields, lane))
        elif kind == "system" and fields.get("subtype") == "compact_boundary":
            when = milliseconds(fields.get("timestamp"))
            self._behind.append(Mark("compaction", self._line, when, lane))
        if self._open is None:
            yield from self._flush()

    def end(self) -> Iterator[Record]:
        yield from self._flush()

    def _flush(self) -> Iterator[Record]:
        if self._open is not None:
            yield self._open
            self._open = None
        yield from self._behind
        self._behind.clear()

    def _lane(self, fields: Mapping[str, object]) -> str:
        if fields.get("isSidechain") is not True:
            return MAIN
        agent = text(fields.get("agentId"))
        if agent:
            return agent
        parent, own = text(fields.get("parentUuid")), text(fields.get("uuid"))
        root = self._roots.get(parent, own)
        self._roots[own] = root
        return root

    def _user(self, fields: Mapping[str, object], lane: str) -> Iterator[Record]:
        """What a user's line says about the prefix: a prompt, an interruption, a new setting."""
        content = obj(fields.get("message")).get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [text(obj(block).get("text")) for block in blocks]
        if any(said.startswith(_INTERRUPTED) for said in texts):
            yield Mark("after_abort", self._line, lane=lane)
        elif any(texts) and fields.get("isMeta") is not True:
            yield Mark("prompt", self._line, lane=lane)
        thinking = fields.get("thinkingMetadata")
        if isinstance(thinking, dict):
            level = (thinking.get("level"), thinking.get("disabled"))
            if self._thinking not in (None, level):
                yield Mark("thinking_level", self._line, lane=lane)
            self._thinking = level
        version = text(fields.get("version"))
        if version and lane == MAIN:
            if self._version not in ("", version):
                yield Mark("client_update", self._line, lane=lane)
            self._version = version

    def _answer(self, fields: Mapping[str, object], lane: str) -> Iterator[Record]:
        message = obj(fields.get("message"))
        if message.get("model") == _SYNTHETIC or fields.get("isApiErrorMessage") is True:
            self._behind.append(Mark("after_error", self._line, lane=lane))
            return
        found = self._read(fields, message, lane)
        if self._open is not None and found.key and found.key == self._open.key:
            # The last line has the final figures; the place is that of the first.
            last, first = (found if found.reported else self._open), self._open
            self._open = evolve(last, line=first.line, entry=first.entry, time=first.time)
            return
        if found.key in self._done:
            return
        yield from self._flush()
        self._open = found
        if found.key:
            self._done[found.key] = None
            if len(self._done) > _REMEMBERED:
                del self._done[next(iter(self._done))]

    def _read(
        self, fields: Mapping[str, object], message: Mapping[str, object], lane: str
    ) -> Answer:
        usage = message.get("usage")
        numbers = obj(usage)
        kept = obj(numbers.get("cache_creation"))
        why = obj(obj(message.get("diagnostics")).get("cache_miss_reason")).get("type")
        said = text(message.get("id")), text(fields.get("requestId"))
        return Answer(
            line=self._line,
            entry=text(fields.get("uuid")),
            time=milliseconds(fields.get("timestamp")),
            provider="anthropic",
            model=text(message.get("model")),
            api="anthropic-messages",
            fresh=count(numbers.get("input_tokens")),
            read=reported(numbers.get("cache_read_input_tokens")),
            written=reported(numbers.get("cache_creation_input_tokens")),
            written_1h=count(kept.get("ephemeral_1h_input_tokens")),
            output=count(numbers.get("output_tokens")),
            lane=lane,
            key="/".join(said) if any(said) else "",
            reported=isinstance(usage, dict),
            reason=_REASONS.get(text(why), ""),
        )
