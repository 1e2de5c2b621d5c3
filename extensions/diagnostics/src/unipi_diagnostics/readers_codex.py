"""Codex's rollout files, one JSON object a line: `timestamp`, `type`, `payload`.

What is relied on, read from such files: `session_meta` has the working folder, `turn_context` the
model and its effort, and an `event_msg` of the type `token_count` the figures of the last request
in `info.last_token_usage`, whose `input_tokens` include the cached ones. The same count is sent
again when only rate limits changed: its running total is then the same, and it is no new request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .audit_records import Answer, Mark, Place, count, milliseconds, obj, reported, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .audit_records import Record


class Codex:
    """Reads the lines of one rollout file."""

    def __init__(self) -> None:
        self._line = -1
        self._session = ""
        self._provider = "openai"
        self._model = ""
        self._effort: object = None
        self._total: object = None

    def take(self, fields: Mapping[str, object]) -> Iterator[Record]:
        self._line += 1
        kind, payload = fields.get("type"), obj(fields.get("payload"))
        when = milliseconds(fields.get("timestamp"))
        if kind == "session_meta" and not self._session:
            self._session = text(payload.get("id")) or "unknown"
            self._provider = text(payload.get("model_provider")) or "openai"
            yield Place(text(payload.get("cwd")), self._session)
        elif kind == "turn_context":
            self._model = text(payload.get("model")) or self._model
            effort = payload.get("effort")
            if self._effort is not None and effort is not None and effort != self._effort:
                yield Mark("thinking_level", self._line, when)
            self._effort = effort if effort is not None else self._effort
        elif kind == "compacted":
            yield Mark("compaction", self._line, when)
        elif kind == "event_msg":
            yield from self._event(payload, when)

    def end(self) -> Iterator[Record]:
        return iter(())

    def _event(self, payload: Mapping[str, object], when: int) -> Iterator[Record]:
        kind = payload.get("type")
        if kind == "user_message":
            yield Mark("prompt", self._line, when)
        elif kind == "turn_aborted":
            yield Mark("after_abort", self._line, when)
        elif kind in ("error", "stream_error"):
            yield Mark("after_error", self._line, when)
        elif kind == "context_compacted":
            yield Mark("compaction", self._line, when)
        elif kind == "token_count":
            yield from self._count(obj(payload.get("info")), when)

    def _count(self, info: Mapping[str, object], when: int) -> Iterator[Record]:
        last, total = obj(info.get("last_token_usage")), info.get("total_token_usage")
        if not last or (total is not None and total == self._total):
            return
        self._total = total
        read = reported(last.get("cached_input_tokens"))
        written = reported(last.get("cache_write_input_tokens"))
        yield Answer(
            line=self._line,
            entry=f"line {self._line + 1}",
            time=when,
            provider=self._provider,
            model=self._model,
            api="openai-responses",
            fresh=max(0, count(last.get("input_tokens")) - (read or 0) - (written or 0)),
            read=read,
            written=written,
            output=count(last.get("output_tokens")),
            key=f"{self._session}/{when}/{count(last.get('input_tokens'))}",
        )
