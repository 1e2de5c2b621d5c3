"""What `make bench-peers` makes of what it measured and of what the peers said; without the peers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from benchmarks.loop_measure import Run, provider
from benchmarks.peers import __main__ as command, envs, restart
from benchmarks.peers.bodies import appended
from benchmarks.peers.claims import loop_claims, table_row
from benchmarks.peers.match import Known, Rebuild, explained, unmatched
from hypothesis import given, strategies as st

ROOT = Path(__file__).parents[1]
BEFORE = {
    "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
}
SENDER = """
import json, os, sys, urllib.request
said, requests = int(sys.argv[1]), int(sys.argv[2])
for turn in range(said + 1, said + 1 + requests):
    body = b'{"messages":' + json.dumps([f"turn {n}" for n in range(turn)]).encode() + b'}'
    url = os.environ["BENCH_BASE"] + "/v1/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, body)).read()
"""
"""Sends a growing body, as a loop does: how many messages there were before, and how often."""


def a_run(ms, *, cpu=1.0, startup=1.0, turns=20):
    return Run([ms] * turns, [2] * turns, startup, cpu, 2.0**20)


def by_name(claims):
    return {claim.name: claim for claim in claims}


def test_a_claim_is_the_ratio_of_the_medians_of_one_run():
    runs = {
        "unipi_chat": [a_run(1.0), a_run(2.0), a_run(90.0)],
        "raw_anthropic": [a_run(10.0), a_run(10.0), a_run(1.0)],
    }
    claim = by_name(loop_claims(runs, 20, ()))["peers.turn20.unipi_chat/raw_anthropic"]
    assert (claim.ratio, claim.bound, claim.ok) == (0.2, 0.25, True)


@pytest.mark.parametrize(
    ("what", "other", "bound"),
    [
        ("turn10", "raw_anthropic", 1),
        ("turn20", "floor", 4),
        ("turn20", "raw_anthropic", 1 / 4),
        ("turn20", "pi_anthropic", 1 / 2),
        ("turn20", "llm_chat", 1 / 12),
        ("cpu", "pi_anthropic", 1 / 3),
        ("startup", "raw_openai_chat", 1 / 2),
    ],
)
def test_a_claim_is_missed_just_above_its_bound_and_kept_at_it(what, other, bound):
    def judged(factor):
        mine = a_run(bound * factor, cpu=bound * factor, startup=bound * factor)
        runs = {"unipi_chat": [mine], other: [a_run(1.0)]}
        return by_name(loop_claims(runs, 20, {"llm_chat"}))[f"peers.{what}.unipi_chat/{other}"]

    assert judged(1.0).ok
    assert judged(1.01).verdict == "MISSED"


def test_a_peer_that_was_not_measured_has_no_claim_and_stops_none():
    names = by_name(loop_claims({"unipi_chat": [a_run(1.0)], "floor": [a_run(1.0)]}, 20, ()))
    assert list(names) == ["peers.turn20.unipi_chat/floor"]


def test_without_our_own_runs_nothing_is_claimed():
    assert loop_claims({"floor": [a_run(1.0)], "llm_chat": [a_run(9.0)]}, 20, {"llm_chat"}) == []


def test_the_row_of_a_loop_shows_its_medians():
    row = table_row("floor", [a_run(1.0), a_run(3.0), a_run(50.0)], 20)
    assert "turn 10     3.00 ms" in row
    assert "turn 20     3.00 ms" in row


@pytest.mark.parametrize(
    ("path", "kind", "at_the_end"),
    [
        ("messages[2]", "inserted", True),
        ("messages[1].content[1]", "inserted", True),
        ("messages[0]", "inserted", False),
        ("messages[1].content[0]", "inserted", False),
        ("messages[2]", "object_changed", False),
        ("tools[2]", "inserted", False),
    ],
)
def test_only_what_comes_after_all_that_was_there_is_no_break(path, kind, at_the_end):
    assert appended(BEFORE, path, kind) is at_the_end


def test_a_rebuild_is_ours_too_when_session_and_tokens_agree():
    ours = [Rebuild("a", 9_004)]
    assert unmatched([Rebuild("a", 9_000)], ours, within=4) == []
    assert unmatched([Rebuild("a", 9_000)], ours, within=3) == [Rebuild("a", 9_000)]
    assert unmatched([Rebuild("b", 9_004)], ours, within=4) == [Rebuild("b", 9_004)]


def test_one_of_our_rebuilds_answers_for_one_of_theirs():
    twice = [Rebuild("a", 9_000), Rebuild("a", 9_004)]
    assert unmatched(twice, [Rebuild("a", 9_004)], within=4) == [Rebuild("a", 9_000)]


rebuilds = st.lists(st.builds(Rebuild, st.sampled_from("ab"), st.integers(0, 9)))


@given(rebuilds, rebuilds, st.integers(0, 3))
def test_what_is_not_matched_is_theirs_and_as_many_as_ours_cannot_answer_for(theirs, ours, within):
    alone = unmatched(theirs, ours, within)
    assert all(each in theirs for each in alone)
    assert len(alone) >= len(theirs) - len(ours)
    assert unmatched(theirs, theirs, within) == []


def test_a_known_difference_is_explained_once():
    known = [Known(Rebuild("a", 9_004), "a compaction")]
    alone = [Rebuild("a", 9_000), Rebuild("a", 9_004), Rebuild("b", 9_004)]
    told, missed = explained(alone, 4, known)
    assert told == [(Rebuild("a", 9_000), "a compaction")]
    assert missed == [Rebuild("a", 9_004), Rebuild("b", 9_004)]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(restart, "TURNS", 3)


def resumed(folder, name, *commands):
    """The claim of two processes that send to the real provider of the benchmark."""
    with provider(ROOT) as port:
        env = {"BENCH_BASE": f"http://127.0.0.1:{port}/s/restart-{name}/{restart.TURNS}"}
        full = [[sys.executable, "-c", SENDER, *words] for words in commands]
        return restart.restart(name, full, env, folder, port, 4)


def test_a_restart_that_extends_the_last_body_loses_only_what_closes_it(short, tmp_path):
    claim = resumed(tmp_path, "kept", ["0", "4"], ["4", "1"])
    assert (claim.ratio, claim.verdict) == (2, "ok")


def test_a_restart_that_begins_anew_is_missed(short, tmp_path):
    claim = resumed(tmp_path, "anew", ["0", "4"], ["0", "1"])
    assert claim.verdict == "MISSED"


def test_a_process_that_fails_makes_a_claim_that_is_missed_and_says_why(short, tmp_path):
    claim = resumed(tmp_path, "failed", ["no number", "4"], ["4", "1"])
    assert math.isnan(claim.ratio)
    assert claim.verdict == "MISSED"
    assert "no number" in claim.note


def test_too_few_requests_are_no_restart(short, tmp_path):
    claim = resumed(tmp_path, "few", ["0", "1"], ["1", "1"])
    assert claim.verdict == "MISSED"
    assert claim.note == "2 requests instead of 5"


def test_a_package_that_cannot_be_installed_is_told_by_its_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(envs, "PLACE", tmp_path / "file" / "folder")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(envs.NotInstalled):
        envs.environment("llm")


def test_every_peer_has_a_range_of_versions():
    for packages in envs.PACKAGES.values():
        assert all(">=" in package for package in packages)


def test_a_loop_that_nobody_knows_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peers", "loop", "--peers", "floor,nobody"])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2
    assert "no loop is named nobody" in capsys.readouterr().err
