"""The real engine: whole tool loops, and a prefix cache whose counts are exact.

What is asserted are tokens, which are the same on every machine, never seconds.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import define, field

from unipi.sim.engine import EngineUnavailable, engine_available, start_engine
from unipi.sim.tiny_model import Action, tool_call, write_model

_Wire = dict[str, Any]
_MISSING = engine_available()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed"),
]

_ACTIONS = [
    Action("fix it", "I look first.\n" + tool_call("read", path="a.py")),
    Action("def a", tool_call("edit", edits=[{"newText": '"→"\n', "oldText": "é"}], path="a.py")),
    Action("edited", tool_call("read", path="b.py") + "\n" + tool_call("read", path="c.py")),
    Action("text of c", "Both read; all is done."),
]
_STATE = "state of a plugin: 3 steps, nothing that the script knows"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "scripted.gguf"
    write_model(path, _ACTIONS)
    return path


def _tool(name: str, **properties: object) -> _Wire:
    return {
        "name": name,
        "description": f"The tool {name}.",
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
    }


_TEXT: _Wire = {"type": "string"}
_EDITS: _Wire = {
    "type": "array",
    "items": {"type": "object", "properties": {"newText": _TEXT, "oldText": _TEXT}},
}
_TOOLS = [_tool("edit", edits=_EDITS, path=_TEXT), _tool("grep", path=_TEXT)]
_TOOLS.append(_tool("read", path=_TEXT))


def _result(name: str, arguments: str) -> str:
    path = json.loads(arguments)["path"]
    return {"edit": "edited", "read": {"a.py": "def a", "b.py": "b"}.get(path, "text of c")}[name]


@define
class Answer:
    """One streamed answer, put together, with what its usage said."""

    text: str = ""
    calls: list[dict[str, str]] = field(factory=list)
    prompt: int = 0
    cached: int = 0
    completion: int = 0


def _events(lines: list[str]) -> Iterator[_Wire]:
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line[6:])


@asynccontextmanager
async def _lines(url: str, body: _Wire) -> AsyncIterator[list[str]]:
    async with httpx2.AsyncClient(timeout=30) as client:
        response = await client.post(url, json={**body, "model": "m", "max_tokens": 64})
        assert response.status_code == 200, response.text
        yield response.text.splitlines()


def _chat_tools(tools: list[_Wire]) -> list[Any]:
    return [{"type": "function", "function": tool} for tool in tools]


async def _chat(base: str, messages: list[_Wire], tools: list[_Wire] = _TOOLS) -> Answer:
    body: _Wire = {
        "messages": [*messages],
        "tools": _chat_tools(tools),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = Answer()
    async with _lines(f"{base}/v1/chat/completions", body) as lines:
        for event in _events(lines):
            if usage := event.get("usage"):
                answer.prompt = usage["prompt_tokens"]
                answer.completion = usage["completion_tokens"]
                answer.cached = usage["prompt_tokens_details"]["cached_tokens"]
            for choice in event["choices"]:
                delta = choice["delta"]
                answer.text += delta.get("content") or ""
                for call in delta.get("tool_calls") or []:
                    function = call["function"]
                    answer.calls.append({"id": call["id"], **function})
    return answer


async def _messages(base: str, messages: list[_Wire]) -> Answer:
    body: _Wire = {
        "system": [{"type": "text", "text": _SYSTEM}],
        "messages": [*messages],
        "tools": [
            {"name": t["name"], "description": t["description"], "input_schema": t["parameters"]}
            for t in _TOOLS
        ],
        "stream": True,
    }
    answer = Answer()
    async with _lines(f"{base}/v1/messages", body) as lines:
        for event in _events(lines):
            if event["type"] == "message_start":
                usage = event["message"]["usage"]
                answer.cached = usage["cache_read_input_tokens"]
                answer.prompt = usage["input_tokens"] + answer.cached
            elif event["type"] == "content_block_start":
                block = event["content_block"]
                if block["type"] == "tool_use":
                    answer.calls.append({"id": block["id"], "name": block["name"], "arguments": ""})
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                answer.text += delta.get("text", "")
                if "partial_json" in delta:
                    answer.calls[-1]["arguments"] += delta["partial_json"]
            elif event["type"] == "message_delta":
                answer.completion = event["usage"]["output_tokens"]
    return answer


_SYSTEM = " ".join(f"rule{i:04d}" for i in range(150))
_START: list[_Wire] = [
    {"role": "system", "content": _SYSTEM},
    {"role": "user", "content": "Please fix it."},
]


async def _chat_loop(base: str) -> tuple[list[Answer], list[_Wire]]:
    """The scripted agent to its end, a plugin's state after each batch of results."""
    messages, answers = [*_START], list[Answer]()
    while not answers or answers[-1].calls:
        answer = await _chat(base, messages)
        answers.append(answer)
        message: _Wire = {"role": "assistant", "content": answer.text}
        if answer.calls:
            message["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": c} for c in answer.calls
            ]
        messages.append(message)
        for call in answer.calls:
            content = _result(call["name"], call["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if answer.calls:
            messages.append({"role": "user", "content": _STATE})
    return answers, messages


async def _messages_loop(base: str) -> list[Answer]:
    messages, answers = [_START[1]], list[Answer]()
    while not answers or answers[-1].calls:
        answer = await _messages(base, messages)
        answers.append(answer)
        text: list[Any] = [{"type": "text", "text": answer.text}] if answer.text else []
        uses: list[Any] = [
            {"type": "tool_use", **c, "input": json.loads(c["arguments"])} for c in answer.calls
        ]
        results: list[Any] = [
            {
                "type": "tool_result",
                "tool_use_id": c["id"],
                "content": _result(c["name"], c["arguments"]),
            }
            for c in answer.calls
        ]
        messages.append({"role": "assistant", "content": text + uses})
        messages.append({"role": "user", "content": [*results, {"type": "text", "text": _STATE}]})
    return answers


def _lost(answers: list[Answer]) -> list[int]:
    """Tokens a call that the cache should have had and did not.

    Of the last prompt and answer, the one token that is evaluated again each time left out.
    """
    return [
        before.prompt + before.completion - 1 - after.cached for before, after in pairwise(answers)
    ]


_SCRIPT = [
    ["I look first.\n", "read"],
    ["", "edit"],
    ["", "read", "read"],
    ["Both read; all is done."],
]


def _said(answers: list[Answer]) -> list[list[str]]:
    return [[a.text, *(c["name"] for c in a.calls)] for a in answers]


async def test_a_tool_loop_over_chat_completions_follows_the_script(model: Path) -> None:
    async with start_engine(model) as base:
        answers, _ = await _chat_loop(base)
    assert _said(answers) == _SCRIPT


async def test_an_append_only_chat_finds_its_whole_past_in_the_cache(model: Path) -> None:
    async with start_engine(model) as base:
        answers, _ = await _chat_loop(base)
    assert _lost(answers) == [0, 0, 0]


async def test_a_tool_loop_over_messages_follows_the_script_and_loses_nothing(model: Path) -> None:
    async with start_engine(model) as base:
        answers = await _messages_loop(base)
    assert _said(answers) == _SCRIPT
    assert _lost(answers) == [0, 0, 0]


async def test_a_clock_in_the_system_prompt_loses_all_that_follows_it(model: Path) -> None:
    async with start_engine(model) as base:
        answers, messages = await _chat_loop(base)
        late = {"role": "system", "content": "12:01 " + _SYSTEM}
        again = await _chat(base, [late, *messages[1:]])
    assert again.cached < answers[0].prompt - len(_SYSTEM)


async def test_tools_in_another_order_lose_nearly_everything(model: Path) -> None:
    async with start_engine(model) as base:
        answers, messages = await _chat_loop(base)
        again = await _chat(base, messages, _TOOLS[::-1])
    assert again.cached < 100 < answers[-1].prompt


async def test_the_server_ends_when_the_pipe_from_its_parent_closes(model: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "unipi.sim.engine", str(model), "4096", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"http://127.0.0.1:")
        server.communicate(timeout=10)
    finally:
        server.kill()
    assert server.returncode == 0


async def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "not-a-model.gguf"
    path.write_bytes(b"text")
    with pytest.raises(EngineUnavailable, match=r"not-a-model\.gguf"):
        async with start_engine(path):
            pass
