"""What the Responses API refuses, and in which words.

Sources: the Responses reference; for what only the API says, public issues that quote it
(continuedev/continue #8933, james-6-23/codex2api #414, timothy-agent/timothy #702).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.sim.errors import ApiError
from unipi.sim.openai_checks import (
    check_arguments,
    check_call_id,
    check_name,
    check_schema,
    refuse,
)
from unipi.sim.rules import OPENAI_ADDITIONAL_TOOLS
from unipi.sim.shapes import as_dict, as_list, as_str

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi.sim.wire import Options

LEAST_OUTPUT = 16
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_PARTS: Mapping[str, tuple[str, ...]] = {
    "user": _INPUT_PARTS,
    "system": _INPUT_PARTS,
    "developer": _INPUT_PARTS,
    "assistant": ("output_text", "refusal"),
}
_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "additional_tools")
_STATUS = (None, "in_progress", "completed", "incomplete")
_TOP_LEVEL = frozenset(
    [
        "background",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
_CACHE_OPTIONS: Mapping[str, tuple[object, ...] | None] = {
    "mode": (None, "implicit", "explicit"),
    "ttl": (None, "30m", "12h"),
    "prewarm": (None, True, False),
    "comparison_response_id": None,
}


def check_request(request: dict[str, object], options: Options) -> None:
    """Refuse a body that the real API would refuse.

    Raises:
        ApiError: 400, with the API's words.
    """
    for name in ("model", "input"):
        if not request.get(name) and request.get(name) != []:
            raise _missing(name)
    _check_members(request, options)
    _check_tools(request)
    given = request["input"]
    if isinstance(given, str):
        return
    if not isinstance(given, list):
        raise refuse(
            "Invalid type for 'input': expected one of a string or array of objects.",
            "input",
            "invalid_type",
        )
    if not given:
        raise refuse(
            "Invalid 'input': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "input",
            "empty_array",
        )
    items = [as_dict(item) for item in given]
    for number, item in enumerate(items):
        _check_item(f"input[{number}]", item, options)
    _check_ids(items)
    _check_reasoning(items)
    _check_rounds(items)


def _missing(path: str) -> ApiError:
    return refuse(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def _invalid(path: str, value: object, known: tuple[str, ...]) -> ApiError:
    names = ", ".join(f"'{name}'" for name in known)
    return refuse(
        f"Invalid value: '{value}'. Supported values are: {names}.", path, "invalid_value"
    )


def _unknown(path: str) -> ApiError:
    return refuse(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def _check_members(request: dict[str, object], options: Options) -> None:
    profile = options.profile
    if profile.refuses_unknown:
        for name in request:
            if name not in _TOP_LEVEL:
                raise _unknown(name)
    if request.get("previous_response_id") is not None:
        raise refuse(
            f"Previous response with id '{request['previous_response_id']}' not found.",
            "previous_response_id",
            "previous_response_not_found",
        )
    limit = request.get("max_output_tokens")
    if isinstance(limit, int) and limit < LEAST_OUTPUT:
        raise refuse(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= "
            f"{LEAST_OUTPUT}, but got {limit} instead.",
            "max_output_tokens",
            "integer_below_min_value",
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
    for name, value in as_dict(cache).items():
        path = f"prompt_cache_options.{name}"
        if name not in _CACHE_OPTIONS:
            raise _unknown(path)
        known = _CACHE_OPTIONS[name]
        if known is not None and value not in known:
            raise refuse(f"Invalid value: '{value}'.", path, "invalid_value")


def _check_tools(request: dict[str, object]) -> None:
    """Those of the request, and those that items of its input add."""
    names: set[str] = set()
    _check_tool_list("tools", request.get("tools"), names)
    for number, item in enumerate(map(as_dict, as_list(request["input"]))):
        if item.get("type") != "additional_tools":
            continue
        path = f"input[{number}]"
        if not as_str(request.get("model")).startswith(OPENAI_ADDITIONAL_TOOLS):
            raise _invalid(f"{path}.type", "additional_tools", _ITEMS[:-1])
        if item.get("role") != "developer":
            raise _invalid(f"{path}.role", item.get("role"), ("developer",))
        if not isinstance(item.get("tools"), list):
            raise _missing(f"{path}.tools")
        _check_tool_list(f"{path}.tools", item["tools"], names)


def _check_tool_list(where: str, tools: object, names: set[str]) -> None:
    for number, tool in enumerate(map(as_dict, as_list(tools))):
        path = f"{where}[{number}]"
        if tool.get("type") != "function":
            raise _invalid(f"{path}.type", tool.get("type"), ("function",))
        name = as_str(tool.get("name"))
        if not name:
            raise _missing(f"{path}.name")
        check_name(f"{path}.name", name)
        if name in names:
            raise refuse(
                f"Invalid 'tools': the function name '{name}' is used twice.", path, "invalid_value"
            )
        names.add(name)
        if tool.get("parameters") is not None:
            check_schema(f"{path}.parameters", name, tool["parameters"])


def _check_item(path: str, item: dict[str, object], options: Options) -> None:
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if item.get("status") not in _STATUS:
        raise _invalid(f"{path}.status", item["status"], ("in_progress", "completed", "incomplete"))
    if kind == "message":
        _check_message(path, item, options)
    elif kind == "reasoning":
        _check_id(path, item, "rs", required=True)
        if not isinstance(item.get("summary"), list):
            raise _missing(f"{path}.summary")
        if not as_str(item.get("encrypted_content")):
            raise ApiError(
                404,
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is "
                "set to false. Try again with `store` set to true, or remove this item from your "
                "input.",
                param="input",
                code="not_found",
            )
    elif kind == "function_call":
        _check_id(path, item, "fc")
        check_call_id(f"{path}.call_id", item.get("call_id"))
        check_name(f"{path}.name", as_str(item.get("name")))
        check_arguments(f"{path}.arguments", item.get("arguments"), options)
    elif kind == "additional_tools":
        return  # judged with the other tools
    elif kind == "function_call_output":
        check_call_id(f"{path}.call_id", item.get("call_id"))
        _check_content(f"{path}.output", item.get("output"), _INPUT_PARTS, options)
    else:
        raise _invalid(f"{path}.type", kind, _ITEMS)


def _check_id(path: str, item: dict[str, object], start: str, *, required: bool = False) -> None:
    item_id = item.get("id")
    if item_id is None:
        if required:
            raise _missing(f"{path}.id")
        return
    if not as_str(item_id).startswith(start):
        raise refuse(
            f"Invalid '{path}.id': '{item_id}'. Expected an ID that begins with '{start}'.",
            f"{path}.id",
            "invalid_value",
        )
    check_call_id(f"{path}.id", item_id)


def _check_message(path: str, item: dict[str, object], options: Options) -> None:
    role = as_str(item.get("role"))
    if role not in _PARTS:
        raise _invalid(f"{path}.role", item.get("role"), tuple(_PARTS))
    if role == "assistant":
        _check_id(path, item, "msg")
    phase = item.get("phase")
    if phase is not None and phase not in ("commentary", "final_answer"):
        raise _invalid(f"{path}.phase", phase, ("commentary", "final_answer"))
    _check_content(f"{path}.content", item.get("content"), _PARTS[role], options)


def _check_content(path: str, content: object, known: tuple[str, ...], options: Options) -> None:
    if content is None:
        raise _missing(path)
    if not isinstance(content, str | list):
        raise refuse(
            f"Invalid type for '{path}': expected one of a string or array of objects.",
            path,
            "invalid_type",
        )
    for place, part in enumerate(map(as_dict, as_list(content))):
        here = f"{path}[{place}]"
        kind = as_str(part.get("type"))
        if kind not in known:
            raise _invalid(f"{here}.type", kind, known)
        member = {"refusal": "refusal", "input_text": "text", "output_text": "text"}.get(kind)
        if member and not isinstance(part.get(member), str):
            raise _missing(f"{here}.{member}")
        marked = part.get("prompt_cache_breakpoint") is not None
        knows = options.profile.knows_options and known is _INPUT_PARTS
        if marked and options.profile.refuses_unknown and not knows:
            raise _unknown(f"{here}.prompt_cache_breakpoint")


def _check_ids(items: list[dict[str, object]]) -> None:
    seen = set()
    for item in items:
        item_id = item.get("id")
        if item_id is None:
            continue
        if item_id in seen:
            raise refuse(
                f"Duplicate item found with id {item_id}. Remove duplicate items from your input "
                "and try again.",
                "input",
            )
        seen.add(item_id)


def _check_reasoning(items: list[dict[str, object]]) -> None:
    """What was reasoned about comes right behind: more reasoning, a message of the model's, a call."""
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") != "reasoning":
            continue
        written = following.get("type") in ("reasoning", "function_call")
        if not written and following.get("role") != "assistant":
            raise refuse(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item.",
                "input",
            )


def _check_rounds(items: list[dict[str, object]]) -> None:
    """Each output answers a call before it, and each call is answered."""
    asked: list[str] = []
    for item in items:
        call = as_str(item.get("call_id"))
        if item.get("type") == "function_call":
            asked.append(call)
        elif item.get("type") == "function_call_output":
            if call not in asked:
                raise refuse(
                    f"No tool call found for function call output with call_id {call}.", "input"
                )
            asked.remove(call)
    if asked:
        raise refuse(f"No tool output found for function call {asked[0]}.", "input")
