"""A sealed request seen as its parts, and a head made of changed parts."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from unipi.prefix.payload import WireMessages, head_of, payload_of
from unipi.prefix.seal import Prefix
from unipi.prefix.wire import Head

SYSTEM = {"type": "text", "text": "S"}
ANTHROPIC = Head(b'{"model":"m","system":[{"type":"text","text":"S"}],"tools":[{"name":"t"}],'
                 b'"messages":[')  # fmt: skip
CHAT = Head(b'{"model":"m","tools":[{"name":"t"}],"messages":[{"role":"system"}', leading=True)
BARE = Head(b'{"model":"m","messages":[')


def messages() -> WireMessages:
    prefix = Prefix(ANTHROPIC, b"k")
    prefix.extend([b'{"n":0}', b'{"n":1}'])
    return WireMessages(prefix, [b'{"n":2}'])


def test_messages_are_the_sent_ones_and_the_new_ones_in_order() -> None:
    seen = messages()
    assert len(seen) == 3
    assert list(seen) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert seen[-1] == {"n": 2}
    assert seen[1:] == [{"n": 1}, {"n": 2}]
    with pytest.raises(IndexError):
        seen[3]


def test_a_message_that_was_looked_at_is_the_same_object_again() -> None:
    seen = messages()
    assert seen[0] is seen[0]
    assert seen[1:][0] is seen[1]


def test_nothing_is_decoded_before_somebody_looks() -> None:
    seen = WireMessages(None, [b"not json", b'{"n":1}'])
    assert len(seen) == 2
    assert seen[1] == {"n": 1}


def test_messages_that_were_left_alone_are_encoded_verbatim_and_others_compactly() -> None:
    prefix = Prefix(ANTHROPIC, b"k")
    prefix.extend([b'{"n": -0}'])
    seen = WireMessages(prefix, [b'{"n":1.50,"n":2}'])
    first, second = seen
    assert seen.encode([{"new": [1]}, second, first, dict(first)]) == [
        b'{"new":[1]}',
        b'{"n":1.50,"n":2}',
        b'{"n": -0}',
        b'{"n":0}',
    ]


@pytest.mark.parametrize(
    ("head", "system"), [(ANTHROPIC, [SYSTEM]), (CHAT, [{"role": "system"}]), (BARE, [])]
)
def test_a_payload_has_the_parts_of_its_head(head: Head, system: list[object]) -> None:
    payload = payload_of(head, [])
    assert payload.envelope == {"model": "m"}
    assert payload.system == system
    assert list(payload.tools) == ([] if head is BARE else [{"name": "t"}])


@pytest.mark.parametrize("head", [ANTHROPIC, CHAT, BARE])
def test_a_head_made_of_unchanged_parts_has_the_same_bytes(head: Head) -> None:
    assert head_of(head, payload_of(head, [])) == head


@pytest.mark.parametrize("head", [ANTHROPIC, CHAT, BARE])
def test_a_changed_head_has_the_history_last_and_reads_back(head: Head) -> None:
    payload = evolve(payload_of(head, []), envelope={"model": "n", "user": "u"}, tools=[])
    made = head_of(head, payload)
    whole = json.loads(made.open + made.close)
    assert list(whole)[-1] == "messages"
    assert (whole["model"], whole["user"]) == ("n", "u")
    assert "tools" not in whole
    again = payload_of(made, [])
    assert (again.envelope, again.system, again.tools) == (
        payload.envelope,
        payload.system,
        payload.tools,
    )


def test_a_head_that_loses_its_leading_message_needs_no_comma_before_the_first() -> None:
    made = head_of(CHAT, evolve(payload_of(CHAT, []), system=[]))
    prefix = Prefix(made, b"k")
    prefix.extend([b'{"n":0}'])
    assert json.loads(prefix.seal().body)["messages"] == [{"n": 0}]


def test_an_envelope_cannot_smuggle_in_messages_or_tools() -> None:
    payload = payload_of(BARE, [])
    made = head_of(BARE, evolve(payload, envelope={"messages": [1], "tools": [2], "system": "x"}))
    assert json.loads(made.open + made.close) == {"messages": []}
