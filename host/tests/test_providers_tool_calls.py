"""Tool calls: the model's text kept, malformed text never run, ids that every provider takes."""

import re

import orjson
import pytest
from hypothesis import given, strategies as st

from unipi.providers.tool_calls import (
    arguments_object,
    arguments_text,
    read_arguments,
    wire_id,
)
from unipi_hookspecs import ToolCall

F21_TEXT = (
    '{"path":  "caf\\u00e9 café", "lines": [1.0, 1e3], "none": {},\n'
    ' "nested": {"k": 1, "k": 2}, "big": 12345678901234567890123}'
)


def call(text):
    arguments, source, problem = read_arguments(text)
    return ToolCall("id", "t", arguments, source, problem)


def test_arguments_in_compact_form_need_no_source_text():
    assert read_arguments('{"a":1,"é":"那"}') == ({"a": 1, "é": "那"}, None, None)


def test_the_tool_sees_the_parsed_value():
    arguments, _, problem = read_arguments(F21_TEXT)
    assert problem is None
    assert arguments == {
        "path": "café café",
        "lines": [1.0, 1000.0],
        "none": {},
        "nested": {"k": 2},
        "big": 12345678901234567890123,
    }


def test_where_the_api_carries_a_string_it_is_the_very_text():
    assert arguments_text(call(F21_TEXT)) == F21_TEXT


def test_where_the_api_carries_an_object_only_the_insignificant_space_goes():
    assert arguments_object(call(F21_TEXT)).decode() == (
        '{"path":"caf\\u00e9 café","lines":[1.0,1e3],"none":{},'
        '"nested":{"k":1,"k":2},"big":12345678901234567890123}'
    )


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_no_text_counts_as_an_empty_object(text):
    assert read_arguments(text) == ({}, None, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("null", "null"),
        ("[]", "a list"),
        ('"x"', "a string"),
        ("3", "a number"),
        ("3.5", "a number"),
        ("true", "a boolean"),
    ],
)
def test_json_that_is_no_object_is_a_problem_that_names_the_type(text, found):
    arguments, source, problem = read_arguments(text)
    assert (arguments, source) == ({}, text)
    assert problem is not None
    assert found in problem
    assert arguments_text(call(text)) == "{}"
    assert arguments_object(call(text)) == b"{}"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ('{"path": "cut in mid', "cut in mid"),
        ('{"text": "raw\n\ttab"}', "raw"),
        ('{"text": "\\U0001F600"}', "U0001F600"),
        ('{"a": 1,}', '{\\"a\\": 1,}'),
        ('{"a": NaN}', "NaN"),
        ("{'a': 1}", "{'a': 1}"),
    ],
)
def test_malformed_text_is_kept_for_people_quoted_for_the_model_and_replayed_as_nothing(text, near):
    arguments, source, problem = read_arguments(text)
    assert (arguments, source) == ({}, text)
    assert problem is not None
    assert near in problem
    assert "\n" not in problem
    assert arguments_text(call(text)) == "{}"
    assert arguments_object(call(text)) == b"{}"


def test_the_quoted_place_is_bounded():
    _, _, problem = read_arguments('{"a": "' + "x" * 10_000)
    assert problem is not None
    assert len(problem) < 200


def test_nesting_beyond_all_measure_is_a_problem_not_a_crash():
    _, _, problem = read_arguments('{"a":' * 5000 + "1" + "}" * 5000)
    assert problem is not None


@pytest.mark.parametrize(
    ("text", "value", "kept"),
    [
        ('{"a":"\\ud800"}', "\ufffd", '{"a":"\\ufffd"}'),
        ('{"a":"\\udfff\\ud83d\\ude00"}', "\ufffd😀", '{"a":"\\ufffd\\ud83d\\ude00"}'),
        ('{"a":"\\\\ud800"}', "\\ud800", None),
        ('{"a":"\\\\\\ud800"}', "\\\ufffd", '{"a":"\\\\\\ufffd"}'),
        ('{"a":"\\ud83d\\ude00"}', "😀", '{"a":"\\ud83d\\ude00"}'),
    ],
)
def test_an_escape_of_half_a_pair_is_repaired_once_at_receipt(text, value, kept):
    assert read_arguments(text) == ({"a": value}, kept, None)


@given(st.text(max_size=30))
def test_whatever_the_model_writes_what_is_replayed_is_a_json_object(text):
    made = call(text)
    assert isinstance(orjson.loads(arguments_text(made)), dict)
    assert isinstance(orjson.loads(arguments_object(made)), dict)


IDS = ["x" * 30 + "|" + "y" * 63, "Write:6", "", "a" * 64 + "1", "a" * 64 + "2", "é", "a b"]


@pytest.mark.parametrize("given_id", IDS)
def test_an_id_that_a_provider_would_refuse_is_replaced_by_one_it_takes(given_id):
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire_id(given_id))
    assert wire_id(given_id) == wire_id(given_id)


def test_different_ids_stay_different():
    assert len({wire_id(one) for one in IDS}) == len(IDS)


@pytest.mark.parametrize("good", ["toolu_01AbC-d", "a" * 64, "call_1"])
def test_a_valid_id_stays_as_it_is(good):
    assert wire_id(good) == good
