"""Bounded output (design §4.5; field reports F46, F48, F49)."""

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from unipi.tools.bound import VISIBLE_LIMIT, Artifacts, bound_output

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
KEY = b"a session's secret"


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "artifacts", KEY)


def parts(text):
    """Head, omitted bytes, tail and note of a cut text."""
    found = re.fullmatch(
        r"(.*)\n\[\.\.\. (\d+) bytes cut \.\.\.\]\n(.*?)(?:\n(\[[^\n]*\]))?", text, re.DOTALL
    )
    assert found, text[-500:]
    return found[1], int(found[2]), found[3], found[4] or ""


def test_output_within_the_limit_is_whole_and_nothing_is_kept(artifacts):
    text = "✓" * (VISIBLE_LIMIT // 3)
    bounded = bound_output(text, label="x", artifacts=artifacts)
    assert (bounded.text, bounded.truncated, bounded.artifact) == (text, False, None)
    assert bounded.total_bytes == len(text) * 3
    assert not artifacts.dir.exists()


def test_five_megabytes_leave_head_tail_and_a_way_to_the_rest(artifacts):
    raw = "".join(f"line {i}\n" for i in range(450_000))
    bounded = bound_output(raw, label="docs_search", artifacts=artifacts)
    assert len(bounded.text.encode()) <= VISIBLE_LIMIT
    assert Path(bounded.artifact).read_text() == raw
    head, omitted, tail, note = parts(bounded.text)
    assert raw.startswith(head)
    assert raw.endswith(tail)
    assert omitted == len(raw) - len(head) - len(tail)
    assert f"docs_search: {len(raw)} bytes in 450000 lines" in note
    assert bounded.artifact in note
    first_cut = int(re.search(r"offset=(\d+)", note)[1])
    assert raw.split("\n")[first_cut - 1].startswith(head.split("\n")[-1])


def test_exactly_16_mib_is_kept_and_one_byte_more_is_not(artifacts):
    raw = b"x" * (16 * 1024 * 1024)
    assert bound_output(raw, label="x", artifacts=artifacts).artifact is not None
    over = bound_output(raw + b"y", label="x", artifacts=artifacts)
    assert over.artifact is None
    assert over.truncated
    assert over.total_bytes == len(raw) + 1
    assert "not kept: it is over 16 MiB" in over.text
    assert len(over.text.encode()) <= VISIBLE_LIMIT


def test_eight_results_of_60_kb_fit_as_they_are(artifacts):
    for i in range(8):
        assert not bound_output(str(i) * 60_000, label="x", artifacts=artifacts).truncated


def test_three_parts_of_40_kb_are_bounded_together(artifacts):
    bounded = bound_output("x" * 120_000, label="x", artifacts=artifacts)
    assert len(bounded.text.encode()) <= VISIBLE_LIMIT


def test_the_same_output_reads_the_same(artifacts):
    first = bound_output("y" * 70_000, label="x", artifacts=artifacts)
    assert bound_output("y" * 70_000, label="x", artifacts=artifacts) == first
    assert len(list(artifacts.dir.iterdir())) == 1


def test_without_a_folder_the_note_says_that_nothing_was_kept():
    bounded = bound_output("z" * 70_000, label="x", artifacts=None)
    assert bounded.artifact is None
    assert "not kept: there is no folder for it" in bounded.text


def test_a_label_from_outside_stays_on_one_line_and_short():
    bounded = bound_output("z" * 70_000, label="a\nb\x1b[0m" + "c" * 999, artifacts=None)
    note = bounded.text.rsplit("\n", 1)[1]
    assert note.startswith("[a b [0mccc")
    assert len(note) < 250


def test_a_euro_sign_at_the_last_byte_is_left_out_whole():
    text = "a" * 65_535 + "€"
    bounded = bound_output(text, label="x", artifacts=None)
    assert len(bounded.text.encode()) <= VISIBLE_LIMIT
    assert "\ufffd" not in bounded.text


@pytest.mark.parametrize("unit", [FAMILY, "e\u0301\u0323", "\U0001f1e9\U0001f1ea", "👍🏽", "각"])
@pytest.mark.parametrize("shift", range(13))
def test_no_cut_inside_a_grapheme_cluster(unit, shift):
    unit = unicodedata.normalize("NFD", unit)
    text = "a" * shift + unit * 400
    head, omitted, tail, _ = parts(bound_output(text, label="x", artifacts=None, limit=900).text)
    assert (head[shift:], tail) == (
        unit * (len(head[shift:]) // len(unit)),
        unit * (len(tail) // len(unit)),
    )
    assert omitted == len(text.encode()) - len(head.encode()) - len(tail.encode())


@pytest.mark.parametrize("unit", [r"\u00e9", r"\"", r"\\", r"\ud83d\ude00", r"\n"])
@pytest.mark.parametrize("shift", range(12))
def test_no_cut_inside_a_json_escape(unit, shift):
    text = "b" * shift + unit * 2_500
    head, _, tail, _ = parts(bound_output(text, label="x", artifacts=None, limit=900).text)
    for piece in (head, tail):
        json.loads(f'"{piece}"')
    assert len(head[shift:]) % len(unit) == len(tail) % len(unit) == 0


def test_a_line_of_200_kb_without_newline_is_cut(artifacts):
    bounded = bound_output("x" * 200_000, label="x", artifacts=artifacts)
    head, omitted, tail, note = parts(bounded.text)
    assert len(head) + omitted + len(tail) == 200_000
    assert "in 1 lines" in note
    assert "offset=1," in note


def test_a_cluster_without_end_is_cut_at_a_character():
    text = "a" + "\u0301" * 60_000
    bounded = bound_output(text, label="x", artifacts=None)
    assert len(bounded.text.encode()) <= VISIBLE_LIMIT
    assert "\ufffd" not in bounded.text


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 10, 40, 100, 400])
@pytest.mark.parametrize("text", ["abcdef" * 200, "€" * 300, FAMILY * 40, r"\u00e9" * 100])
def test_small_limits_hold(limit, text):
    bounded = bound_output(text, label="x", artifacts=None, limit=limit)
    assert len(bounded.text.encode()) <= limit
    assert bounded.truncated
    assert "\ufffd" not in bounded.text


def test_a_limit_above_the_ceiling_does_not_lift_it():
    bounded = bound_output("x" * 100_000, label="x", artifacts=None, limit=1_000_000)
    assert len(bounded.text) <= VISIBLE_LIMIT


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xed\xa0\x80b", "a\ufffdb"),
        (b"a\xffb", "a\ufffdb"),
        (b"a\x00b", "a\x00b"),
        ("a\udfffb", "a\ufffdb"),
        ("a\ud83d\ude00b", "a\U0001f600b"),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_each_broken_unit_becomes_one_replacement_character(raw, text):
    assert bound_output(raw, label="x", artifacts=None).text == text


def test_the_artifact_has_the_bytes_as_they_were(artifacts):
    raw = b"\xff\x00\xed\xa0\x80" * 20_000
    bounded = bound_output(raw, label="x", artifacts=artifacts)
    assert Path(bounded.artifact).read_bytes() == raw
    assert "(100000 as received)" in bounded.text
    smuggled = (b"\xff" * 70_000).decode("utf-8", "surrogateescape")
    bounded = bound_output(smuggled, label="x", artifacts=artifacts)
    assert Path(bounded.artifact).read_bytes() == b"\xff" * 70_000


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(
        st.one_of(
            st.characters(codec="utf-8"),
            st.sampled_from(["\\", "u", "0", "\n", "\u200d", "\u0301"]),
        ),
        max_size=60,
    ),
    times=st.integers(1, 40),
    limit=st.integers(0, 1_500),
)
def test_any_text_is_bounded_valid_and_exactly_accounted_for(text, times, limit):
    raw = text * times
    bounded = bound_output(raw, label="any", artifacts=None, limit=limit)
    shown = bounded.text.encode("utf-8", "strict")
    assert len(shown) <= limit
    assert bounded.truncated == (len(raw.encode()) > limit)
    assert bounded.text.count("\ufffd") <= raw.count("\ufffd")
    if bounded.text.endswith("was not kept: there is no folder for it.]"):
        first, last = map(
            int, re.findall(r"first (\d+) and the last (\d+) bytes", shown.decode())[-1]
        )
        assert shown.startswith(raw.encode()[:first])
        assert f"[... {len(raw.encode()) - first - last} bytes cut ...]" in bounded.text
        assert raw.encode()[len(raw.encode()) - last :] in shown


@given(raw=st.text(st.characters(), max_size=40) | st.binary(max_size=40), limit=st.integers(0, 60))
def test_whatever_comes_in_strict_utf_8_goes_out(raw, limit):
    bounded = bound_output(raw, label="any", artifacts=None, limit=limit)
    assert len(bounded.text.encode("utf-8", "strict")) <= limit
