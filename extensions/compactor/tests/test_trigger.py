"""The percentage trigger, sample by sample."""

from __future__ import annotations

import pytest

from unipi_compactor.settings import Trigger, read_options
from unipi_compactor.trigger import PercentageTrigger

RULE = Trigger(enabled=True, percent=80, cooldown=60, growth=4_000)
WINDOW = 100_000
MINUTE = 60_000


class Run:
    """A trigger and its clock, in minutes."""

    def __init__(self, rule=RULE):
        self.rule, self.trigger = rule, PercentageTrigger()

    def at(self, minute, tokens, window=WINDOW):
        return self.trigger.sample(self.rule, tokens, window, round(minute * MINUTE))

    def compacted(self, minute):
        self.trigger.compacted(round(minute * MINUTE))


@pytest.fixture
def run():
    return Run()


def test_it_is_off_unless_somebody_asks_for_it():
    assert not read_options({}).trigger.enabled
    off = Run(Trigger())
    assert off.at(0, 99_000).why == "off"
    assert off.trigger == PercentageTrigger()


def test_a_size_that_nobody_knows_changes_nothing(run):
    assert run.at(0, 0).why == "unknown"
    assert run.at(0, 90_000, window=0).why == "unknown"
    assert run.trigger == PercentageTrigger()


def test_it_fires_at_the_first_sample_above_and_not_below(run):
    assert run.at(0, 79_999).why == "below"
    assert run.at(1, 80_000).fire
    assert Run().at(0, 90_000).why == "first"


def test_the_first_sample_after_a_compaction_is_only_where_growth_counts_from(run):
    assert run.at(0, 85_000).fire
    run.compacted(1)
    assert run.at(3, 84_000).why == "baseline"
    assert run.at(4, 87_999).why == "growth"
    assert run.at(5, 88_000).why == "grown"


def test_it_fires_again_after_the_context_has_been_below(run):
    assert run.at(0, 85_000).fire
    run.compacted(1)
    assert run.at(3, 20_000).why == "baseline"
    assert run.at(4, 30_000).why == "below"
    assert run.at(5, 81_000).why == "crossed"


def test_the_cool_down_counts_from_the_end_of_the_compaction(run):
    run.at(0, 85_000)
    run.compacted(5)
    run.at(5.1, 20_000)
    verdict = run.at(5.5, 90_000)
    assert (verdict.why, verdict.wait) == ("cooldown", 30_000)


def test_a_crossing_during_the_cool_down_fires_when_that_ends(run):
    run.at(0, 85_000)
    run.compacted(1)
    run.at(1.1, 20_000)
    assert run.at(1.5, 81_000).why == "cooldown"
    assert run.at(1.9, 81_001).why == "cooldown"
    assert run.at(2.1, 81_002).why == "crossed"


def test_a_crossing_that_went_back_during_the_cool_down_is_forgotten(run):
    run.at(0, 85_000)
    run.compacted(1)
    run.at(1.1, 20_000)
    run.at(1.5, 81_000)
    assert run.at(1.7, 30_000).why == "below"
    assert run.at(3, 40_000).why == "below"


def test_an_attempt_that_came_to_nothing_waits_out_the_cool_down_and_then_wants_growth(run):
    assert run.at(0, 85_000).fire
    assert run.at(0.5, 85_500).why == "in_flight"
    assert run.at(1, 95_000).why == "cooldown"
    assert run.at(2, 86_000).why == "growth"
    assert run.at(3, 89_000).why == "grown"


def test_a_compaction_that_somebody_else_asked_for_counts_as_well(run):
    run.at(0, 50_000)
    run.compacted(1)
    assert run.at(1.1, 15_000).why == "baseline"
    assert run.at(1.2, 85_000).why == "cooldown"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (True, Trigger(enabled=True)),
        ({"enabled": True, "percent": 200}, Trigger(enabled=True, percent=99)),
        ({"enabled": True, "percent": 0, "growth": -1}, Trigger(enabled=True, percent=1, growth=0)),
        ({"enabled": True, "cooldown": 10**9}, Trigger(enabled=True, cooldown=86_400)),
        ({"enabled": "yes", "percent": "x"}, Trigger()),
        ("on", Trigger()),
        (None, Trigger()),
    ],
)
def test_settings_are_brought_into_their_range(given, read):
    assert read_options({"trigger": given}).trigger == read
