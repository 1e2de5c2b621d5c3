"""Which test asserts what of the acceptance lists of UniPi's diagnostics, and that each is there.

U1 to U10 and R1 to R4 are the lists of the reference, W1 to W11 and W51 to W53 its weaknesses, each of
which must be beaten. U10 (a batch tool with rollback) has no counterpart here: a model that wants
several things asks for them in one answer, and each call has its own outcome.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REPORT = "extensions/diagnostics/tests/test_diagnostics_report.py"
IN_HOST = "extensions/diagnostics/tests/test_diagnostics_in_host.py"

TESTS: dict[str, tuple[str, ...]] = {
    REPORT: (
        "U1 first_retry_extension_rewrite_and_envelope_change_are_told_apart",
        "U2 the_envelope_fingerprint_ignores_key_order_and_the_report_tells_the_bytes",
        "U2 the_envelope_fingerprint_depends_on_the_order_of_arrays",
        "U3 usage_is_summed_and_the_share_has_one_decimal",
        "U4 equal_usage_of_different_answers_counts_twice",
        "U5 a_secret_is_in_neither_the_report_nor_the_state",
        "U6 after_an_explicit_boundary_the_next_request_is_the_first_of_its_epoch",
        "W1 moving_a_cache_marker_leaves_the_prefix_extended",
        "W2 a_request_of_two_megabytes_costs_what_is_new_in_it",
        "W3 the_envelope_fingerprint_ignores_key_order_and_the_report_tells_the_bytes",
        "W3 a_message_in_another_notation_is_told_as_such",
        "W5 a_rewrite_is_located_and_the_bytes_before_it_are_counted",
        "W6 requests_of_another_purpose_have_their_own_lineage",
        "W6 two_sessions_do_not_see_each_other",
        "W7 an_answer_that_is_told_twice_counts_once",
        "W8 a_failed_answer_is_billed_and_marked",
        "W9 digests_are_compared_whole_and_cut_for_people_only",
        "W10 a_prefix_that_outlives_an_explicit_boundary_is_named",
        "W10 a_choice_that_is_taken_back_before_the_next_request_is_no_boundary",
    ),
    IN_HOST: (
        "U7 the_status_points_to_the_report_and_the_doctor_and_touches_nothing",
        "W11 the_report_never_enters_the_session",
    ),
    "host/tests/test_doctor.py": (
        "U8 the_json_document_has_a_status_counts_and_the_checks",
        "U8 the_exit_code_is_that_of_the_worst",
        "W53 a_broken_file_is_named_and_the_other_checks_still_run",
        "W53 a_check_that_hangs_costs_its_limit_and_no_more",
    ),
    "host/tests/test_session_cleaning.py": (
        "U9 with_yes_a_session_goes_with_its_key_and_artifacts_and_nothing_else",
        "U9 a_file_from_elsewhere_is_refused_and_nothing_is_removed",
        "W51 with_yes_a_session_goes_with_its_key_and_artifacts_and_nothing_else",
        "W51 the_json_document_lists_what_is_old_and_what_was_removed",
    ),
    "tests/test_field_turns.py": (
        "U10 five_calls_of_which_three_fail_give_five_results_in_order",
        "U10 tools_that_ignore_cancellation_cannot_hold_the_turn",
    ),
    "tests/test_fault_matrix.py": (
        "R3 a_planted_fault_is_told_by_transition_place_cause_and_owner",
        "R3 a_session_that_is_opened_again_says_what_ended_its_epoch",
        "W4 a_planted_fault_is_told_by_transition_place_cause_and_owner",
        "W5 a_planted_fault_is_told_by_transition_place_cause_and_owner",
    ),
    "tests/test_reference_lists.py": (
        "R2 every_injector_arrives_as_one_message_with_exactly_its_text",
        "W52 every_tool_that_is_offered_does_what_it_says",
    ),
    "host/tests/test_providers_bytes.py": ("R1 converting_a_longer_history_only_appends",),
    "tests/test_prefix_properties.py": (
        "R1 under_enforce_one_epoch_lasts_whatever_plugins_do_and_however_runs_end",
    ),
    "tests/test_order_bundles.py": (
        "R4 install_order_hash_seed_and_locale_do_not_reach_the_order_or_the_tools",
    ),
}
REQUIRED = [
    *(f"U{n}" for n in range(1, 11)),
    *(f"R{n}" for n in range(1, 5)),
    *(f"W{n}" for n in (*range(1, 12), 51, 52, 53)),
]


@pytest.mark.parametrize("file", TESTS)
def test_the_tests_of_a_file_are_there(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    names = [f"test_{line.partition(' ')[2]}" for line in TESTS[file]]
    assert [name for name in names if name not in found] == []


def test_nothing_of_the_lists_is_left_out() -> None:
    there = {line.partition(" ")[0] for lines in TESTS.values() for line in lines}
    assert [item for item in REQUIRED if item not in there] == []


@pytest.mark.parametrize(
    "custom_type", ["loop-state", "memory", "milestones", "sandbox", "resume-context"]
)
async def test_every_injector_arrives_as_one_message_with_exactly_its_text(
    tmp_path: Path, custom_type: str
) -> None:
    """R2: what a plugin appends is one user message at the tail; what stands before it stays."""
    import json

    from unipi.sim import Say
    from unipi.testing import lab, prefix_breaks

    text = f"State of {custom_type}: café, 3 of 5."
    async with lab(tmp_path, [Say("a"), Say("b")]) as it:
        await it.agent.prompt("first")
        assert await it.agent.contexts.of("injector").append_message(custom_type, text)
        await it.agent.prompt("second")
    before, after = (json.loads(request.body) for request in it.requests)
    assert prefix_breaks(it.requests) == []
    added = after["messages"][len(before["messages"]) :]
    said = [message for message in added if message["role"] == "user"]
    blocks = (
        [b["text"] for m in said for b in m["content"]]
        if isinstance(said[0]["content"], list)
        else [m["content"] for m in said]
    )
    assert blocks.count(text) == 1
    assert {k: v for k, v in before.items() if k != "messages"} == {
        k: v for k, v in after.items() if k != "messages"
    }


async def test_every_tool_that_is_offered_does_what_it_says(tmp_path: Path) -> None:
    """W52: no tool costs tokens in each request and then says that it cannot."""
    from unipi.sim import Answer, Call, Say
    from unipi.testing import lab
    from unipi_hookspecs import ToolResultMessage

    (tmp_path / "a.txt").write_text("one\ntwo\n")
    calls = {
        "read": {"path": "a.txt"},
        "grep": {"pattern": "two"},
        "find": {"pattern": "*.txt"},
        "ls": {},
        "bash": {"command": "echo three"},
        "write": {"path": "b.txt", "content": "four"},
        "edit": {"path": "a.txt", "oldText": "one", "newText": "five"},
    }
    script = [*(Answer([Call(name, given)]) for name, given in calls.items()), Say("done")]
    async with lab(tmp_path, script) as it:
        assert sorted(it.agent.toolbox.visible or calls) == sorted(calls)
        await it.agent.prompt("do all")
        results = [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]
    assert [m.tool_name for m in results] == list(calls)
    assert [m.tool_name for m in results if m.is_error] == []
    said = " ".join(m.content[0].text for m in results)
    assert "two" in said
    assert "three" in said
    assert (tmp_path / "b.txt").read_text() == "four"
    assert (tmp_path / "a.txt").read_text() == "five\ntwo\n"
