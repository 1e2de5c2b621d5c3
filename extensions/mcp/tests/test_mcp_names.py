"""Final names: what providers accept, and a function of server and tool alone."""

from __future__ import annotations

import re

from hypothesis import given, settings, strategies as st

from unipi_mcp.names import LIMIT, final_names

ACCEPTED = re.compile(r"[A-Za-z0-9_-]{1,64}")
WORDS = st.text(st.sampled_from("aAz_-09. /ä名\n\U0001f600"), max_size=12) | st.text(max_size=80)
PAIRS = st.lists(st.tuples(WORDS, WORDS), max_size=12)


@settings(max_examples=500, deadline=None)
@given(PAIRS)
def test_every_name_is_accepted_by_providers_and_no_two_are_alike(pairs):
    names = final_names(pairs)
    assert all(ACCEPTED.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(names)


@settings(max_examples=300, deadline=None)
@given(PAIRS, st.randoms())
def test_the_order_of_answers_changes_no_name(pairs, rng):
    names = final_names(pairs)
    rng.shuffle(pairs)
    assert final_names(pairs) == names


@settings(max_examples=300, deadline=None)
@given(PAIRS, PAIRS)
def test_another_servers_arrival_renames_nothing(pairs, others):
    alone, together = final_names(pairs), final_names([*pairs, *others])
    assert {pair: together[pair] for pair in alone} == alone


def test_a_plain_name_stays_as_it_is():
    assert final_names([("time", "now"), ("git", "git_log")]) == {
        ("time", "now"): "mcp__time__now",
        ("git", "git_log"): "mcp__git__git_log",
    }


def test_a_name_that_another_tool_of_the_session_has_gives_way():
    free, taken = (final_names([("time", "now")], names) for names in ((), ("mcp__time__now",)))
    assert taken != free
    assert taken[("time", "now")].startswith("mcp__time__now_")


def test_a_server_whose_name_holds_the_separator_cannot_take_anothers_place():
    names = final_names([("a", "b__same"), ("a__b", "same"), ("a_", "b"), ("a", "_b")])
    assert len(set(names.values())) == 4
    assert names[("a", "b__same")] == "mcp__a__b__same"
    assert names[("a", "_b")] == "mcp__a___b"


def test_of_two_servers_with_long_names_the_tool_can_still_be_read():
    (name,) = final_names([("s" * 100, "list_issues")]).values()
    assert len(name) == LIMIT
    assert re.search(r"s__list_issues_[0-9a-f]{8}$", name)


def test_a_name_made_to_look_like_a_marked_one_displaces_nobody_elses():
    """The mark of `a b` is computable; a tool that bears it by itself only loses its own name."""
    marked = final_names([("a b", "t")])[("a b", "t")]
    server, tool = marked.removeprefix("mcp__").split("__", 1)
    names = final_names([("a b", "t"), (server, tool), ("other", "t")])
    assert names[("a b", "t")] == marked
    assert len(set(names.values())) == 3
