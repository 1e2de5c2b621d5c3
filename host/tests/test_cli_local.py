"""`unipi local`, as far as it goes without an engine."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli.local import local, usage
from unipi.providers import find_model, load_models


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    path = tmp_path / "my model.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(local, [str(tmp_path / "none.gguf")])
    assert result.exit_code == 2
    assert "none.gguf: no such file" in result.stderr


def test_without_the_engine_the_extra_is_named(gguf: str, monkeypatch) -> None:
    reason = "the local engine needs xllamacpp: pip install 'unipi[local]'"
    monkeypatch.setattr("unipi.sim.engine.engine_available", lambda: reason)
    result = CliRunner().invoke(local, [gguf])
    assert (result.exit_code, "unipi[local]" in result.stderr) == (1, True)


def test_a_port_that_is_taken_is_told_before_the_model_is_loaded(gguf: str, monkeypatch) -> None:
    monkeypatch.setattr("unipi.sim.engine.engine_available", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = CliRunner().invoke(local, [gguf, "--port", port])
    assert result.exit_code == 2
    assert f"port {port} cannot be had" in result.stderr


def test_options_of_a_prompt_need_one(gguf: str, monkeypatch) -> None:
    monkeypatch.setattr("unipi.sim.engine.engine_available", lambda: None)
    assert CliRunner().invoke(local, [gguf, "--json"]).exit_code == 2


def test_with_the_default_port_and_window_a_model_needs_no_file() -> None:
    text = usage("qwen", "http://127.0.0.1:8080", 32_768)
    assert "unipi run --model llamacpp/qwen" in text
    model = find_model("llamacpp/qwen")
    assert (model.base_url, model.context_window) == ("http://127.0.0.1:8080/v1", 32_768)


def test_else_what_is_printed_is_a_models_file_that_names_it(tmp_path: Path) -> None:
    text = usage("qwen", "http://127.0.0.1:9000", 8_192)
    assert "unipi run --model local/qwen" in text
    path = tmp_path / "models.json"
    path.write_text(json.dumps(json.loads(text[text.index("{") :])))
    model = load_models(path)["local/qwen"]
    assert (model.base_url, model.context_window) == ("http://127.0.0.1:9000/v1", 8_192)
    assert model.dialect == "llamacpp"
