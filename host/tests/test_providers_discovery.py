"""Which models a server says it has: bounded, and clear when it does not say."""

from __future__ import annotations

import contextlib

import anyio
import orjson
import pytest

from unipi.providers import ModelError, ProviderError, Secret, find_model, load_models
from unipi.providers.discovery import MAX_MODELS, discover
from unipi.sim import Simulator
from unipi_hookspecs import Model

KEY = "sk-planted-0123456789"


def model(url: str, api: str = "openai-chat-completions") -> Model:
    return Model("acme", "m", api, url)


@contextlib.asynccontextmanager
async def server(answer: bytes, status: str = "200 OK", *, silent: bool = False):
    """One raw HTTP answer to every request; gives the address and the requests seen."""
    seen: list[bytes] = []

    async def handle(stream) -> None:
        async with stream:
            seen.append(await stream.receive())
            if silent:
                await anyio.sleep_forever()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\nconnection: close\r\n\r\n"
            )
            await stream.send(head.encode() + answer)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{port}", seen
        tasks.cancel_scope.cancel()


async def fails(url: str, **options: float) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await discover(model(url), Secret(KEY), **options)
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "api", ["anthropic-messages", "openai-chat-completions", "openai-responses"]
)
async def test_a_server_s_models_are_listed_by_id(api):
    async with Simulator([], models=["b", "a"]).serve() as url:
        found = await discover(model(url, api), Secret(KEY))
    assert [(f.provider, f.id, f.context_window) for f in found] == [
        ("acme", "a", None),
        ("acme", "b", None),
    ]


async def test_a_window_is_taken_from_wherever_the_server_states_it():
    listed = [
        {"id": "openrouter", "context_length": 1},
        {"id": "vllm", "max_model_len": 2},
        {"id": "llamacpp", "meta": {"n_ctx": 3, "n_ctx_train": 9}},
        {"id": "odd", "context_length": "many", "meta": None},
    ]
    async with server(orjson.dumps({"data": listed})) as (url, seen):
        found = await discover(model(url), Secret(KEY))
    assert {f.id: f.context_window for f in found} == {
        "openrouter": 1,
        "vllm": 2,
        "llamacpp": 3,
        "odd": None,
    }
    assert seen[0].startswith(b"GET /v1/models ")


async def test_what_is_no_name_is_left_out_and_the_list_is_bounded():
    odd = [{"id": "\x1b[2J"}, {"id": 3}, {"id": ""}, {"id": "x" * 201}, "y", None]
    many = [{"id": f"m{n}"} for n in range(MAX_MODELS + 50)]
    async with server(orjson.dumps({"data": [*odd, *many]})) as (url, _):
        found = await discover(model(url), None)
    assert len(found) == MAX_MODELS - len(odd)


async def test_a_server_that_is_down_is_named_by_its_address():
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    error = await fails(f"http://127.0.0.1:{port}")
    assert error.kind == "network"
    assert f"127.0.0.1:{port}" in error.message


async def test_a_silent_server_is_left_after_its_time():
    async with server(b"", silent=True) as (url, _):
        error = await fails(url, timeout=0.05)
    assert error.kind == "timeout"


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"data": 3}'])
async def test_an_answer_that_is_no_list_says_what_to_check(body):
    async with server(body) as (url, _):
        assert "base_url" in (await fails(url)).message


async def test_a_refusal_that_echoes_the_key_is_told_without_it():
    body = orjson.dumps({"error": {"message": f"no such key: {KEY}", "code": "invalid_api_key"}})
    async with server(body, "401 Unauthorized") as (url, _):
        error = await fails(url)
    assert (error.kind, error.action) == ("auth", "authenticate")
    assert "[redacted]" in error.message


# ---- names that are taken without being listed


def test_a_provider_that_serves_any_model_is_taken_at_its_word():
    found = find_model("ollama/qwen3:8b")
    assert (found.id, found.base_url) == ("qwen3:8b", "http://127.0.0.1:11434/v1")
    assert (found.dialect, found.api_key_env, found.context_window) == ("ollama", None, 32_768)
    assert find_model("openrouter/anthropic/claude-x").id == "anthropic/claude-x"


@pytest.mark.parametrize("name", ["openai/gpt-6-lunar", "ollama/", "mistral/x", "acme/m"])
def test_a_name_of_any_other_provider_must_be_known(name):
    with pytest.raises(ModelError, match=r"models\.json"):
        find_model(name)


def test_a_model_of_a_known_provider_needs_no_more_than_its_name_in_the_file(tmp_path):
    file = tmp_path / "models.json"
    file.write_text(
        '{"providers": {"vllm": {"base_url": "http://gpu.example:8000/v1"}},'
        ' "models": {"vllm/qwen": {}, "mistral/small": {"context_window": 9}}}'
    )
    models = load_models(file)
    qwen, small = models["vllm/qwen"], models["mistral/small"]
    assert (qwen.base_url, qwen.dialect) == ("http://gpu.example:8000/v1", "vllm")
    assert (small.context_window, small.api_key_env) == (9, "MISTRAL_API_KEY")
