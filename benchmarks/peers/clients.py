"""The same tool loop in each peer, as its own guide would write it: `clients.py NAME`.

Run in the peer's environment, which has neither our packages nor the other peers. `BENCH_BASE` is
the provider's address. The checkout is on `PYTHONPATH` for the tools, which need nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from benchmarks import loop_tools
from benchmarks.loop_tools import PROMPT, SYSTEM, lookup

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = os.environ["BENCH_BASE"]
V1 = f"{BASE}/v1"
MODEL = "bench-model"
TURNS = 10_000


def _openai_tools() -> list[Any]:
    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": s}}
        for n, d, s in loop_tools.schemas()
    ]


def raw_openai_chat() -> str:
    """The openai SDK, Chat Completions."""
    from openai import OpenAI

    client, tools = OpenAI(base_url=V1, api_key="x"), _openai_tools()
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": PROMPT},
    ]
    while True:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        message: Any = answer.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            said = lookup(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})


def raw_openai_responses() -> str:
    """The openai SDK, Responses; the history is sent whole, as nothing is stored."""
    from openai import OpenAI

    client = OpenAI(base_url=V1, api_key="x")
    tools: list[Any] = [
        {"type": "function", "name": n, "description": d, "parameters": s, "strict": False}
        for n, d, s in loop_tools.schemas()
    ]
    items: list[Any] = [{"role": "user", "content": PROMPT}]
    while True:
        answer = client.responses.create(
            model=MODEL, instructions=SYSTEM, input=items, tools=tools, store=False
        )
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return str(answer.output_text)
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        for call in calls:
            said = lookup(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": said})


def raw_anthropic() -> str:
    """The anthropic SDK, Messages."""
    from anthropic import Anthropic

    client = Anthropic(base_url=BASE, api_key="x")
    tools: list[Any] = [
        {"name": n, "description": d, "input_schema": s} for n, d, s in loop_tools.schemas()
    ]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    while True:
        answer = client.messages.create(
            model=MODEL, max_tokens=1024, system=SYSTEM, messages=messages, tools=tools
        )
        calls: list[Any] = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in answer.content if block.type == "text")
        blocks = [block.model_dump(exclude_none=True) for block in answer.content]
        messages.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": lookup(**call.input)}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


def _pydantic_ai(model: Any) -> str:
    from pydantic_ai import Agent
    from pydantic_ai.usage import UsageLimits

    agent = Agent(model, instructions=SYSTEM, tools=[lookup])
    limits = UsageLimits(request_limit=None)
    return str(agent.run_sync(PROMPT, usage_limits=limits).output)


def pydantic_ai_chat() -> str:
    """pydantic-ai over Chat Completions."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=V1, api_key="x")
    return _pydantic_ai(OpenAIChatModel(MODEL, provider=provider))


def pydantic_ai_anthropic() -> str:
    """pydantic-ai over Messages."""
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=BASE, api_key="x")
    return _pydantic_ai(AnthropicModel(MODEL, provider=provider))


def openai_agents_chat() -> str:
    """openai-agents over Chat Completions."""
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=V1, api_key="x")
    model = agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
    tools = [agents.function_tool(lookup)]
    agent = agents.Agent(name="bench", instructions=SYSTEM, model=model, tools=tools)

    async def run() -> str:
        return str((await agents.Runner.run(agent, PROMPT, max_turns=TURNS)).final_output)

    return asyncio.run(run())


def _strands(**options: Any) -> str:
    from strands import Agent, tool
    from strands.models.anthropic import AnthropicModel

    client = {"base_url": BASE, "api_key": "x"}
    agent = Agent(
        model=AnthropicModel(client_args=client, model_id=MODEL, max_tokens=1024),
        system_prompt=SYSTEM,
        tools=[tool(lookup)],
        callback_handler=None,
        **options,
    )
    return str(agent(PROMPT)).strip()


def strands_anthropic() -> str:
    """strands over Messages, with the window that would cut the history taken away."""
    from strands.agent.conversation_manager import NullConversationManager

    return _strands(conversation_manager=NullConversationManager())


def strands_session() -> str:
    """strands as it comes, its session in files of the working folder: made, or gone on with."""
    from strands.session.file_session_manager import FileSessionManager

    manager = FileSessionManager(session_id="s", storage_dir="strands")
    return _strands(agent_id="bench", session_manager=manager)


def llm_chat() -> str:
    """simonw's llm over Chat Completions."""
    from llm.default_plugins import openai_models

    model = openai_models.Chat(MODEL, model_name=MODEL, api_base=V1, key="x", supports_tools=True)
    chain = model.conversation(tools=[lookup]).chain(
        PROMPT, system=SYSTEM, stream=False, chain_limit=0
    )
    return "".join(chain)


PEERS: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        raw_openai_chat,
        raw_openai_responses,
        raw_anthropic,
        pydantic_ai_chat,
        pydantic_ai_anthropic,
        openai_agents_chat,
        strands_anthropic,
        strands_session,
        llm_chat,
    )
}


if __name__ == "__main__":
    said = PEERS[sys.argv[1]]()
    assert said.strip() == "done", said
