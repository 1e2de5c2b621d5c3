"""The bytes of an epoch: they only grow, and a keyed digest runs along with them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from unipi.prefix.seal import Prefix
from unipi.prefix.window import Window
from unipi.prefix.wire import Head

SECRET = b"k" * 32
PLAIN = Head(b'{"model":"m","messages":[')
LEADING = Head(b'{"messages":[{"role":"system"}', leading=True)
CLOSED = Head(b'{"messages":[', close=b'],"stream":true}')
HEADS = [PLAIN, LEADING, CLOSED]
fragments = st.lists(st.integers(0, 999).map(lambda n: b'{"n":%d}' % n), max_size=6)


def filled(head: Head, *parts: bytes, secret: bytes = SECRET) -> Prefix:
    prefix = Prefix(head, secret)
    prefix.extend(parts)
    return prefix


@pytest.mark.parametrize("head", HEADS)
def test_a_body_is_the_head_the_messages_and_the_close(head: Head) -> None:
    sealed = filled(head, b'{"n":1}', b'{"n":2}').seal()
    assert json.loads(sealed.body)["messages"][-2:] == [{"n": 1}, {"n": 2}]
    assert sealed.body[: sealed.head_length] == head.open
    assert sealed.body[-sealed.tail_length :] == head.close


@pytest.mark.parametrize("head", HEADS)
@given(fragments, fragments)
def test_each_body_extends_the_one_before_up_to_its_close(head: Head, first, more) -> None:
    prefix = filled(head, *first)
    before = prefix.seal()
    prefix.extend(more)
    now = prefix.seal()
    assert now.body.startswith(before.body[: len(before.body) - before.tail_length])
    assert list(now.message_ends)[: len(before.message_ends)] == list(before.message_ends)


@pytest.mark.parametrize("head", HEADS)
@given(fragments)
def test_message_ends_and_messages_are_where_the_fragments_stand(head: Head, parts) -> None:
    prefix = filled(head, *parts)
    sealed = prefix.seal()
    assert [prefix.message(place) for place in range(len(prefix))] == parts
    for part, end in zip(parts, sealed.message_ends, strict=True):
        assert sealed.body[end - len(part) : end] == part


def test_a_sealed_request_stays_as_it_is_when_the_epoch_goes_on() -> None:
    prefix = filled(PLAIN, b"1")
    sealed = prefix.seal()
    body, ends, fingerprint = sealed.body, list(sealed.message_ends), sealed.fingerprint
    prefix.extend([b"2", b"3"])
    assert (sealed.body, list(sealed.message_ends), sealed.fingerprint) == (body, ends, fingerprint)
    assert prefix.fingerprint() != fingerprint


def test_a_fragment_of_no_bytes_is_no_message() -> None:
    with_it, without = filled(LEADING, b"1", b"", b"2"), filled(LEADING, b"1", b"2")
    assert with_it.seal().body == without.seal().body
    assert with_it.fingerprint() == without.fingerprint()
    assert len(with_it) == 2


@given(fragments, st.integers(0, 6))
def test_the_fingerprint_does_not_depend_on_how_the_messages_came(parts, cut: int) -> None:
    whole, halves = filled(PLAIN, *parts), filled(PLAIN, *parts[:cut])
    halves.extend(parts[cut:])
    assert whole.fingerprint() == halves.fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        filled(PLAIN, b"1", b"3"),
        filled(PLAIN, b"1"),
        filled(PLAIN, b"1", b"2", secret=b"other"),
        filled(PLAIN, b"12"),
        filled(PLAIN, b"1,2"),
        filled(Head(PLAIN.open, close=b"]} "), b"1", b"2"),
        filled(Head(PLAIN.open + b" "), b"1", b"2"),
    ],
)
def test_a_fingerprint_tells_apart_content_boundaries_head_and_key(other: Prefix) -> None:
    assert filled(PLAIN, b"1", b"2").fingerprint() != other.fingerprint()


@given(fragments, fragments)
def test_common_counts_the_bytes_that_two_prefixes_share(first, second) -> None:
    one, two = filled(PLAIN, *first), filled(PLAIN, *second)
    a, b = (p.seal().body[: p.size] for p in (one, two))
    shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    assert one.common(two) == (min(len(a), len(b)) if shared is None else shared)
    assert two.common(one) == one.common(two)


def test_a_window_is_a_snapshot_of_a_list_that_grows() -> None:
    items = [1, 2, 3]
    window = Window(items, 3)
    items.append(4)
    assert list(window) == window[:] == [1, 2, 3]
    assert (window[-1], window[1:], window[::-1]) == (3, [2, 3], [3, 2, 1])
    assert 4 not in window
    with pytest.raises(IndexError):
        window[3]
