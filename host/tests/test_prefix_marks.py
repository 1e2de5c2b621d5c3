"""Cache markers: kept apart from the bytes, few, and looked for at a cost that does not grow."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Lineage
from unipi.prefix.marks import Marker, Marks, bridge, extended_by
from unipi.prefix.wire import HeadSpec
from unipi.providers import api_for
from unipi_hookspecs import Model

MARKER = Marker(b',"cache_control":{"type":"ephemeral"}', slots=2, look_back=20)
BLOCK = b'{"type":"text","text":"%d"}'


def test_the_oldest_goes_for_a_new_one_and_a_plugin_s_before_the_host_s() -> None:
    marks = Marks(MARKER)
    assert marks.add(10) is None
    assert marks.add(20, foreign=True) is None
    assert marks.add(30) == 20
    assert marks.add(40) == 10
    assert (marks.places, marks.foreign) == ([30, 40], set())


def test_a_plugin_s_marker_finds_no_room_where_the_host_s_stand() -> None:
    marks = Marks(MARKER, [10, 20])
    assert marks.add(30, foreign=True) is None
    assert marks.places == [10, 20]


@given(st.sets(st.integers(1, 99), max_size=2))
def test_offsets_count_the_markers_before_them(places: set[int]) -> None:
    raw = bytearray(b"x" * 100)
    marks = Marks(MARKER, sorted(places))
    body = marks.write(raw, b"]}")
    assert body.replace(MARKER.text, b"") == bytes(raw) + b"]}"
    for end, moved in zip(range(1, 101), marks.ends(range(1, 101)), strict=True):
        assert body[:moved].replace(MARKER.text, b"") == raw[:end]
    raw += b"y"  # nothing holds on to the bytes


@pytest.mark.parametrize(
    ("blocks", "behind", "chosen"),
    [
        (19, 0, None),  # the end itself reaches the old one
        (20, 0, 18),
        (60, 0, 18),
        (2, 18, 0),
        (2, 19, None),  # nothing new lies within reach
        (1, 18, None),
    ],
)
def test_the_last_new_block_within_reach_of_the_old_end_is_chosen(blocks, behind, chosen) -> None:
    assert bridge(list(range(blocks)), behind, 20) == chosen


def test_a_block_that_takes_no_marker_is_passed_over() -> None:
    assert bridge([*range(17), -1, -1, *range(9)], 0, 20) == 16


def request(*texts: str, **members: object) -> bytes:
    messages = [{"role": "user", "content": [{"type": "text", "text": t}]} for t in texts]
    body = {"model": "m", **members, "messages": messages}
    return json.dumps(body, separators=(",", ":")).encode()


def test_a_body_is_extended_whatever_markers_come_and_go_in_its_messages() -> None:
    before = request("a", "b")
    after = request("a", "b", "c")
    marked = after.replace(b'"text":"a"}', b'"text":"a","cache_control":{"type":"ephemeral"}}')
    assert extended_by(before, after) == extended_by(before, marked) == after[len(before) - 2 :]
    assert extended_by(marked, request("a", "b", "c", "d")) is not None


def test_markers_of_the_head_and_words_that_look_like_one_are_compared() -> None:
    plain = request("a", system="s")
    moved = plain.replace(b'"system":"s"', b'"system":"s","cache_control":{"ttl":"1h"}')
    assert extended_by(plain, moved) is None
    said = ',"cache_control":{"type":"ephemeral"}'
    assert extended_by(request(said), request("")) is None


def test_requests_that_are_never_answered_are_not_looked_at_again_and_again(monkeypatch) -> None:
    """A provider that is down for an hour must not make each request dearer than the last."""
    api = api_for("anthropic-messages")
    looked: list[bytes] = []
    find = api.block_ends
    monkeypatch.setattr(
        type(api), "block_ends", lambda self, raw: (looked.append(raw), find(raw))[1]
    )
    spec = HeadSpec(Model("sim", "m", api.name, "http://127.0.0.1:1"), (), ())
    lineage = Lineage(api, b"secret")
    lineage.restart(spec, api.head(spec), Reason("first", "host"), [])
    for n in range(300):
        lineage.extend([b'{"role":"user","content":[%b]}' % (BLOCK % n)])
        if n == 20:
            first = len(looked)
    assert len(looked) == first
    lineage.answered(None)
    lineage.extend([b'{"role":"user","content":[%b]}' % b",".join(BLOCK % n for n in range(30))])
    assert lineage.prefix is not None
    assert len(lineage.prefix.marks.places) == 1
