"""`/compact` from the command line, in processes of its own."""

from __future__ import annotations

import json

import pytest

from unipi.session import Session
from unipi.sim import Say, Simulator, run_simulator
from unipi.testing import prefix_breaks
from unipi_hookspecs import SummaryMessage

SUMMARY = "## Goal\n- Keep the tests green and change no public name, as the user asked."
LONG = "word " * 800
ASKED = {"compactor": {"mode": "model"}}
"""Where the compactor is installed it leaves summaries to the model."""


@pytest.mark.slow
def test_a_session_is_compacted_in_one_process_and_goes_on_in_another(cli) -> None:
    sim = Simulator([Say("one"), Say("two"), Say(SUMMARY), Say("three")], profile="anthropic")
    path = cli.folder / "s.jsonl"
    with run_simulator(sim) as url:
        cli.serve_model(url)
        cli.settings(default_model="sim/one", compaction={"keep_recent_tokens": 900}, plugins=ASKED)
        for prompt in (f"first {LONG}", f"second {LONG}"):
            assert cli.run("run", "--session", str(path), "-p", prompt).returncode == 0
        done = cli.run("run", "--json", "--session", str(path), "-p", "/compact the table matters")
        after = cli.run("run", "--json", "--session", str(path), "-p", "third")
    assert (done.returncode, after.returncode) == (0, 0), done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (outcome,) = [line for line in told if line["type"] == "compaction"]
    assert (outcome["status"], outcome["why"]) == ("applied", "manual")
    assert outcome["tokens_after"] < outcome["tokens_before"]
    _, last, asked, first = sim.requests
    assert prefix_breaks([last, asked]) == []
    assert asked.cached_tokens >= 0.95 * last.prompt_tokens
    assert first.prompt_tokens < last.prompt_tokens
    boundaries = [json.loads(x) for x in after.stdout.splitlines() if "epoch_boundary" in x]
    assert [(b["cause"], b["owner"]) for b in boundaries] == [("compaction", "user")]
    with Session.open(path, read_only=True) as session:
        assert isinstance(session.messages()[0], SummaryMessage)
