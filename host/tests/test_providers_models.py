"""Models and prices as data, the user's over the built-in; keys that never show."""

import pickle
import sys

import attrs
import pytest

from unipi.providers import (
    MODELS,
    ModelError,
    ModelsFileError,
    Secret,
    SecretError,
    cost_of,
    find_model,
    find_secret,
    load_models,
    redacted,
    request_headers,
)
from unipi_hookspecs import Model, Prices, RequestInfo, Usage

KEY = "sk-very-secret-0123456789"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_each_built_in_price_says_its_day_and_source(model):
    assert model.prices.as_of == "2026-12-01"
    assert model.prices.source
    assert model.api_key_env


def test_a_model_is_found_by_its_name_or_by_an_id_that_one_provider_has():
    assert find_model("anthropic/claude-opus-5-5") is find_model("claude-opus-5-5")


def test_an_unknown_model_s_error_names_what_is_near_and_the_way_out():
    with pytest.raises(ModelError, match=r"anthropic/claude-opus-5-5.*models\.json"):
        find_model("anthropic/claude-opus-5")


def test_a_user_s_file_adds_models_and_changes_prices(tmp_path):
    file = tmp_path / "models.json"
    file.write_text(
        """{"providers": {"local": {"api": "openai-chat-completions",
                                    "base_url": "http://127.0.0.1:8080/v1"},
                          "openai": {"base_url": "https://proxy.example/v1"}},
            "models": {"local/qwen": {"context_window": 32768, "api_key_env": null},
                       "anthropic/claude-opus-5-5": {"prices": {"input": 3.5}}}}"""
    )
    models = load_models(file)
    assert find_model("local/qwen", models).context_window == 32768
    assert models["openai/gpt-6-luna"].base_url == "https://proxy.example/v1"
    prices = models["anthropic/claude-opus-5-5"].prices
    assert (prices.input, prices.output, prices.source) == (3.5, 20.0, str(file))
    assert MODELS["anthropic/claude-opus-5-5"].prices.input == 4.0


def test_a_missing_file_leaves_the_built_in_models(tmp_path):
    assert load_models(tmp_path / "models.json") == MODELS


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{", "line 1"),
        ("[]", "the file must be an object"),
        ('{"model": {}}', "model is unknown"),
        ('{"models": {"x": {"api": "a", "base_url": "b"}}}', "models.x must be named"),
        ('{"models": {"x/y": {"api": "a"}}}', "models.x/y.base_url is missing"),
        ('{"models": {"x/y": {"contextwindow": 1}}}', "models.x/y.contextwindow is unknown"),
        ('{"models": {"x/y": {"context_window": "1"}}}', "models.x/y.context_window must be"),
        ('{"models": {"x/y": {"prices": {"input": -1}}}}', "models.x/y.prices.input must be"),
        ('{"models": {"x/y": {"prices": {"in": 1}}}}', "models.x/y.prices.in is unknown"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path, text, key):
    file = tmp_path / "models.json"
    file.write_text(text)
    with pytest.raises(ModelsFileError) as caught:
        load_models(file)
    assert str(file) in str(caught.value)
    assert key in str(caught.value)


# ---- money


def test_written_tokens_are_paid_once():
    cost = cost_of(Usage(3, 550, 0, 12_304), Prices(3.0, 15.0, 0.3, 3.75))
    assert cost.total == pytest.approx(0.054399)


def test_the_part_written_for_an_hour_has_its_own_price():
    prices = Prices(1.0, 1.0, 0.1, 1.25, 2.0)
    assert cost_of(Usage(0, 0, None, 1_000_000, 400_000), prices).cache_write == pytest.approx(1.55)
    without = attrs.evolve(prices, cache_write_1h=None)
    assert cost_of(Usage(0, 0, None, 1_000_000, 400_000), without).cache_write == pytest.approx(
        1.25
    )


def test_a_model_without_prices_has_no_cost():
    assert cost_of(Usage(1, 1), None) is None


# ---- keys


def model(source):
    return Model("acme", "m", "anthropic-messages", "http://127.0.0.1:1", api_key_env=source)


async def test_a_key_comes_from_the_variable_that_the_model_names():
    secret = await find_secret(model("ACME_KEY"), {"ACME_KEY": f" {KEY}\n"})
    assert secret.reveal() == KEY


async def test_a_model_that_names_no_key_needs_none():
    assert await find_secret(model(None), {}) is None


async def test_a_missing_variable_is_named_with_the_way_out():
    with pytest.raises(SecretError, match=r"acme.*ACME_KEY.*models\.json"):
        await find_secret(model("ACME_KEY"), {})


async def test_a_key_comes_from_a_command_s_output(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    assert (await find_secret(model(f"!cat '{file}'"), {})).reveal() == KEY


@pytest.mark.parametrize("command", [f"echo {KEY}; exit 3", "true", f"printf '{KEY}\\nmore'"])
async def test_a_key_command_that_fails_shows_nothing_of_its_output(command):
    with pytest.raises(SecretError, match="acme") as caught:
        await find_secret(model(f"!{command}"), {})
    assert KEY not in str(caught.value)


def test_a_secret_shows_itself_nowhere():
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize("value", ["", " ", "a\nb", "é"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(value):
    with pytest.raises(SecretError) as caught:
        Secret(value)
    assert value.strip() == "" or value not in str(caught.value)


@pytest.mark.parametrize(
    ("api", "name", "value"),
    [
        ("anthropic-messages", "x-api-key", KEY),
        ("openai-chat-completions", "authorization", f"Bearer {KEY}"),
    ],
)
def test_headers_carry_key_and_request_id_and_are_shown_without_the_key(api, name, value):
    info = RequestInfo("req-9", 0, "turn", "acme", api, "m", 1)
    asked = attrs.evolve(model("X"), api=api, headers={"X-Team-Token": "t", "User-Agent": "mine"})
    headers = request_headers(asked, Secret(KEY), info)
    assert headers[name] == value
    assert headers["x-client-request-id"] == "req-9"
    assert headers["user-agent"] == "mine"
    shown = redacted(headers)
    assert shown[name] == shown["x-team-token"] == "[redacted]"
    assert shown["x-client-request-id"] == "req-9"
    assert redacted({"anthropic-ratelimit-tokens-limit": "5"}) == {
        "anthropic-ratelimit-tokens-limit": "5"
    }


def test_importing_the_providers_does_not_load_the_http_client():
    import subprocess

    code = "import sys, unipi.providers; print('httpx2' in sys.modules, 'ssl' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["False", "False"]
