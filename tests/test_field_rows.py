"""Which test asserts which row of the field reports, and that each of them is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

TESTS: dict[str, tuple[str, ...]] = {
    "tests/test_field_head.py": (
        "F01 a_clock_in_the_system_prompt_is_refused_and_its_plugin_named_once",
        "F01 under_record_a_clock_costs_a_boundary_a_run_owned_by_its_plugin",
        "F02 a_plugin_that_wakes_the_agent_gets_the_same_head_as_a_prompt",
        "F03 conditional_guidance_goes_to_the_tail_once_and_the_head_stands",
        "F03 conditional_guidance_under_record_is_three_boundaries_of_its_plugin",
        "F04 a_disabled_tool_is_refused_in_the_epoch_and_gone_from_prompt_and_list_after_it",
        "F15 tools_registered_late_wait_for_the_next_epoch_and_the_author_is_told",
        "F16 a_message_put_before_the_history_is_refused_and_its_plugin_named_once",
        "F16 under_record_each_appearance_and_disappearance_is_a_boundary",
        "F16 a_projection_of_new_messages_is_kept_for_the_epoch",
    ),
    "tests/test_field_context.py": (
        "F02 every_way_of_starting_a_run_builds_the_same_head",
        "F16 a_plugin_that_returns_what_it_got_costs_no_look_at_the_history",
        "F66 a_task_of_the_host_ends_with_its_session_and_says_nothing_in_the_next",
        "F66 a_task_of_the_plugins_own_is_refused_told_once_and_harms_nobody",
        "F66 the_context_still_works_while_the_session_says_goodbye",
        "F66 a_background_task_that_fails_is_named_and_the_session_goes_on",
    ),
    "tests/test_field_cache.py": (
        "F18 per_call_messages_are_refused_by_name_and_the_whole_prompt_is_read",
        "F19 a_plugin_s_markers_never_make_more_than_four_and_are_no_rewrite",
        "F19 a_marker_on_an_old_message_is_set_aside_without_a_boundary",
        "F20 a_turn_of_any_width_leaves_the_whole_prompt_before_it_readable",
        "F20 wide_turns_in_a_row_move_markers_and_nothing_else",
    ),
    "host/tests/test_resources.py": (
        "F05 a_resumed_session_keeps_its_head_and_hears_of_what_changed",
        "F05 reload_puts_the_change_into_the_head_as_one_boundary_of_the_user_s",
        "F05 a_fresh_head_on_resuming_has_the_change_and_says_it_once",
    ),
    "tests/test_field_resume.py": (
        "F06 the_head_is_the_same_whatever_folder_and_surface_goes_on",
        "F07 blocks_stay_blocks_and_keep_their_ends_after_reopening_and_in_a_fork",
    ),
    "tests/test_field_compaction.py": (
        "F27 the_routing_key_goes_with_requests_that_extend_the_prefix_and_no_others_are_sent",
        "F28 two_compactions_in_a_row_leave_no_result_without_its_call",
        "F29 calls_that_were_never_run_are_closed_before_a_compaction_looks_at_them",
        "F31 a_disk_error_while_the_summary_is_written_gives_nothing_up",
        "F31 a_summary_that_the_user_cancels_leaves_everything_as_it_was",
        "F34 what_is_said_while_a_compaction_runs_arrives_once_and_behind_it",
    ),
    "host/tests/test_agent_compaction.py": (
        "F26 the_summary_is_asked_for_on_the_prefix_that_was_just_sent",
        "F30 what_cannot_shrink_is_tried_once_and_told_with_the_way_out",
        "F31 without_a_summary_the_history_stays_and_the_next_turn_extends_it",
        "F32 without_a_summary_the_history_stays_and_the_next_turn_extends_it",
        "F32 with_nothing_to_cut_off_no_model_is_asked",
    ),
    "extensions/compactor/tests/test_compactor_field.py": (
        "F30 f30_what_cannot_shrink_is_tried_once_and_told_once",
        "F32 f32_nothing_to_sum_up_is_skipped_and_leaves_no_trace",
        "F33 f33_task_corrections_state_and_skill_survive_and_the_head_stays",
    ),
    "host/tests/test_session_listing.py": (
        "F38 helpers_and_side_threads_do_not_take_the_place_of_the_users_session",
    ),
    "tests/test_field_prune.py": (
        "F17 clearing_old_results_is_refused_and_the_plugin_named_once",
        "F17 under_record_the_report_sets_what_it_cost_beside_what_it_saved",
        "F17 a_plugin_that_asks_may_do_it_once_and_what_it_did_stays",
        "F17 when_the_cache_is_cold_it_costs_nothing",
    ),
    "tests/test_field_thinking.py": (
        "F22 thinking_comes_back_whole_after_failures_cancellation_and_a_steer",
        "F23 thinking_that_a_plugin_changes_is_refused_at_the_door_by_its_name",
        "F51 a_picture_that_would_be_refused_never_enters_the_history",
        "F51 a_model_without_vision_gets_a_text_that_stays_the_same",
        "F51 two_megabytes_of_base64_in_a_text_are_cut_and_kept_beside",
    ),
    "tests/test_field_turns.py": (
        "F39 an_interrupted_tool_leaves_one_result_for_every_call_and_the_session_goes_on",
        "F39 an_interrupt_while_arguments_stream_stores_no_half_call",
        "F39 a_signal_ends_the_run_with_a_valid_session_that_goes_on",
        "F40 tools_that_ignore_cancellation_cannot_hold_the_turn",
        "F41 five_calls_of_which_three_fail_give_five_results_in_order",
        "F42 malformed_arguments_are_quoted_back_and_replayed_as_valid_json",
        "F43 arguments_that_are_no_object_are_named_by_their_type",
        "F43 empty_arguments_are_an_empty_object_and_validated_as_one",
        "F55 a_stream_that_dies_half_way_is_asked_again_with_the_same_bytes_and_leaves_no_trace",
        "F55 a_retry_waits_as_long_as_the_server_says",
    ),
    "tests/test_field_providers.py": (
        "F24 tokens_written_to_the_cache_are_charged_once",
        "F25 answers_without_cache_figures_do_not_count_as_misses",
        "F44 call_ids_of_another_provider_go_out_in_a_form_each_accepts",
        "F45 signed_thinking_of_another_vendor_is_left_out_and_comes_back_with_its_maker",
    ),
    "tests/test_field_whole.py": (
        "F21 argument_text_goes_back_as_it_came_and_the_tool_sees_its_value",
        "F36 a_full_disk_is_told_at_once_pauses_the_turn_and_is_made_good",
        "F36 a_disk_that_stays_full_ends_the_run_in_words_and_offers_no_resume",
        "F37 of_two_that_go_on_at_once_one_writes_and_after_its_kill_the_next_does",
        "F39 an_interrupt_while_results_are_written_leaves_one_for_every_call",
        "F46 broken_text_from_anywhere_is_repaired_once_and_reads_the_same_after_reopening",
        "F49 five_megabytes_are_cut_kept_once_and_can_be_read_on",
        "F49 seventeen_megabytes_are_cut_and_said_not_to_be_kept",
        "F49 eight_results_of_60_kb_in_one_turn_are_whole",
        "F49 three_parts_of_40_kb_are_bounded_together",
    ),
    "tests/test_field_policy.py": (
        "F62 a_plugin_that_raises_costs_only_itself_and_blocks_what_it_should_have_judged",
        "F63 a_hook_that_exits_recurses_or_forges_a_cancellation_ends_nothing",
        "F63 a_true_interrupt_passes_through_a_hook_that_waits",
        "F64 a_policy_that_breaks_blocks_the_call_and_the_result_says_how",
        "F64 a_policy_without_an_opinion_lets_the_call_run",
        "F64 a_required_policy_that_is_not_loaded_blocks_every_call_with_the_way_out",
        "F65 slow_hung_and_busy_hooks_are_named_with_their_time_and_hold_no_turn",
        "F65 a_run_ends_with_what_each_plugin_has_cost",
    ),
    "tests/test_field_load.py": ("F56 a_session_runs_beside_broken_plugins_and_names_each_once",),
    "host/tests/test_agent_saving.py": (
        "F36 every_entry_is_on_disk_when_a_request_goes_out",
        "F37 a_disk_that_stays_full_ends_each_run_in_words_and_the_next_tries_again",
    ),
    "host/tests/test_agent_output.py": (
        "F46 broken_units_count_with_what_they_become",
        "F49 details_keep_their_shape_and_lose_only_long_texts",
    ),
    "host/tests/test_session_store.py": (
        "F35 a_torn_last_line_is_set_aside_and_the_next_entry_has_a_line_of_its_own",
        "F35 a_whole_last_object_without_newline_is_kept_as_an_entry",
        "F35 an_empty_file_becomes_a_usable_session",
        "F35 a_file_with_a_header_alone_is_a_usable_session",
        "F36 on_a_full_disk_entries_stay_pending_and_are_written_when_there_is_room",
    ),
    "host/tests/test_session_lock.py": (
        "F37 a_second_writer_is_told_who_holds_the_session_and_the_two_ways_out",
        "F37 a_reader_needs_no_lock_and_can_fork",
        "F37 the_kill_of_the_holder_lets_the_next_one_in_and_what_it_wrote_is_there",
        "F37 of_two_that_start_at_once_one_writes_and_the_other_is_told",
    ),
    "host/tests/test_providers_tool_calls.py": (
        "F21 the_tool_sees_the_parsed_value",
        "F21 where_the_api_carries_a_string_it_is_the_very_text",
        "F21 where_the_api_carries_an_object_only_the_insignificant_space_goes",
        "F42 malformed_text_is_kept_for_people_quoted_for_the_model_and_replayed_as_nothing",
        "F42 the_quoted_place_is_bounded",
        "F43 no_text_counts_as_an_empty_object",
        "F43 json_that_is_no_object_is_a_problem_that_names_the_type",
    ),
    "host/tests/test_providers_send.py": ("F42 malformed_arguments_do_not_poison_the_history",),
    "host/tests/test_providers_sse.py": (
        "F47 a_cut_at_any_byte_changes_nothing",
        "F47 a_stream_that_comes_byte_by_byte_reads_the_same",
    ),
    "host/tests/test_providers_decode.py": (
        "F47 a_stream_cut_at_any_byte_gives_the_same_answer",
        "F47 a_character_whose_halves_are_escapes_in_two_events_is_whole",
    ),
    "host/tests/test_bound_output.py": (
        "F46 each_broken_unit_becomes_one_replacement_character",
        "F46 the_artifact_has_the_bytes_as_they_were",
        "F48 a_euro_sign_at_the_last_byte_is_left_out_whole",
        "F48 no_cut_inside_a_grapheme_cluster",
        "F48 no_cut_inside_a_json_escape",
        "F48 a_line_of_200_kb_without_newline_is_cut",
        "F48 small_limits_hold",
        "F48 any_text_is_bounded_valid_and_exactly_accounted_for",
    ),
    "host/tests/test_bound_artifacts.py": (
        "F52 folder_and_file_are_private_under_an_open_umask",
        "F52 no_moment_of_a_file_is_wider_than_0600",
        "F52 a_folder_of_ours_that_is_too_open_is_closed",
        "F52 a_symbolic_link_as_folder_is_refused",
        "F52 a_folder_of_another_user_is_refused",
        "F52 something_put_at_a_guessed_name_is_replaced_and_not_followed",
        "F52 two_processes_at_once_agree",
        "F52 cleaning_removes_the_old_then_the_oldest_and_nothing_foreign",
    ),
    "host/tests/test_process_run.py": (
        "F40 cancellation_ends_a_child_that_ignores_sigterm",
        "F53 a_full_stderr_before_any_stdout_does_not_block",
        "F53 a_background_child_does_not_hold_the_command",
        "F53 a_time_out_ends_the_whole_group_and_keeps_the_output",
        "F53 cancellation_ends_the_whole_group",
    ),
    "host/tests/test_tools_bash.py": (
        "F46 broken_bytes_are_repaired_and_kept_raw_in_the_artifact",
        "F53 what_goes_on_in_the_background_is_said",
    ),
    "host/tests/test_tools_search.py": (
        "F46 broken_bytes_in_names_and_lines_are_shown_as_replacement_characters",
        "F54 ten_searches_of_300_files_say_the_same_in_every_locale",
        "F54 a_folder_is_listed_in_code_unit_order",
    ),
    "host/tests/test_loader_installed.py": (
        "F56 a_broken_plugin_is_named_once_with_the_way_out_and_the_others_load",
        "F56 of_a_plugin_with_one_bad_hook_no_hook_is_registered",
        "F56 strict_fails_with_the_same_text",
        "F57 stale_metadata_names_the_distribution_and_where_it_lies",
        "F57 a_half_removed_wheel_is_named_by_its_folder",
        "F57 metadata_that_is_no_text_is_named_and_left_out",
        "F58 one_distribution_seen_through_a_link_registers_once_in_silence",
        "F58 a_regular_and_an_editable_install_of_one_version_register_once",
        "F58 two_versions_are_one_message_with_both_places_and_the_first_on_the_path_wins",
        "F58 a_plugin_in_a_zip_on_the_path_loads",
        "F59 a_hanging_import_is_given_up_at_the_limit_and_others_still_import",
        "F59 a_slow_plugin_is_named_with_its_time_and_is_active",
    ),
    "host/tests/test_loader_cli.py": (
        "F56 version_and_help_do_not_care",
        "F56 list_tells_each_problem_once_on_standard_error",
        "F56 uninstall_prints_the_command_for_a_broken_plugin_without_importing_it",
        "F56 strict_fails_with_the_same_messages_and_no_list",
        "F59 version_and_help_do_not_care",
        "F59 order_explains_and_gives_load_times",
        "F60 order_explains_and_gives_load_times",
    ),
    "host/tests/test_loader_files.py": (
        "F60 order_is_that_of_utf16_code_units_however_the_files_were_created",
    ),
    "host/tests/test_loader_order.py": (
        "F60 before_after_and_requires_hold_and_the_rest_goes_by_name",
        "F60 a_missing_after_target_is_one_message_and_costs_nothing_else",
        "F60 a_circle_is_one_message_naming_all_and_its_members_go_by_name",
        "F60 explain_says_of_each_plugin_why_it_stands_where_it_stands",
    ),
    "tests/test_order_bundles.py": (
        "F60 install_order_hash_seed_and_locale_do_not_reach_the_order_or_the_tools",
    ),
    "host/tests/test_loader_tools.py": (
        "F61 a_builtin_tool_is_kept_unless_the_setting_says_otherwise",
        "F61 two_third_parties_with_one_tool_are_one_message_and_the_first_in_order_wins",
        "F61 the_list_does_not_depend_on_the_order_of_offers_without_a_conflict",
    ),
    "host/tests/test_hooks_isolation.py": (
        "F62 a_chain_goes_on_with_the_value_it_had",
        "F62 a_failure_is_counted_each_time_and_reported_once_a_kind",
        "F63 a_failing_plugin_is_contained_and_named",
        "F63 a_keyboard_interrupt_passes",
        "F63 a_cancellation_that_nobody_asked_for_is_the_plugins_error",
        "F63 the_hosts_cancellation_passes_through",
        "F64 a_policy_that_sleeps_past_its_budget_blocks_the_call",
    ),
    "host/tests/test_hooks_time.py": (
        "F65 a_hook_that_never_returns_is_abandoned_and_the_next_is_called",
        "F65 a_slow_hook_is_named_after_its_first_breach_and_counted_each_time",
        "F65 a_synchronous_hook_that_holds_the_event_loop_is_named_with_its_time",
    ),
}
"""By file: the row and the test, without its `test_`."""

REQUIRED = frozenset(
    f"F{n:02}"
    for n in (
        *range(1, 8),
        *range(15, 24),
        *range(26, 39),
        *range(39, 44),
        *range(46, 50),
    )
) | {f"F{n}" for n in (24, 25, 44, 45, *range(51, 67))}


@pytest.mark.parametrize("file", TESTS)
def test_the_tests_of_a_file_are_there(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for row_and_name in TESTS[file]:
        name = f"test_{row_and_name.partition(' ')[2]}"
        assert name in found, f"{file} has no {name}"


def test_every_row_has_its_tests() -> None:
    rows = {line.partition(" ")[0] for lines in TESTS.values() for line in lines}
    assert sorted(REQUIRED - rows) == []


def test_the_rows_are_those_of_the_field_reports() -> None:
    reports = ROOT.parent / "shared" / "reference" / "field-reports.md"
    if not reports.exists():
        pytest.skip("needs ../shared/reference/field-reports.md")
    text = reports.read_text(encoding="utf-8")
    assert [row for row in sorted(REQUIRED) if f"**{row}**" not in text] == []
