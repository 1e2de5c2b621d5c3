"""`unipi plugins`, with a broken bundle in the way of every command."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from unipi.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOOL = """
from unipi_hookspecs import Tool, hookimpl

@hookimpl
def register_tools(ctx):
    print("noise")
    return [Tool("{tool}", ctx.plugin, run=lambda call, ctx: "")]
"""
MODULES = {
    "good": TOOL.format(tool="greet"),
    "rival": TOOL.format(tool="greet"),
    "mute": TOOL.format(tool="not a name"),
    "dep": "import missing_dependency_xyz",
    "syntax": "def broken(:\n",
    "exits": "raise SystemExit(3)",
    "hookless": "",
}
KEYS = ["name", "distribution", "version", "position", "hooks", "tools", "status", "reason"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Runs `unipi …` in an empty home and folder, with one bundle a module of `MODULES`."""
    site = tmp_path / "site"
    site.mkdir()
    for name, source in MODULES.items():
        info = site / f"acme_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: acme-{name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[unipi.plugins]\n{name} = cli_{name}\n")
        (site / f"cli_{name}.py").write_text(source)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.syspath_prepend(str(site))
    yield lambda *arguments: CliRunner().invoke(cli, list(arguments))
    for name in MODULES:
        sys.modules.pop(f"cli_{name}", None)


def rows(result: Result) -> dict[str, dict[str, object]]:
    assert result.exit_code == 0, result.output
    return {row["name"]: row for row in json.loads(result.stdout)}


def test_version_and_help_do_not_care(run: Callable[..., Result]) -> None:
    assert run("--version").exit_code == 0
    assert run("--help").exit_code == 0
    assert not [name for name in sys.modules if name.startswith("cli_")]


def test_list_gives_every_plugin_with_exactly_the_documented_keys(
    run: Callable[..., Result],
) -> None:
    result = run("plugins", "list", "--json")
    found = rows(result)
    assert all(list(row) == KEYS for row in found.values())
    assert found["good"] == {
        "name": "good",
        "distribution": "acme-good",
        "version": "1.2",
        "position": found["good"]["position"],
        "hooks": ["register_tools"],
        "tools": ["greet"],
        "status": "active",
        "reason": None,
    }
    assert [found[n]["status"] for n in ("dep", "syntax", "exits", "hookless")] == ["failed"] * 4
    assert str(found["dep"]["reason"]).startswith("import: it needs the module")


def test_list_tells_each_problem_once_on_standard_error(run: Callable[..., Result]) -> None:
    lines = run("plugins", "list", "--json").stderr.splitlines()
    for name in ("dep", "syntax", "exits", "hookless", "mute"):
        assert len([line for line in lines if f"of acme-{name} 1.2" in line]) == 1
    [conflict] = [line for line in lines if "the tool 'greet'" in line]
    assert "acme-good 1.2" in conflict
    assert "acme-rival 1.2" in conflict


def test_list_as_a_table_shows_state_and_reason(run: Callable[..., Result]) -> None:
    output = run("plugins", "list").stdout
    assert "greet" in output
    assert "failed" in output
    assert "noise" not in output


def test_strict_fails_with_the_same_messages_and_no_list(run: Callable[..., Result]) -> None:
    loose = run("plugins", "list", "--json").stderr.splitlines()
    strict = run("plugins", "list", "--json", "--strict-plugins")
    assert strict.exit_code == 1
    assert strict.stdout == ""
    assert set(strict.stderr.splitlines()) <= set(loose)
    assert "acme-dep 1.2" in strict.stderr


def test_a_plugin_left_out_is_disabled_and_an_unknown_name_is_said_to_be_so(
    run: Callable[..., Result],
) -> None:
    result = run("plugins", "list", "--json", "--no-plugin", "dep", "--no-plugin", "depp")
    assert rows(result)["dep"]["status"] == "disabled"
    assert "--no-plugin depp: no such plugin is here" in result.stderr
    assert "acme-dep" not in result.stderr


def test_a_file_given_by_hand_is_listed(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from unipi_hookspecs import hookimpl\n@hookimpl\ndef turn_end(): ...\n")
    row = rows(run("plugins", "list", "--json", "-e", str(file)))["mine"]
    assert (row["status"], row["distribution"], row["hooks"]) == ("active", None, ["turn_end"])


def test_disable_keeps_a_plugin_out_until_it_is_enabled(run: Callable[..., Result]) -> None:
    assert run("plugins", "disable", "exits").exit_code == 0
    assert rows(run("plugins", "list", "--json"))["exits"]["status"] == "disabled"
    assert run("plugins", "enable", "exits").exit_code == 0
    assert rows(run("plugins", "list", "--json"))["exits"]["status"] == "failed"


def test_disabling_a_name_that_is_not_here_works_and_says_so(run: Callable[..., Result]) -> None:
    result = run("plugins", "disable", "nobody")
    assert result.exit_code == 0
    assert "no plugin called 'nobody' is here now" in result.stderr


def test_uninstall_prints_the_command_for_a_broken_plugin_without_importing_it(
    run: Callable[..., Result],
) -> None:
    result = run("plugins", "uninstall", "syntax", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.strip().endswith("-m pip uninstall -y acme-syntax")
    assert "cli_exits" not in sys.modules


def test_uninstall_asks_first(run: Callable[..., Result]) -> None:
    result = run("plugins", "uninstall", "syntax")
    assert result.exit_code == 1
    assert "Run it?" in result.stdout


def test_uninstall_of_an_unknown_plugin_or_a_file_says_what_to_do(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    assert "`unipi plugins list` shows what is" in run("plugins", "uninstall", "nobody").stderr
    file = tmp_path / "home" / "plugins" / "own.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert f"remove {file}" in run("plugins", "uninstall", "own").stderr


def test_order_explains_and_gives_load_times(run: Callable[..., Result]) -> None:
    explained = run("plugins", "order", "--explain").stdout
    assert "good (acme-good 1.2): by name" in explained
    ordered = json.loads(run("plugins", "order", "--json").stdout)
    assert [row["position"] for row in ordered] == list(range(1, len(ordered) + 1))
    assert all(row["load_ms"] >= 0 for row in ordered)


def test_broken_settings_are_one_line_and_exit_2(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text("{")
    result = run("plugins", "list")
    assert result.exit_code == 2
    assert "settings.json, line 1" in result.stderr
    assert len(result.stderr.splitlines()) == 1
