"""What the Messages API refuses about system messages in mid-conversation.

Sources: Anthropic, Mid-conversation system messages and tool changes (2026-09-22), Per-message
effort, and the types of anthropic 2.14. Turn-scoped messages (`clear_at`) are not simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.sim.anthropic_render import content_blocks
from unipi.sim.errors import ApiError
from unipi.sim.rules import ANTHROPIC_MESSAGE_EFFORT, ANTHROPIC_SYSTEM_MESSAGES
from unipi.sim.shapes import as_dict, as_list, as_str

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EFFORT_BETA = "mid-conversation-output-config-2026-07-01"
TOOLS_BETA = "mid-conversation-tool-changes-2026-07-01"
INLINE_BETA = "inline-tools-2026-09-15"
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_CHANGES = ("tool_addition", "tool_removal")
_PLACE = (
    "a system message must directly follow a user message, and be the last message or be followed "
    "by an assistant message"
)

Block = dict[str, object]


class SystemMessages:
    """Judges the system messages of one request, in order: later ones build on the earlier.

    `check_block` judges a text block, `check_tool` a definition; both are told where it stands.
    """

    def __init__(
        self,
        request: dict[str, object],
        headers: Mapping[str, str],
        check_block: Callable[[str, Block], None],
        check_tool: Callable[[str, Block], None],
    ) -> None:
        self._model = as_str(request["model"])
        self._messages = [as_dict(message) for message in as_list(request["messages"])]
        self._betas = [name.strip() for name in headers.get("anthropic-beta", "").split(",")]
        self._known = {as_str(as_dict(t).get("name")) for t in as_list(request.get("tools"))}
        self._check_block = check_block
        self._check_tool = check_tool

    def check(self, number: int) -> None:
        """Refuse a system message that the model, its place or its shape does not allow.

        Raises:
            ApiError: 400.
        """
        message = self._messages[number]
        path = f"messages.{number}"
        if not self._model.startswith(ANTHROPIC_SYSTEM_MESSAGES):
            raise ApiError(400, "role 'system' is not supported on this model")
        for name in message:
            known = name in ("role", "content") or (
                name == "output_config" and EFFORT_BETA in self._betas
            )
            if not known:
                raise ApiError(400, f"{path}.{name}: Extra inputs are not permitted")
        effort = self._effort(path, message)
        content = message.get("content")
        if not isinstance(content, str | list) or not (content or effort):
            raise ApiError(400, f"{path}: system messages must have non-empty content")
        if (content or self._beside(number)) and not self._fits(number):
            raise ApiError(400, f"{path}: {_PLACE}")
        for place, block in enumerate(content_blocks(content) if content else ()):
            self._block(f"{path}.content.{place}", block)

    def _fits(self, number: int) -> bool:
        before = self._messages[number - 1].get("role") if number else None
        after = [message.get("role") for message in self._messages[number + 1 : number + 2]]
        return before == "user" and after in ([], ["assistant"])

    def _beside(self, number: int) -> bool:
        """Whether another system message stands next to it."""
        near = self._messages[max(number - 1, 0) : number + 2]
        return sum(message.get("role") == "system" for message in near) > 1

    def _effort(self, path: str, message: Block) -> str:
        if "output_config" not in message:
            return ""
        if not self._model.startswith(ANTHROPIC_MESSAGE_EFFORT):
            raise ApiError(400, f"{path}.output_config: not supported on this model")
        effort = as_dict(message["output_config"]).get("effort")
        if effort is not None and effort not in _EFFORTS:
            known = ", ".join(f"'{name}'" for name in _EFFORTS)
            raise ApiError(400, f"{path}.output_config.effort: Input should be {known}")
        return as_str(effort)

    def _block(self, path: str, block: Block) -> None:
        kind = as_str(block.get("type"))
        changes = kind in _CHANGES and not {TOOLS_BETA, INLINE_BETA}.isdisjoint(self._betas)
        if kind != "text" and not changes:
            raise ApiError(400, f"{path}.type: Input should be 'text'")
        if kind == "text":
            self._check_block(path, block)
            return
        tool = as_dict(block.get("tool"))
        if tool.get("type") == "tool_definition" and kind == "tool_addition":
            if INLINE_BETA not in self._betas:
                raise ApiError(400, f"{path}.tool.type: Input should be 'tool_reference'")
            definition = as_dict(tool.get("definition"))
            self._check_tool(f"{path}.tool.definition", definition)
            if not self._known:
                raise ApiError(400, f"{path}: the request declares no tool in `tools`")
            self._known.add(as_str(definition.get("name")))
            return
        name = as_str(tool.get("name"))
        if tool.get("type") != "tool_reference" or name not in self._known:
            raise ApiError(400, f"{path}.tool: Tool '{name}' not found in provided tools")
