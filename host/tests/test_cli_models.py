"""`unipi models`: what is known, what a server says, and errors with a way out."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from unipi.cli.main import cli
from unipi.sim import Simulator, run_simulator

KEY = "sk-planted-0123456789"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path))
    monkeypatch.setenv("ACME_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args):
    return CliRunner().invoke(cli, ["models", *args])


def serve(home, url, **model):
    document = {
        "providers": {
            "acme": {
                "api": "openai-chat-completions",
                "base_url": url,
                "api_key_env": "ACME_KEY",
                "headers": {"x-team-token": "planted-token"},
            }
        },
        "models": {"acme/one": model},
    }
    (home / "models.json").write_text(json.dumps(document))


def test_the_list_holds_the_built_in_models_and_the_user_s(home):
    serve(home, "http://127.0.0.1:1", context_window=4321)
    listed = json.loads(run("list", "--json").output)["models"]
    by_name = {model["name"]: model for model in listed}
    assert list(by_name) == sorted(by_name)
    assert by_name["acme/one"]["context_window"] == 4321
    assert by_name["acme/one"]["prices"] is None
    prices = by_name["anthropic/claude-opus-5-5"]["prices"]
    assert (prices["cache_read"], prices["as_of"]) == (0.2, "2026-12-01")
    assert prices["source"]


def test_the_table_names_each_model_whole(home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    done = run("list")
    assert done.exit_code == 0
    assert "anthropic/claude-opus-5-5" in done.output


def test_a_model_is_shown_with_all_that_is_known(home):
    shown = json.loads(run("show", "claude-haiku-4-5", "--json").output)
    assert shown["name"] == "anthropic/claude-haiku-4-5"
    assert shown["min_cache_tokens"] == 4096
    assert shown["thinking"]["low"] == "2048 tokens"
    assert shown["key"]["source"] == "ANTHROPIC_API_KEY"
    assert "price map" in run("show", "claude-haiku-4-5").output


def test_no_key_token_or_key_command_is_ever_shown(home):
    serve(home, "http://user:planted-token@127.0.0.1:1/v1?key=planted-token")
    shown = run("show", "acme/one", "--json").output + run("list", "--json").output
    serve(home, "http://127.0.0.1:1", api_key_env="!echo planted-token")
    shown += run("show", "acme/one").output
    assert "a command" in shown
    assert KEY not in shown
    assert "planted-token" not in shown


def test_an_unknown_model_is_an_error_that_names_the_file(home):
    done = run("show", "openai/gpt-9")
    assert done.exit_code == 2
    assert "models.json" in done.output


def test_a_wrong_file_is_named_with_its_key(home):
    serve(home, "http://127.0.0.1:1", context_window="many")
    done = run("list")
    assert done.exit_code == 2
    assert f"{home / 'models.json'}: models.acme/one.context_window" in done.output


def test_an_unknown_provider_is_an_error_that_names_the_known(home):
    done = run("list", "--provider", "nobody")
    assert done.exit_code == 2
    assert "anthropic" in done.output


def test_a_provider_s_own_list_is_told_beside_ours(home):
    with run_simulator(Simulator([], models=["one", "two"])) as url:
        serve(home, url)
        listed = json.loads(run("list", "--provider", "acme", "--discover", "--json").stdout)
        shown = json.loads(run("show", "acme/one", "--discover", "--json").output)
    assert [model["name"] for model in listed["models"]] == ["acme/one"]
    assert listed["discovered"] == [{"name": "acme/two", "context_window": None}]
    assert listed["errors"] == {}
    assert shown["served"] is True


def test_a_provider_that_is_down_is_told_and_ours_still_listed(home):
    serve(home, "http://127.0.0.1:9")
    done = run("list", "--provider", "acme", "--discover")
    assert done.exit_code == 1
    assert "acme/one" in done.stdout
    assert "cannot reach http://127.0.0.1:9" in done.stderr
    assert KEY not in done.output
    done = run("show", "acme/one", "--discover")
    assert done.exit_code == 1
    assert "cannot reach" in done.stderr


def test_a_missing_key_is_told_with_its_variable(home, monkeypatch):
    monkeypatch.delenv("ACME_KEY")
    serve(home, "http://127.0.0.1:9")
    done = run("list", "--provider", "acme", "--discover")
    assert done.exit_code == 1
    assert "ACME_KEY" in done.stderr
