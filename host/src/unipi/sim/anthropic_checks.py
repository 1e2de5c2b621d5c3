"""What the Messages API refuses, and in which words (reference: Messages, errors, tool use)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unipi.sim.anthropic_markers import check_markers
from unipi.sim.anthropic_render import BINDING_BETA, content_blocks, marker_ttl
from unipi.sim.anthropic_system import SystemMessages
from unipi.sim.errors import ApiError
from unipi.sim.shapes import as_dict, as_list, as_str

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi.sim.wire import Options

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
VERSIONS = ("2023-06-01", "2026-10-21")

_TOP_LEVEL = frozenset(
    [
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "stop_sequences",
        "metadata",
        "stream",
        "cache_control",
        "diagnostics",
        "speed",
        "service_tier",
        "context_management",
        "temperature",
        "top_p",
        "top_k",
        "container",
        "mcp_servers",
        "inference_geo",
        "compaction",
    ]
)
_MEMBERS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"text", "citations", "cache_control"}),
    "image": frozenset({"source", "cache_control"}),
    "document": frozenset({"source", "title", "context", "citations", "cache_control"}),
    "tool_use": frozenset({"id", "name", "input", "caller", "cache_control"}),
    "tool_result": frozenset({"tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"thinking", "signature"}),
    "redacted_thinking": frozenset({"data"}),
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
_OTHER_TYPES = ("search_result", "server_tool_use", "tool_reference", "container_upload")
_ASSISTANT_ONLY = ("tool_use", "thinking", "redacted_thinking")
_USER_ONLY = ("tool_result", "image")


def _refuse(message: str) -> ApiError:
    return ApiError(400, message)


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a request without credentials (401) or without a known API version (400)."""
    if not headers.get("x-api-key") and not headers.get("authorization"):
        raise ApiError(401, "x-api-key header is required")
    version = headers.get("anthropic-version")
    if version is None:
        raise _refuse("anthropic-version: header is required")
    if version not in VERSIONS:
        raise _refuse(f'anthropic-version: "{version}" is not a valid version')


def check_request(request: dict[str, object], headers: Mapping[str, str], options: Options) -> None:
    """Refuse a body that the real API would refuse.

    Raises:
        ApiError: 400, with the API's words.
    """
    for name in ("model", "messages", "max_tokens"):
        if request.get(name) is None:
            raise _refuse(f"{name}: Field required")
    for name in request:
        if name not in _TOP_LEVEL:
            raise _refuse(f"{name}: Extra inputs are not permitted")
    _check_scalars(request, headers)
    _check_tools(request)
    _check_system(request)
    _check_messages(request, headers, options)
    _check_rounds([as_dict(message) for message in as_list(request["messages"])])
    check_markers(request, options.profile.max_markers)


