"""Canonical JSON for what we author, verbatim text for what a provider authored."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from unipi.prefix.canonical import canonical, compact, repair, squeeze, string, utf16_key

LONE, HIGH, LOW = "\udc00", "\ud83d", "\ude00"
anything = st.text(st.characters(exclude_categories=()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def test_keys_stand_in_utf16_order_at_every_depth() -> None:
    assert canonical({"｡": 1, "😀": {"b": 1, "a": 2}}) == '{"😀":{"a":2,"b":1},"｡":1}'.encode()


def test_utf16_order_is_that_of_code_units_and_takes_lone_surrogates() -> None:
    names = ["｡", "😀", "a", LONE, ""]
    assert sorted(names, key=utf16_key) == ["", "a", "😀", LONE, "｡"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_cannot_carry_become_null(value: float) -> None:
    assert canonical([value]) == b"[null]"
    assert canonical([value, 2**80]) == b"[null,%d]" % 2**80


def test_an_object_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical({"a": object()})


def test_integers_of_any_length_are_kept() -> None:
    assert canonical({"n": 2**80, "é": "é"}) == b'{"n":%d,"\xc3\xa9":"\xc3\xa9"}' % 2**80
    assert compact([2**80]) == b"[%d]" % 2**80


@given(values)
def test_equal_values_have_equal_bytes_whatever_the_order_of_their_keys(value) -> None:
    def turned(part):
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(item) for item in part] if isinstance(part, list) else part

    def ambiguous(part) -> bool:  # two keys that are one after the repair
        if isinstance(part, dict):
            keys = {repair(key) for key in part}
            return len(keys) < len(part) or any(map(ambiguous, part.values()))
        return isinstance(part, list) and any(map(ambiguous, part))

    if not ambiguous(value):
        assert canonical(turned(value)) == canonical(value)


@given(values)
def test_canonical_text_is_valid_utf8_json_without_a_lone_surrogate(value) -> None:
    text = canonical(value).decode()
    assert json.loads(text, parse_constant=pytest.fail) is not Ellipsis
    assert repair(text) is text


@given(anything)
def test_a_repair_leaves_good_text_alone_and_needs_no_second_one(text: str) -> None:
    repaired = repair(text)
    repaired.encode()
    assert repair(repaired) == repaired
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in repaired or len(repaired) < len(text)
    else:
        assert repaired is text


def test_two_halves_that_stand_together_are_the_character_that_was_split() -> None:
    assert repair(f"a{HIGH}{LOW}") == "a😀"
    assert repair(f"{LOW}{HIGH}") == "\ufffd\ufffd"


@given(anything)
def test_a_string_reads_back_as_its_repaired_text(text: str) -> None:
    assert json.loads(string(text)) == repair(text)


def test_compact_keeps_the_order_of_keys() -> None:
    assert compact({"b": 1, "a": [" "]}) == b'{"b":1,"a":[" "]}'


def test_compact_repairs_what_utf8_cannot_carry() -> None:
    assert compact({"a": LONE}) == '{"a":"\ufffd"}'.encode()


def test_squeezing_takes_space_out_between_tokens_and_nothing_else() -> None:
    text = '{ "a b" :\t[ 1.0 ,\r\n 2E+1, "\\u0041 \\" x" ] , "a b": -0 }'
    assert squeeze(text) == '{"a b":[1.0,2E+1,"\\u0041 \\" x"],"a b":-0}'


@given(values, st.integers(0, 3))
def test_squeezed_json_means_the_same_and_is_squeezed_once(value, indent: int) -> None:
    text = json.dumps(value, indent=indent)
    assert json.loads(squeeze(text)) == value
    assert squeeze(squeeze(text)) == squeeze(text)
