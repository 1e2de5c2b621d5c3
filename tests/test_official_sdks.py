"""The simulator judged by code we did not write: the official `anthropic` and `openai` clients.

Both are told to validate every response against their own types, which they do not by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anthropic
import openai
import orjson
import pytest

from unipi.sim import Answer, Call, Fault, Say, Simulator, Think, run_simulator

pytestmark = pytest.mark.slow  # to import the two clients takes a second

PROMPT = "Which words are in a.txt? " * 200
CALLS = Answer(
    (
        Think("I must look."),
        Say("I look — first."),
        Call("read", '{"path": "a.txt", "from": 1.0}'),
        Call("read", {"path": "é.txt"}),
    )
)
SOON = {"retry-after-ms": "1"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
RESULTS = ("alpha", "beta")


# Anthropic

CLAUDE = {
    "model": "claude-opus-5-5",
    "max_tokens": 2_000,
    "tools": [{"name": "read", "description": "Read a file.", "input_schema": SCHEMA}],
    "thinking": {"type": "adaptive"},
    "cache_control": {"type": "ephemeral"},
}


@contextmanager
def claude(sim: Simulator, retries: int = 2) -> Iterator[anthropic.Anthropic]:
    with (
        run_simulator(sim) as url,
        anthropic.Anthropic(
            base_url=url, api_key="key", max_retries=retries, _strict_response_validation=True
        ) as client,
    ):
        yield client


def claude_says(client: anthropic.Anthropic, messages: list, *, stream: bool):
    if not stream:
        return client.messages.create(messages=messages, **CLAUDE)
    with client.messages.stream(messages=messages, **CLAUDE) as events:
        return events.get_final_message()


def claude_goes_on(messages: list, answer) -> list:
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": text}
        for block, text in zip(answer.content[2:], RESULTS, strict=True)
    ]
    return [
        *messages,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": results},
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_anthropic_client_runs_a_tool_loop_and_replays_signed_thinking(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")], check_thinking=True)
    with claude(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = claude_says(client, messages, stream=stream)
        last = claude_says(client, claude_goes_on(messages, first), stream=stream)
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert first.content[0].thinking == "I must look."
    assert first.content[1].text == "I look — first."
    assert [block.input for block in first.content[2:]] == [
        {"path": "a.txt", "from": 1.0},
        {"path": "é.txt"},
    ]
    assert (first.stop_reason, last.stop_reason) == ("tool_use", "end_turn")
    assert last.content[0].text == "alpha and beta"
    assert [request.status for request in sim.requests] == [200, 200]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_anthropic_client_reads_what_was_fresh_read_and_written(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")])
    with claude(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = claude_says(client, messages, stream=stream)
        last = claude_says(client, claude_goes_on(messages, first), stream=stream).usage
    one, two = sim.requests
    assert first.usage.cache_creation_input_tokens == one.prompt_tokens
    assert last.cache_read_input_tokens == one.prompt_tokens == two.cached_tokens
    assert last.cache_creation.ephemeral_5m_input_tokens == two.written_tokens
    total = last.input_tokens + last.cache_read_input_tokens + last.cache_creation_input_tokens
    assert total == two.prompt_tokens


def test_an_edited_prefix_is_refused_to_the_anthropic_client_in_the_real_words() -> None:
    sim = Simulator([CALLS, Say("never said")], check_thinking=True)
    with claude(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = claude_says(client, messages, stream=False)
        edited = claude_goes_on([{"role": "user", "content": "Another question."}], first)
        with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
            claude_says(client, edited, stream=False)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=401), anthropic.AuthenticationError),
        (Fault(status=403), anthropic.PermissionDeniedError),
        (Fault(status=404), anthropic.NotFoundError),
        (Fault(status=413), anthropic.RequestTooLargeError),
        (Fault(status=429), anthropic.RateLimitError),
        (Fault(status=500), anthropic.InternalServerError),
        (Fault(status=529), anthropic.OverloadedError),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else "",
)
def test_the_anthropic_client_knows_each_error(
    fault: Fault, error: type[anthropic.APIStatusError]
) -> None:
    with claude(Simulator([fault]), retries=0) as client, pytest.raises(error) as caught:
        claude_says(client, [{"role": "user", "content": "go"}], stream=False)
    assert caught.value.request_id == "req_sim_0001"
    assert caught.value.body["error"]["message"] == "simulated fault"


def test_a_prompt_over_the_window_is_a_bad_request_to_the_anthropic_client() -> None:
    with (
        claude(Simulator([Say("no")], context_window=100)) as client,
        pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 100"),
    ):
        claude_says(client, [{"role": "user", "content": PROMPT}], stream=True)


@pytest.mark.parametrize("status", [429, 529])
def test_the_anthropic_client_tries_again_with_the_same_bytes(status: int) -> None:
    sim = Simulator([Fault(status=status, headers=SOON), Fault(drop=True), Say("at last")])
    with claude(sim) as client:
        answer = claude_says(client, [{"role": "user", "content": "go"}], stream=True)
    assert answer.content[0].text == "at last"
    assert [request.status for request in sim.requests] == [status, 0, 200]
    assert len({request.body for request in sim.requests}) == 1


@pytest.mark.parametrize(
    "fault", [Fault(cut=True, after=2), Fault(stream_error=("overloaded_error", "No."), after=2)]
)
def test_a_broken_stream_is_an_error_to_the_anthropic_client(fault: Fault) -> None:
    with claude(Simulator([fault])) as client:
        # Past its first byte the client lets the error of its own transport through.
        with pytest.raises(Exception, match=r"peer closed connection|overloaded_error"):
            claude_says(client, [{"role": "user", "content": "go"}], stream=True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the two clients need it for their locks
async def test_the_asynchronous_clients_work_in_the_simulators_own_loop() -> None:
    sim = Simulator([Say("one"), Say("two")], profile="block16")
    async with (
        sim.serve() as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="key") as there,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as here,
    ):
        messages = [{"role": "user", "content": "go"}]
        async with there.messages.stream(messages=messages, **CLAUDE) as events:
            assert await events.get_final_text() == "one"
        chunks = await here.chat.completions.create(messages=messages, **GPT, stream=True)
        said = [c.choices[0].delta.content async for c in chunks if c.choices]
    assert "".join(filter(None, said)) == "two"


# OpenAI: chat completions

GPT = {
    "model": "gpt-5.5",
    "tools": [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read a file.", "parameters": SCHEMA},
        }
    ],
}


@contextmanager
def gpt(sim: Simulator, retries: int = 2) -> Iterator[openai.OpenAI]:
    with (
        run_simulator(sim) as url,
        openai.OpenAI(
            base_url=f"{url}/v1",
            api_key="key",
            max_retries=retries,
            _strict_response_validation=True,
        ) as client,
    ):
        yield client


def gpt_says(client: openai.OpenAI, messages: list, *, stream: bool):
    if not stream:
        return client.chat.completions.create(messages=messages, **GPT)
    with client.chat.completions.stream(
        messages=messages, stream_options={"include_usage": True}, **GPT
    ) as events:
        return events.get_final_completion()


def gpt_goes_on(messages: list, answer) -> list:
    message = answer.choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(message.tool_calls, RESULTS, strict=True)
    ]
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls
    ]
    said = {"role": "assistant", "content": message.content, "tool_calls": calls}
    return [*messages, said, *results]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_openai_client_runs_a_tool_loop(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")], profile="openai_legacy")
    with gpt(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = gpt_says(client, messages, stream=stream)
        last = gpt_says(client, gpt_goes_on(messages, first), stream=stream)
    message = first.choices[0].message
    assert message.content == "I look — first."
    assert message.reasoning_content == "I must look."
    assert [call.function.arguments for call in message.tool_calls] == [
        '{"path": "a.txt", "from": 1.0}',
        '{"path":"é.txt"}',
    ]
    assert first.choices[0].finish_reason == "tool_calls"
    assert last.choices[0].message.content == "alpha and beta"
    assert last.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_openai_client_reads_cached_tokens(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")], profile="openai_legacy")
    with gpt(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = gpt_says(client, messages, stream=stream)
        usage = gpt_says(client, gpt_goes_on(messages, first), stream=stream).usage
    assert usage.prompt_tokens == sim.requests[1].prompt_tokens
    assert usage.prompt_tokens_details.cached_tokens == sim.requests[1].cached_tokens
    assert usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens - 128 > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=401), openai.AuthenticationError),
        (Fault(status=403), openai.PermissionDeniedError),
        (Fault(status=404), openai.NotFoundError),
        (Fault(status=429, code="insufficient_quota"), openai.RateLimitError),
        (Fault(status=500), openai.InternalServerError),
        (Fault(status=503), openai.InternalServerError),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else "",
)
def test_the_openai_client_knows_each_error(
    fault: Fault, error: type[openai.APIStatusError]
) -> None:
    with gpt(Simulator([fault], profile="openai_legacy"), retries=0) as client:
        with pytest.raises(error) as caught:
            gpt_says(client, [{"role": "user", "content": "go"}], stream=True)
    assert caught.value.request_id == "req_sim_0001"
    assert "simulated fault" in caught.value.message
    assert fault.code is None or caught.value.code == fault.code


def test_a_prompt_over_the_window_is_a_bad_request_to_the_openai_client() -> None:
    sim = Simulator([Say("no")], profile="openai_legacy", context_window=100)
    with gpt(sim) as client, pytest.raises(openai.BadRequestError) as caught:
        gpt_says(client, [{"role": "user", "content": PROMPT}], stream=True)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == "messages"


def test_the_openai_client_tries_again_with_the_same_bytes() -> None:
    script = [Fault(status=429, headers=SOON), Fault(drop=True), Say("at last")]
    sim = Simulator(script, profile="openai_legacy")
    with gpt(sim) as client:
        answer = gpt_says(client, [{"role": "user", "content": "go"}], stream=True)
    assert answer.choices[0].message.content == "at last"
    assert [request.status for request in sim.requests] == [429, 0, 200]
    assert len({request.body for request in sim.requests}) == 1


@pytest.mark.parametrize(
    "fault", [Fault(cut=True, after=2), Fault(stream_error=("server_error", "No."), after=2)]
)
def test_a_broken_stream_is_an_error_to_the_openai_client(fault: Fault) -> None:
    with gpt(Simulator([fault], profile="openai_legacy")) as client:
        with pytest.raises(openai.APIError, match=r"Connection error|No\."):
            gpt_says(client, [{"role": "user", "content": "go"}], stream=True)


# OpenAI: responses

GPT_ITEMS = {
    "model": "gpt-5.5",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "tools": [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}],
}


def gpt_responds(client: openai.OpenAI, items: list, *, stream: bool):
    if not stream:
        return client.responses.create(input=items, **GPT_ITEMS)
    with client.responses.stream(input=items, **GPT_ITEMS) as events:
        return events.get_final_response()


def gpt_goes_on_with(items: list, answer) -> list:
    calls = [item for item in answer.output if item.type == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": text}
        for call, text in zip(calls, RESULTS, strict=True)
    ]
    said = [item.model_dump(exclude_none=True, mode="json") for item in answer.output]
    for item in said:  # what the client itself adds to a stream's items
        item.pop("parsed_arguments", None)
        for part in item.get("content", []):
            part.pop("parsed", None)
    return [*items, *said, *results]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_openai_client_runs_a_tool_loop_over_responses(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")], profile="openai_legacy")
    with gpt(sim) as client:
        items = [{"role": "user", "content": PROMPT}]
        first = gpt_responds(client, items, stream=stream)
        last = gpt_responds(client, gpt_goes_on_with(items, first), stream=stream)
    thought, said, *calls = first.output
    assert thought.summary[0].text == "I must look."
    assert thought.encrypted_content
    assert said.content[0].text == first.output_text == "I look — first."
    assert [call.arguments for call in calls] == [
        '{"path": "a.txt", "from": 1.0}',
        '{"path":"é.txt"}',
    ]
    assert (first.status, last.output_text) == ("completed", "alpha and beta")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_openai_client_reads_cached_tokens_over_responses(stream: bool) -> None:
    sim = Simulator([CALLS, Say("alpha and beta")], profile="openai_legacy")
    with gpt(sim) as client:
        items = [{"role": "user", "content": PROMPT}]
        first = gpt_responds(client, items, stream=stream)
        usage = gpt_responds(client, gpt_goes_on_with(items, first), stream=stream).usage
    assert usage.input_tokens == sim.requests[1].prompt_tokens
    assert usage.input_tokens_details.cached_tokens == sim.requests[1].cached_tokens
    assert usage.input_tokens_details.cached_tokens > first.usage.input_tokens - 128 > 0
    assert first.usage.output_tokens_details.reasoning_tokens > 0


def test_a_prompt_over_the_window_is_a_bad_request_or_an_event_over_responses() -> None:
    sim = Simulator([Say("no")], profile="openai_legacy", context_window=100)
    items = [{"role": "user", "content": PROMPT}]
    with gpt(sim, retries=0) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            gpt_responds(client, items, stream=False)
        *begun, event = client.responses.create(input=items, stream=True, **GPT_ITEMS)
    assert caught.value.code == "context_length_exceeded"
    assert [e.type for e in begun] == ["response.created", "response.in_progress"]
    assert (event.type, event.code) == ("error", "context_length_exceeded")


def test_the_openai_client_tries_again_over_responses_with_the_same_bytes() -> None:
    script = [Fault(status=429, headers=SOON), Fault(drop=True), Say("at last")]
    sim = Simulator(script, profile="openai_legacy")
    with gpt(sim) as client:
        answer = gpt_responds(client, [{"role": "user", "content": "go"}], stream=True)
    assert answer.output_text == "at last"
    assert [request.status for request in sim.requests] == [429, 0, 200]
    assert len({request.body for request in sim.requests}) == 1


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_an_answer_cut_short_is_incomplete_to_the_openai_client(stop: str) -> None:
    sim = Simulator([Answer((Say("half"),), stop=stop)], profile="openai_legacy")
    with gpt(sim) as client:
        answer = gpt_responds(client, [{"role": "user", "content": "go"}], stream=False)
    assert answer.status == "incomplete"
    known = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
    assert answer.incomplete_details.reason == known[stop]


def test_both_clients_list_the_models() -> None:
    sim = Simulator([], models=["one", "two"])
    with gpt(sim) as client, claude(sim) as other:
        assert [model.id for model in client.models.list()] == ["one", "two"]
        assert [model.id for model in other.models.list()] == ["one", "two"]


def test_a_client_may_leave_a_stream_in_the_middle_and_ask_again() -> None:
    sim = Simulator([Answer((Say("a long answer " * 50),), delay=0.001), Say("short")])
    with claude(sim) as client:
        with client.messages.stream(
            messages=[{"role": "user", "content": "go"}], **CLAUDE
        ) as events:
            next(iter(events.text_stream))
        answer = claude_says(client, [{"role": "user", "content": "go"}], stream=False)
    assert answer.content[0].text == "short"
    assert all(orjson.loads(request.body) for request in sim.requests)


# What the newest type files know of caching.


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_anthropic_client_is_told_which_thinking_blocks_were_dropped(stream: bool) -> None:
    sim = Simulator([CALLS, Say("never mind")], check_thinking=True)
    asked = {
        **CLAUDE,
        "thinking": {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
        "extra_headers": {"anthropic-beta": "thinking-binding-controls-2026-08-01"},
    }
    with claude(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        first = client.messages.create(messages=messages, **asked)
        edited = claude_goes_on([{"role": "user", "content": "Another question."}], first)
        if stream:
            with client.messages.stream(messages=edited, **asked) as events:
                last = events.get_final_message()
        else:
            last = client.messages.create(messages=edited, **asked)
    assert first.input_transformations == []
    (dropped,) = last.input_transformations
    found = dropped if isinstance(dropped, dict) else dropped.model_dump()
    assert found["path"] == "messages.1.content.0"
    assert found["reason"] == "prefix_binding_mismatch"


def test_the_anthropic_client_sees_what_was_written_for_an_hour_and_warms_the_cache() -> None:
    sim = Simulator([Say("one")])
    system = [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    with claude(sim) as client:
        messages = [{"role": "user", "content": "go"}]
        plain = {"model": "claude-opus-5-5", "system": system, "messages": messages}
        warmed = client.messages.create(max_tokens=0, **plain)
        answer = client.messages.create(max_tokens=100, **plain)
    assert (warmed.content, warmed.stop_reason) == ([], "max_tokens")
    written = warmed.usage.cache_creation.ephemeral_1h_input_tokens
    assert written == warmed.usage.cache_creation_input_tokens > 512
    assert answer.usage.cache_read_input_tokens == written


def test_the_openai_client_places_breakpoints_and_reads_what_was_written() -> None:
    sim = Simulator([Say("one"), Say("two")], profile="openai_56")
    shared = {
        "type": "text",
        "text": PROMPT,
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }
    with gpt(sim) as client:
        one, two = (
            client.chat.completions.create(
                model="gpt-5.6",
                prompt_cache_key="session",
                prompt_cache_options={"mode": "implicit", "ttl": "30m"},
                messages=[{"role": "user", "content": [shared, {"type": "text", "text": text}]}],
            ).usage.prompt_tokens_details
            for text in ("first question", "another question")
        )
    assert one.cache_write_tokens > 1_024
    assert one.cached_tokens == 0
    assert two.cached_tokens > 1_024


@pytest.mark.parametrize("profile", ["deepseek", "exact"])
def test_fields_beyond_openais_own_reach_its_client(profile: str) -> None:
    sim = Simulator([Say("one"), Say("one")], profile=profile)
    with gpt(sim) as client:
        messages = [{"role": "user", "content": PROMPT}]
        gpt_says(client, messages, stream=True)
        answer = gpt_says(client, messages, stream=False)
    seen = sim.requests[-1].cached_tokens
    assert seen > 1_000
    if profile == "deepseek":
        assert answer.usage.prompt_cache_hit_tokens == seen
    else:
        assert answer.timings["cache_n"] == seen