def _check_scalars(request: dict[str, object], headers: Mapping[str, str]) -> None:
    if not isinstance(request["model"], str):
        raise _refuse("model: Input should be a valid string")
    limit = request["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise _refuse("max_tokens: Input should be a valid integer")
    if limit < 0:
        raise _refuse("max_tokens: Input should be greater than or equal to 0")
    mode = as_dict(request.get("thinking"))
    if limit == 0:
        _check_prewarm(request, mode)
    if headers.get("anthropic-version") == "2026-10-21":
        for name in ("temperature", "top_p", "top_k"):
            if name in request:
                raise _refuse(f"{name}: Extra inputs are not permitted")
    if mode.get("type") == "enabled":
        budget = mode.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            message = "Input should be greater than or equal to 1024"
            raise _refuse(f"thinking.enabled.budget_tokens: {message}")
        if 0 < limit <= budget:
            raise _refuse("`max_tokens` must be greater than `thinking.budget_tokens`")
    if "block_binding" in mode and BINDING_BETA not in headers.get("anthropic-beta", ""):
        raise _refuse("thinking.block_binding: Extra inputs are not permitted")


def _check_prewarm(request: dict[str, object], mode: dict[str, object]) -> None:
    choice = as_dict(request.get("tool_choice")).get("type")
    refused = {
        "stream": request.get("stream") is True,
        "thinking.enabled": mode.get("type") == "enabled",
        "output_config.format": as_dict(request.get("output_config")).get("format") is not None,
        "tool_choice": choice in ("any", "tool"),
    }
    for name, given in refused.items():
        if given:
            raise _refuse(f"max_tokens: 0 cannot be used with `{name}`")


def _check_tools(request: dict[str, object]) -> None:
    names = set()
    tools = as_list(request.get("tools"))
    for number, tool in enumerate(map(as_dict, tools)):
        name = as_str(tool.get("name"))
        if name in names:
            raise _refuse("tools: Tool names must be unique.")
        names.add(name)
        if tool.get("type") in (None, "custom"):
            _check_tool(f"tools.{number}.custom", tool)
    choice = as_dict(request.get("tool_choice"))
    if choice and not tools:
        raise _refuse("tool_choice: tool_choice may only be specified while providing tools")
    if choice.get("type") == "tool" and choice.get("name") not in names:
        raise _refuse(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_tool(path: str, tool: dict[str, object]) -> None:
    if not TOOL_NAME.fullmatch(as_str(tool.get("name"))):
        raise _refuse(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    schema = tool.get("input_schema")
    if schema is None:
        raise _refuse(f"{path}.input_schema: Field required")
    if not isinstance(schema, dict):
        raise _refuse(f"{path}.input_schema: Input should be a valid dictionary")
    if "type" not in schema:
        raise _refuse(f"{path}.input_schema.type: Field required")
    if schema["type"] != "object":
        raise _refuse(f"{path}.input_schema.type: Input should be 'object'")
    properties = schema.get("properties")
    required = schema.get("required")
    if properties is not None and not isinstance(properties, dict):
        raise _refuse(f"{path}.input_schema: JSON schema is invalid")
    if required is not None and not isinstance(required, list):
        raise _refuse(f"{path}.input_schema: JSON schema is invalid")


def _check_system(request: dict[str, object]) -> None:
    system = request.get("system")
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise _refuse("system: Input should be a valid list")
    for number, block in enumerate(map(as_dict, system)):
        if block.get("type") != "text":
            raise _refuse(f"system.{number}.type: Input should be 'text'")
        _check_block(f"system.{number}", block, "system")


def _check_messages(
    request: dict[str, object], headers: Mapping[str, str], options: Options
) -> None:
    messages = request["messages"]
    if not isinstance(messages, list):
        raise _refuse("messages: Input should be a valid list")
    if not messages:
        raise _refuse("messages: at least one message is required")
    system = SystemMessages(
        request, headers, lambda path, block: _check_block(path, block, "system"), _check_tool
    )
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _refuse(f"messages.{number}: Input should be a valid dictionary")
        if message.get("role") == "system" and options.system_messages:
            system.check(number)
        else:
            _check_message(number, message)
    if messages[0]["role"] != "user":
        raise _refuse('messages: first message must use the "user" role')
    if messages[-1]["role"] == "assistant":
        raise _refuse(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )


def _check_message(number: int, message: dict[str, object]) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        raise _refuse(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
            'parameter, not "system" as an input message role.'
        )
    if role not in ("user", "assistant"):
        raise _refuse(
            f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant"'
        )
    for name in message:
        if name not in ("role", "content"):
            raise _refuse(f"messages.{number}.{name}: Extra inputs are not permitted")
    if not isinstance(content, str | list):
        raise _refuse(f"messages.{number}.content: Input should be a valid list")
    if not content:
        raise _refuse(f"messages.{number}: {role} messages must have non-empty content")
    for place, block in enumerate(content_blocks(content)):
        _check_block(f"messages.{number}.content.{place}", block, role)


def _check_block(path: str, block: dict[str, object], role: str) -> None:
    kind = as_str(block.get("type"))
    if kind not in _MEMBERS:
        if kind in _OTHER_TYPES or kind.endswith("_tool_result"):
            return
        raise _refuse(
            f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected "
            f"tags: {', '.join(repr(name) for name in _MEMBERS)}"
        )
    if role == "user" and kind in _ASSISTANT_ONLY:
        raise _refuse(f"{path}: `{kind}` blocks can only be in `assistant` messages")
    if role == "assistant" and kind in _USER_ONLY:
        raise _refuse(f"{path}: `{kind}` blocks can only be in `user` messages")
    for name in _REQUIRED[kind]:
        if block.get(name) is None:
            raise _refuse(f"{path}.{kind}.{name}: Field required")
    for name in block:
        if name != "type" and name not in _MEMBERS[kind]:
            raise _refuse(f"{path}.{kind}.{name}: Extra inputs are not permitted")
    _check_values(path, kind, block)


def _check_values(path: str, kind: str, block: dict[str, object]) -> None:
    if kind == "text":
        text = block["text"]
        if not isinstance(text, str):
            raise _refuse(f"{path}.text.text: Input should be a valid string")
        if not text and marker_ttl(block.get("cache_control")) is not None:
            raise _refuse(f"{path}.text: cache_control cannot be set for empty text blocks")
        if not text:
            raise _refuse("messages: text content blocks must be non-empty")
        if not text.strip():
            raise _refuse("messages: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        _check_id(f"{path}.tool_use.id", block["id"])
        if not TOOL_NAME.fullmatch(as_str(block["name"])):
            pattern = "^[a-zA-Z0-9_-]{1,64}$"
            raise _refuse(f"{path}.tool_use.name: String should match pattern '{pattern}'")
        if not isinstance(block["input"], dict):
            raise _refuse(f"{path}.tool_use.input: Input should be a valid dictionary")
    elif kind == "tool_result":
        _check_id(f"{path}.tool_result.tool_use_id", block["tool_use_id"])
        content = block.get("content")
        if content is not None and not isinstance(content, str | list):
            raise _refuse(f"{path}.tool_result.content: Input should be a valid list")
        for place, inner in enumerate(map(as_dict, as_list(content))):
            _check_block(f"{path}.tool_result.content.{place}", inner, "tool_result")


def _check_id(path: str, value: object) -> None:
    if not TOOL_ID.fullmatch(as_str(value)):
        raise _refuse(f"{path}: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_rounds(messages: list[dict[str, object]]) -> None:
    """Every tool call is answered right after its turn, once, before anything else is said."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        blocks = content_blocks(message["content"])
        if message["role"] == "assistant":
            for place, block in enumerate(blocks):
                if block.get("type") == "tool_use":
                    call = as_str(block["id"])
                    if call in seen:
                        raise _refuse(
                            f"messages.{number}.content.{place}: `tool_use` ids must be unique"
                        )
                    seen.add(call)
                    open_calls.append(call)
            continue
        if message["role"] == "system":
            continue
        _check_results(number, blocks, open_calls)
        open_calls = []


def _check_results(number: int, blocks: list[dict[str, object]], calls: list[str]) -> None:
    answered: set[str] = set()
    leading = True
    late = False
    for place, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            leading = False
            continue
        call = as_str(block["tool_use_id"])
        if call not in calls:
            raise _refuse(
                f"messages.{number}.content.{place}: unexpected `tool_use_id` found in "
                f"`tool_result` blocks: {call}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
        if call in answered:
            raise _refuse(
                f"messages.{number}.content.{place}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call}"
            )
        late = late or not leading
        answered.add(call)
    missing = [call for call in calls if call not in answered]
    if missing or late:
        raise _refuse(
            f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing or calls)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message."
        )
