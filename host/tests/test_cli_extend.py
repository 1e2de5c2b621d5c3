"""Extensions bring commands by the entry-point group `unipi.cli`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from unipi.cli.extend import KNOWN, Host
from unipi.cli.main import cli

if TYPE_CHECKING:
    from unipi_hookspecs import CliHost

GOOD = """
import click

@click.command()
@click.pass_obj
def greet(host):
    "Greet."
    host.print_json({"settings": dict(host.settings("greeter")), "cwd": str(host.cwd)})
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Lay a distribution with one command on the path, as an installer would."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(tmp_path))

    def lay(dist: str, command: str, source: str) -> None:
        module = dist.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[unipi.cli]\n{command} = {module}:greet\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return lay


def test_a_command_of_an_extension_runs_with_what_the_host_hands_it(install, tmp_path) -> None:
    install("acme-greeter", "greet", GOOD)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text('{"plugins": {"greeter": {"warm": true}}}')
    result = CliRunner().invoke(cli, ["greet"])
    assert result.exit_code == 0
    assert '"warm": true' in result.output


def test_help_names_the_command_and_its_owner_without_importing_it(install) -> None:
    install("acme-greeter", "greet", "raise RuntimeError('imported')")
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "From acme-greeter." in result.output


def test_a_command_that_cannot_be_imported_is_one_line_with_its_owner(install) -> None:
    install("acme-greeter", "greet", "raise RuntimeError('boom')")
    result = CliRunner().invoke(cli, ["greet"])
    assert result.exit_code == 1
    assert result.stderr == (
        "unipi: the command `greet` of acme-greeter cannot be imported: RuntimeError: boom\n"
    )


def test_an_entry_point_that_is_no_command_is_one_line_with_its_owner(install) -> None:
    install("acme-greeter", "greet", "greet = 3")
    result = CliRunner().invoke(cli, ["greet"])
    assert result.exit_code == 1
    assert "of acme-greeter is no click command: acme_greeter:greet" in result.stderr


def test_our_own_commands_win_over_an_extension_s(install) -> None:
    install("acme-greeter", "run", GOOD)
    result = CliRunner().invoke(cli, ["run", "--help"])
    assert "Run one prompt until nothing automatic is left to do." in result.output


def test_of_two_commands_with_one_name_the_first_distribution_by_name_has_it(install) -> None:
    install("beta-greeter", "greet", GOOD.replace("Greet.", "Second."))
    install("acme-greeter", "greet", GOOD)
    result = CliRunner().invoke(cli, ["greet", "--help"])
    assert "Greet." in result.output


def test_a_command_of_an_extension_of_ours_that_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unipi.cli.extend.extension_commands", dict)
    monkeypatch.setitem(KNOWN, "absent", "unipi-absent")  # type: ignore[misc] # a dict behind a Mapping
    result = CliRunner().invoke(cli, ["absent"])
    assert result.exit_code == 2
    assert "comes with unipi-absent, which is not installed" in result.stderr


def test_what_is_handed_over_is_the_protocol_that_extensions_are_typed_with() -> None:
    host: CliHost = Host()
    assert host.cwd == Path.cwd()
