"""What hook implementations return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON, Image, UserContent
    from ._messages import CustomMessage


@shown
@frozen(repr=False)
class Block:
    """From `tool_call`: do not run it; the model is told `reason`."""

    reason: str
    terminate: bool = False


@shown
@frozen(repr=False)
class ReplaceInput:
    """From `tool_call`: run it with these arguments instead; they are validated again."""

    input: Mapping[str, JSON]


@shown
@frozen(repr=False)
class Cancel:
    """From a `session_before_*` hook: do not do it."""

    reason: str = ""


@shown
@frozen(repr=False)
class Transform:
    """From `input`: go on with this text instead; images stay when None."""

    text: str
    images: Sequence[Image] | None = None


@shown
@frozen(repr=False)
class Handled:
    """From `input`: the input was dealt with; nothing goes to the model. `reply` is shown."""

    reply: str | None = None


@shown
@frozen(repr=False)
class StartWith:
    """From `before_agent_start`: messages for the tail, and, at a boundary, a system prompt.

    A `system_prompt` that differs from the epoch's is a rewrite of the head: refused inside an
    epoch under `enforce`, recorded as an avoidable boundary under `record`.
    """

    messages: Sequence[CustomMessage] = ()
    system_prompt: str | None = None


@shown
@frozen(repr=False)
class ResultPatch:
    """From `tool_result`: change these parts of the result; None leaves a part as it is."""

    content: Sequence[UserContent] | None = None
    details: JSON = None
    is_error: bool | None = None


@shown
@frozen(repr=False)
class Resources:
    """From `resources_discover`: instruction text for the head, read once at session start."""

    instructions: Sequence[str] = ()


@shown
@frozen(repr=False)
class Compaction:
    """From `session_before_compact`: the whole compaction, supplied by a plugin."""

    summary: str
    first_kept_entry_id: str
    details: JSON = None


@shown
@frozen(repr=False)
class BranchSummary:
    """From `session_before_tree`: the summary of the branch that is left."""

    summary: str
    details: JSON = None


@shown
@frozen(repr=False)
class BashResult:
    """From `user_bash`: the outcome, in place of running the command."""

    output: str
    exit_code: int | None = 0


@shown
@frozen(repr=False)
class Trust:
    """From `project_trust`: the decision, and whether to remember it."""

    trusted: bool
    remember: bool = False
