"""What Chat Completions refuses, and in which words (reference: Chat Completions, error codes)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from unipi.sim.errors import ApiError
from unipi.sim.shapes import as_dict, as_list, as_str

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi.sim.wire import Options

FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME = 64
MAX_ID = 64
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
PART_TYPES: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file"),
}
_TOP_LEVEL = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "verbosity",
        "response_format",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "stream",
        "stream_options",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "metadata",
        "store",
        "service_tier",
        "user",
        "n",
        "seed",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "presence_penalty",
        "frequency_penalty",
        "modalities",
        "audio",
        "prediction",
        "web_search_options",
    ]
)


def refuse(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a request without credentials (401)."""
    if not headers.get("authorization") and not headers.get("x-api-key"):
        raise ApiError(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization "
            "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )


def check_request(request: dict[str, object], options: Options) -> None:
    """Refuse a body that the real API would refuse.

    Raises:
        ApiError: 400, with the API's words.
    """
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise refuse("you must provide a model parameter")
    messages = request.get("messages")
    if messages is None:
        raise refuse(
            "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"
        )
    if not isinstance(messages, list):
        raise refuse("Invalid type for 'messages'.", "messages", "invalid_type")
    if not messages:
        raise refuse(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            "messages",
            "empty_array",
        )
    _check_members(request, options)
    _check_tools(request)
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            path = f"messages[{number}]"
            raise refuse(f"Invalid type for '{path}': expected an object.", path, "invalid_type")
        _check_message(number, message, options)
    _check_rounds([as_dict(message) for message in messages])
    if options.profile.wants_reasoning:
        _check_reasoning(request)


def _check_reasoning(request: dict[str, object]) -> None:
    """DeepSeek's thinking mode wants the reasoning of every turn that called a tool."""
    if as_dict(request.get("thinking")).get("type") != "enabled":
        return
    for message in map(as_dict, as_list(request["messages"])):
        if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            raise refuse(
                "The `reasoning_content` in the thinking mode must be passed back to the API."
            )


def _check_members(request: dict[str, object], options: Options) -> None:
    profile = options.profile
    if profile.refuses_unknown:
        for name in request:
            if name not in _TOP_LEVEL:
                raise refuse(f"Unrecognized request argument supplied: {name}")
    if "stream_options" in request and request.get("stream") is not True:
        raise refuse(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    cache = request.get("prompt_cache_options")
    if cache is None or not profile.refuses_unknown:
        return
    if not profile.knows_options:
        raise refuse(
            "Unsupported parameter: 'prompt_cache_options' is not supported with this model.",
            "prompt_cache_options",
            "unsupported_parameter",
        )
    known: Mapping[str, tuple[object, ...]] = {
        "mode": (None, "implicit", "explicit"),
        "ttl": (None, "30m"),
    }
    for name, value in as_dict(cache).items():
        param = f"prompt_cache_options.{name}"
        if name not in known:
            raise refuse(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
        if value not in known[name]:
            raise refuse(f"Invalid value: '{value}'.", param, "invalid_value")


def _check_tools(request: dict[str, object]) -> None:
    tools = as_list(request.get("tools"))
    if isinstance(request.get("tools"), list) and not tools:
        raise refuse(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            "tools",
            "empty_array",
        )
    names = set()
    for number, tool in enumerate(map(as_dict, tools)):
        path = f"tools[{number}]"
        if tool.get("type") != "function":
            raise refuse(f"Invalid value: '{tool.get('type')}'.", f"{path}.type", "invalid_value")
        function = as_dict(tool.get("function"))
        name = as_str(function.get("name"))
        check_name(f"{path}.function.name", name)
        if name in names:
            raise refuse(
                f"Invalid 'tools': the function name '{name}' is used twice.", path, "invalid_value"
            )
        names.add(name)
        schema = function.get("parameters")
        if schema is not None:
            check_schema(f"{path}.function.parameters", name, schema)
    if request.get("tool_choice") not in (None, "none") and not tools:
        raise refuse(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
            "specified.",
            "tool_choice",
        )


def check_name(path: str, name: str) -> None:
    if len(name) > MAX_NAME:
        raise refuse(
            f"Invalid '{path}': string too long. Expected a string with maximum length {MAX_NAME}, "
            f"but got a string with length {len(name)} instead.",
            path,
            "string_above_max_length",
        )
    if not FUNCTION_NAME.fullmatch(name):
        raise refuse(
            f"Invalid '{path}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            path,
            "invalid_value",
        )


def check_schema(path: str, name: str, schema: object) -> None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind != "object":
        shown = "None" if kind is None else str(kind)
        raise refuse(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of "
            f"'type: \"object\"', got 'type: \"{shown}\"'.",
            path,
            "invalid_function_parameters",
        )


def _check_message(number: int, message: dict[str, object], options: Options) -> None:
    path = f"messages[{number}]"
    role = message.get("role")
    if role not in ROLES:
        known = ", ".join(f"'{name}'" for name in ROLES)
        raise refuse(
            f"Invalid value: '{role}'. Supported values are: {known}.",
            f"{path}.role",
            "invalid_value",
        )
    content = message.get("content")
    calls = message.get("tool_calls")
    if calls is not None:
        _check_calls(path, role, calls, options)
    if content is None and (role != "assistant" or not calls) and not message.get("refusal"):
        raise refuse("Invalid value for 'content': expected a string, got null.", f"{path}.content")
    if content is not None and not isinstance(content, str | list):
        raise refuse(
            f"Invalid type for '{path}.content': expected one of a string or array of objects.",
            f"{path}.content",
            "invalid_type",
        )
    for place, part in enumerate(map(as_dict, as_list(content))):
        _check_part(f"{path}.content[{place}]", as_str(role), part, options)
    if role == "tool" and not as_str(message.get("tool_call_id")):
        raise refuse(
            f"Missing required parameter: '{path}.tool_call_id'.",
            f"{path}.tool_call_id",
            "missing_required_parameter",
        )


def _check_part(path: str, role: str, part: dict[str, object], options: Options) -> None:
    kind = as_str(part.get("type"))
    allowed = PART_TYPES.get(role, ())
    if kind not in allowed:
        known = ", ".join(f"'{name}'" for name in allowed)
        raise refuse(
            f"Invalid value: '{kind}'. Supported values are: {known}.",
            f"{path}.type",
            "invalid_value",
        )
    if kind == "text" and not isinstance(part.get("text"), str):
        raise refuse(f"Invalid type for '{path}.text'.", f"{path}.text", "invalid_type")
    marked = part.get("prompt_cache_breakpoint") is not None
    known_here = options.profile.knows_options and role != "assistant"
    if marked and options.profile.refuses_unknown and not known_here:
        param = f"{path}.prompt_cache_breakpoint"
        raise refuse(f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def _check_calls(path: str, role: object, calls: object, options: Options) -> None:
    if role != "assistant":
        raise refuse(
            f"Unknown parameter: '{path}.tool_calls'.", f"{path}.tool_calls", "unknown_parameter"
        )
    if not isinstance(calls, list) or not calls:
        raise refuse(
            f"Invalid '{path}.tool_calls': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            f"{path}.tool_calls",
            "empty_array",
        )
    for place, call in enumerate(map(as_dict, calls)):
        here = f"{path}.tool_calls[{place}]"
        function = as_dict(call.get("function"))
        check_call_id(f"{here}.id", call.get("id"))
        if call.get("type") != "function":
            raise refuse(f"Invalid value: '{call.get('type')}'.", f"{here}.type", "invalid_value")
        check_name(f"{here}.function.name", as_str(function.get("name")))
        check_arguments(f"{here}.function.arguments", function.get("arguments"), options)


def check_call_id(path: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise refuse(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    if len(value) > MAX_ID:
        raise refuse(
            f"Invalid '{path}': string too long. Expected a string with maximum length {MAX_ID}, "
            f"but got a string with length {len(value)} instead.",
            path,
            "string_above_max_length",
        )


def check_arguments(path: str, value: object, options: Options) -> None:
    if not isinstance(value, str):
        raise refuse(f"Invalid type for '{path}': expected a string.", path, "invalid_type")
    if not options.check_arguments:
        return
    # Servers that render a chat template parse every stored argument text, and want an object.
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as exc:
        raise refuse(f"Failed to parse '{path}' as JSON: {exc}", path, "invalid_value") from exc
    if not isinstance(parsed, dict):
        raise refuse(f"Invalid '{path}': expected a JSON object.", path, "invalid_value")


def _check_rounds(messages: list[dict[str, object]]) -> None:
    """Each tool message answers a call of the assistant message right before its group."""
    open_calls: list[str] = []
    asked_at = 0
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            call = as_str(message["tool_call_id"])
            if call not in open_calls:
                raise refuse(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{number}].role",
                )
            open_calls.remove(call)
            continue
        _check_answered(open_calls, asked_at)
        open_calls = []
        asked_at = number
        for call_object in map(as_dict, as_list(message.get("tool_calls"))):
            call = as_str(call_object["id"])
            if call in open_calls:
                raise refuse(
                    f"Duplicate value for 'tool_call_id' of '{call}'",
                    f"messages.[{number}].tool_calls",
                )
            open_calls.append(call)
    _check_answered(open_calls, asked_at)


def _check_answered(open_calls: list[str], asked_at: int) -> None:
    if open_calls:
        raise refuse(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_calls),
            f"messages.[{asked_at}].role",
        )
