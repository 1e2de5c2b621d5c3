"""What the Messages API answers when it is asked what has changed since an earlier request.

It compares requests, not its cache. Source: Anthropic, Cache diagnostics (2026-08-22). Which of
several changes is named is not documented: here the first in the order in which they are rendered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from unipi.sim.errors import ApiError
from unipi.sim.prompt import size_of, tokens_in
from unipi.sim.shapes import as_dict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.sim.prompt import Block, Prompt

BETA = "cache-diagnosis-2026-04-07"
KEPT = 64
"""Requests that are remembered; how many the provider keeps, and for how long, is not documented."""


@attrs.frozen
class Question:
    """A request that asks, and the answer that it is to be compared with."""

    previous: str | None
    prompt: Prompt


def read_question(
    request: dict[str, object], headers: Mapping[str, str], prompt: Prompt
) -> Question | None:
    """The question of a request, or None when it asks nothing.

    Raises:
        ApiError: 400 for one without the beta header, or of another shape.
    """
    if "diagnostics" not in request:
        return None
    if BETA not in headers.get("anthropic-beta", ""):
        raise ApiError(400, "diagnostics: Extra inputs are not permitted")
    asked = as_dict(request["diagnostics"])
    if set(asked) != {"previous_message_id"}:
        raise ApiError(400, "diagnostics.previous_message_id: Field required")
    previous = asked["previous_message_id"]
    if previous is not None and not (isinstance(previous, str) and previous.startswith("msg_")):
        raise ApiError(400, "diagnostics.previous_message_id: Input should be a valid message id")
    return Question(previous, prompt)


class Comparisons:
    """The requests that asked, by the id of their answers."""

    def __init__(self) -> None:
        self._asked: dict[str, Prompt] = {}

    def answer(self, question: Question, reply_id: str) -> dict[str, object] | None:
        """The response's `diagnostics`; None is the API's null."""
        before = None if question.previous is None else self._asked.get(question.previous)
        self._asked[reply_id] = question.prompt
        if len(self._asked) > KEPT:
            del self._asked[next(iter(self._asked))]
        if question.previous is None:
            return None
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        return _compare(before, question.prompt)


def _compare(before: Prompt, now: Prompt) -> dict[str, object] | None:
    if before.model != now.model:
        return _changed("model_changed", now.blocks)
    for section in ("tools", "system"):
        old, new = _of(before, section), _of(now, section)
        if [block.digest for block in old] != [block.digest for block in new]:
            return _changed(f"{section}_changed", now.blocks)
    if before.seeds != now.seeds:
        return {"cache_miss_reason": {"type": "unavailable"}}
    old, new = _of(before, "messages"), _of(now, "messages")
    for place, block in enumerate(old):
        if place >= len(new) or new[place].digest != block.digest:
            return _changed("messages_changed", new[place:])
    return None


def _of(prompt: Prompt, section: str) -> list[Block]:
    return [block for block in prompt.blocks if block.section == section]


def _changed(kind: str, missed: Sequence[Block]) -> dict[str, object]:
    tokens = tokens_in(size_of(missed))
    return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": tokens}}
