"""What settings.json says of a run: taken, or refused with the key and what it may be."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli import run as run_module
from unipi.cli.main import cli

MODEL = "anthropic/claude-opus-5-5"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`unipi run` with these settings, up to the point where the work would begin."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    chosen: list[object] = []

    def note(host, session, model, options, prompt, summary) -> int:
        chosen.append(options)
        session.close()
        return 0

    monkeypatch.setattr(run_module, "_execute", note)
    for name in ("disable", "freeze", "set_threshold"):  # this process goes on afterwards
        monkeypatch.setattr(gc, name, lambda *_: None)

    def with_settings(*arguments: str, **settings: object):
        text = json.dumps({"default_model": MODEL, **settings})
        (tmp_path / "settings.json").write_text(text)
        result = CliRunner().invoke(cli, ["run", "--no-session", "-p", "hello", *arguments])
        return result, chosen[-1] if chosen else None

    return with_settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cache_ttl": "2h"}, "`cache_ttl` must be"),
        ({"prefix_policy": "strict"}, "`prefix_policy` must be"),
        ({"compaction": {"keep": 3}}, "must be an object with"),
        ({"compaction": {"reserve_tokens": True}}, "`compaction.reserve_tokens` must be a number"),
        ({"compaction": {"keep_recent_tokens": -1}}, "a number of tokens"),
        ({"compaction": {"enabled": 1}}, "true or false"),
        ({"compaction": []}, "must be an object"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_by_its_key(run, settings, words) -> None:
    result, _ = run(**settings)
    assert result.exit_code == 2
    assert words in result.stderr


def test_settings_reach_the_run(run) -> None:
    settings = {"enabled": False, "reserve_tokens": 5, "keep_recent_tokens": 7}
    result, options = run(cache_ttl="auto", prefix_policy="record", compaction=settings)
    assert result.exit_code == 0, result.stderr
    assert (options.cache_ttl, options.policy) == ("auto", "record")
    compaction = options.compaction
    assert (compaction.enabled, compaction.reserve, compaction.keep) == (False, 5, 7)


def test_without_settings_there_are_defaults(run) -> None:
    _, options = run()
    assert (options.cache_ttl, options.policy) == ("5m", "enforce")
    assert options.compaction.enabled


def test_the_command_line_goes_before_the_setting(run) -> None:
    _, options = run("--prefix-policy", "off", prefix_policy="record")
    assert options.policy == "off"
