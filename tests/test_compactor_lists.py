"""Which test asserts what of the lists for compaction, resume context, trigger and recall.

W36 to W56 are the weaknesses of UniPi's compactor, each of which must be beaten; C1 to C9 its own
acceptance list (C10 is about running code, which is no part of ours; C11 is later than what was
studied); X, K, T and R are the checks for resume context, compaction, trigger and recall that were
derived from the specification.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN = "extensions/compactor/tests"

TESTS: dict[str, tuple[str, ...]] = {
    f"{OWN}/test_compactor_in_host.py": (
        "C1 the_setting_can_leave_summaries_to_the_model",
        "C3 the_resume_context_extends_the_new_epoch",
        "C4 the_resume_context_comes_once_and_not_again_after_a_reload",
        "C5 recall_finds_what_only_stood_before_the_compaction",
        "Xa a_compaction_that_was_cancelled_leaves_no_resume_context",
        "Xa the_resume_context_comes_once_and_not_again_after_a_reload",
        "Xc the_resume_context_is_bounded_and_of_this_session_alone",
        "Xc a_resume_context_keeps_its_bound_with_much_to_say",
        "Xd the_resume_context_is_bounded_and_of_this_session_alone",
        "Xe the_tool_that_the_texts_name_exists_and_the_call_that_they_advise_succeeds",
        "Xf a_resume_context_that_a_crash_swallowed_is_sent_with_the_next_prompt",
        "T the_trigger_compacts_before_the_next_request_and_aborts_nothing",
        "W36 the_resume_context_is_bounded_and_of_this_session_alone",
        "W37 the_resume_context_is_bounded_and_of_this_session_alone",
        "W38 the_tool_that_the_texts_name_exists_and_the_call_that_they_advise_succeeds",
        "W39 a_compaction_that_was_cancelled_leaves_no_resume_context",
        "W39 a_resume_context_that_a_crash_swallowed_is_sent_with_the_next_prompt",
        "W45 one_request_with_many_calls_keeps_the_newest_of_them_as_they_are",
        "W49 the_trigger_compacts_before_the_next_request_and_aborts_nothing",
        "W50 the_command_compacts_and_a_preset_stays_with_the_session",
        "W50 a_dry_run_shows_the_summary_and_the_price_and_changes_nothing",
        "W51 statistics_are_what_the_session_holds",
        "W55 the_tools_are_the_same_when_there_can_be_no_index",
    ),
    f"{OWN}/test_summary.py": (
        "C9 notes_reminders_thinking_and_hidden_commands_stay_out",
        "C9 presets_differ_and_a_setting_wins_over_one",
        "Ka twenty_processes_in_different_environments_write_the_same_bytes",
        "Kb every_setting_changes_the_summary",
        "Kc a_summary_takes_at_most_an_eighth_of_the_window",
        "Ke notes_reminders_thinking_and_hidden_commands_stay_out",
        "Kf three_compactions_in_a_row_lose_no_request_no_open_error_and_no_count",
        "W41 constraints_and_decisions_are_lines_and_not_whole_messages",
        "W42 constraints_and_decisions_are_lines_and_not_whole_messages",
        "W42 only_the_user_speaks_in_the_requests",
        "W42 what_was_asked_last_is_there_however_much_was_asked_before",
        "W43 only_what_git_says_it_committed_is_a_commit",
        "W43 files_are_those_of_calls_and_not_of_prose",
        "W44 an_error_that_still_stands_is_open_and_one_that_was_put_right_says_by_what",
        "W44 three_compactions_in_a_row_lose_no_request_no_open_error_and_no_count",
        "W47 every_setting_changes_the_summary",
        "W48 twenty_processes_in_different_environments_write_the_same_bytes",
    ),
    f"{OWN}/test_resume.py": (
        "C2 the_same_entries_give_the_same_text_with_no_time_and_no_folder_in_it",
        "Xb the_same_entries_give_the_same_text_with_no_time_and_no_folder_in_it",
        "W56 later_prompts_look_at_nothing",
        "W40 it_says_the_last_request_the_files_changed_last_and_what_is_still_broken",
    ),
    f"{OWN}/test_trigger.py": (
        "C7 it_fires_at_the_first_sample_above_and_not_below",
        "C7 a_size_that_nobody_knows_changes_nothing",
        "C7 the_first_sample_after_a_compaction_is_only_where_growth_counts_from",
        "C7 it_fires_again_after_the_context_has_been_below",
        "T it_is_off_unless_somebody_asks_for_it",
        "T the_cool_down_counts_from_the_end_of_the_compaction",
        "T a_crossing_during_the_cool_down_fires_when_that_ends",
        "W49 a_crossing_during_the_cool_down_fires_when_that_ends",
        "W49 the_cool_down_counts_from_the_end_of_the_compaction",
    ),
    f"{OWN}/test_recall.py": (
        "C5 calls_results_commands_and_summaries_are_found_and_a_result_by_its_command",
        "C6 a_page_has_ten_hits_and_never_more_than_fifty",
        "C6 an_expanded_hit_has_at_most_sixteen_kib_and_says_how_to_narrow",
        "Ra a_page_has_ten_hits_and_never_more_than_fifty",
        "Ra pages_go_on_without_a_repeat_and_hold_still_while_the_session_grows",
        "Rb an_expanded_hit_has_at_most_sixteen_kib_and_says_how_to_narrow",
        "Rb an_entry_that_fits_is_shown_whole",
        "Rc fifty_expanded_hits_stay_within_the_bound_of_an_answer",
        "Rd no_query_is_syntax",
        "Re a_word_that_is_said_often_weighs_more_than_once",
        "Rf ten_thousand_entries_are_searched_in_fifty_milliseconds",
        "W46 an_entry_is_read_on_by_its_id",
        "W52 a_word_that_is_said_often_weighs_more_than_once",
        "W52 fifty_expanded_hits_stay_within_the_bound_of_an_answer",
        "W52 no_query_is_syntax",
        "W52 a_file_that_was_rewritten_or_is_gone_is_no_longer_quoted",
        "W53 notes_reminders_thinking_hidden_commands_and_recalls_are_not_found",
        "W54 the_index_is_readable_by_its_owner_alone",
        "W54 an_index_that_is_a_link_is_not_followed",
    ),
    "host/tests/test_compaction_cut.py": (
        "C8 where_there_is_nothing_to_cut_off_the_reason_is_told",
        "C8 an_unknown_boundary_keeps_nothing_from_before_it",
        "Kc of_a_turn_over_twice_the_budget_the_beginning_is_cut_off_too",
        "W45 of_a_turn_over_twice_the_budget_the_beginning_is_cut_off_too",
        "W45 one_message_that_fills_the_context_goes_if_there_is_anything_behind_it",
    ),
    "host/tests/test_agent_compaction.py": (
        "Kd a_state_that_was_live_is_said_once_behind_the_summary",
        "Kg the_summary_is_asked_for_on_the_prefix_that_was_just_sent",
    ),
}
REQUIRED = [
    *(f"C{n}" for n in range(1, 10)),
    *(f"X{c}" for c in "abcdef"),
    *(f"K{c}" for c in "abcdefg"),
    "T",
    *(f"R{c}" for c in "abcdef"),
    *(f"W{n}" for n in range(36, 57)),
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
