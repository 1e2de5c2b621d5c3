"""Server-sent events: any line end, any cut."""

import itertools

import pytest
from hypothesis import given, strategies as st

from unipi.providers import SseParser
from unipi.providers.sse import MAX_PENDING

STREAM = (
    "event: delta\ndata: 那👩‍💻\n\n: keep-alive\n\ndata:no space\r\n\r\n"
    "event: two\r\ndata: one\r\ndata:  indented\r\nid: 7\r\n\r\ndata: old\r\revent: none\n\n\n"
    "data\n\nretry: 5\ndata: {}\n\n"
).encode()
EVENTS = [
    ("delta", "那👩‍💻".encode()),
    ("", b"no space"),
    ("two", b"one\n indented"),
    ("", b"old"),
    ("", b""),
    ("", b"{}"),
]


def parse(*chunks):
    parser = SseParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + parser.finish()


def test_events_are_read_whatever_the_line_end():
    assert parse(STREAM) == EVENTS


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(at):
    assert parse(STREAM[:at], STREAM[at:]) == EVENTS


def test_a_stream_that_comes_byte_by_byte_reads_the_same():
    assert parse(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == EVENTS


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_given_as_soon_as_its_empty_line_is_there(end):
    assert SseParser().feed(b"data: x" + end + end) == [("", b"x")]


@pytest.mark.parametrize("at", range(4))
def test_a_byte_order_mark_at_the_start_is_not_content(at):
    stream = b"\xef\xbb\xbfdata: x\n\n"
    assert parse(stream[:at], stream[at:]) == [("", b"x")]


def test_a_byte_order_mark_later_on_is_content():
    assert parse(b"data: \xef\xbb\xbfx\n\n") == [("", b"\xef\xbb\xbfx")]


def test_an_event_without_its_empty_line_is_given_at_the_end():
    assert parse(b"data: [DONE]") == [("", b"[DONE]")]


def test_comments_and_unknown_fields_are_ignored():
    assert parse(b": ping\n\nfoo: bar\n\n:\n\n") == []


def test_an_event_that_never_ends_is_refused():
    parser = SseParser()
    piece = b"x" * (MAX_PENDING // 8)
    with pytest.raises(ValueError, match="exceeds"):
        for _ in range(9):
            parser.feed(piece)


@given(
    st.lists(st.tuples(st.text("ab é那", min_size=1), st.sampled_from(["\n", "\r\n", "\r"]))),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_any_cuts_of_any_mixture_of_line_ends_read_the_same(events, cuts):
    stream = "".join(f"data: {text}{end}{end}" for text, end in events).encode()
    places = sorted({0, len(stream), *(c for c in cuts if c <= len(stream))})
    chunks = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert parse(*chunks) == [("", text.encode()) for text, _ in events]
