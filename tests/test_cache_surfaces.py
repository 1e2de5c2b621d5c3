"""What a plugin cost is said where the user looks: at the end of the run, and in the report."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from unipi.cli._summary import PlainText, Summary
from unipi.cli.main import cli as command
from unipi.session import Session
from unipi.sim import Call, Say, Simulator, run_simulator
from unipi_hookspecs import Boundary, EpochBoundaryEvent

SHUFFLES = """
from itertools import count
from attrs import evolve

turn = count()

@hookimpl
def before_provider_request(event):
    tools = list(event.payload.tools)
    return evolve(event.payload, tools=tools[::-1] if next(turn) % 2 else tools)
"""


@pytest.mark.slow
def test_a_run_with_an_avoidable_boundary_says_so_and_the_report_names_the_plugin(cli) -> None:
    sim = Simulator([[Call("bash", {"command": "echo hi"})], [Say("done")]], profile="anthropic")
    plugin = cli.plugin("shuffles", SHUFFLES)
    with run_simulator(sim) as url:
        cli.serve_model(url)
        args = ("run", "--model", "sim/one", "--session", "s.jsonl", "-p", "x" * 9_000)
        done = cli.run(*args, "--prefix-policy", "record", "-e", plugin)
    assert done.returncode == 0, done.stderr
    path = cli.folder / "s.jsonl"
    assert "avoidable: 1 boundary, " in done.stderr
    assert f"by shuffles; `unipi cache report {path}` says where" in done.stderr
    shown = CliRunner().invoke(command, ["cache", "report", str(path), "--json"])
    report = json.loads(shown.output)
    _, second = report["stretches"]
    assert (second["cause"], second["owner"]) == ("tools", "shuffles")
    assert second["avoidable"] is True
    assert second["tokens_lost"] > 0
    assert report["by_owner"]["shuffles"]["misses"] == 1


@pytest.mark.parametrize(("avoidable", "said"), [(True, True), (False, False)])
def test_only_an_avoidable_boundary_has_a_line(avoidable, said, tmp_path, capsys) -> None:
    summary = Summary(PlainText())
    boundary = Boundary(
        2, "tools", "careless", avoidable=avoidable, tokens_lost=51_000, price=0.1173
    )
    summary(EpochBoundaryEvent(boundary))
    summary.end(Session.create(None, cwd=tmp_path), 0)
    line = (
        "avoidable: 1 boundary, 51,000 tokens ($0.1173), by careless; `unipi cache report SESSION`"
    )
    assert (line in capsys.readouterr().err) == said
