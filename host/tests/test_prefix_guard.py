"""The guard: a compliant plugin passes, a rewrite has a name, the policy says what becomes of it."""

from __future__ import annotations

import pytest
from attrs import evolve

from unipi.prefix.guard import (
    POLICIES,
    ContextGuard,
    HeadWatch,
    PayloadGuard,
    Rewrite,
    shape_digest,
    without_markers,
)
from unipi_hookspecs import (
    AssistantMessage,
    CustomMessage,
    Payload,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

SENT = (UserMessage("one"), AssistantMessage((Text("two"),)))
CALL = AssistantMessage((ToolCall("c", "t", {}),))
RESULT = ToolResultMessage("c", "t", (Text("r"),))
STATE, OTHER = CustomMessage("state", "s"), CustomMessage("other", "o")
NEW = (STATE, OTHER, UserMessage("three"), CALL, RESULT)
ALL = (*SENT, *NEW)


def guard(policy: str = "enforce") -> tuple[ContextGuard, list[Rewrite]]:
    said: list[Rewrite] = []
    return ContextGuard(ALL, len(SENT), policy, said.append), said


def swap(at: int, message: object) -> list[object]:
    return [*ALL[:at], message, *ALL[at + 1 :]]


def test_the_same_sequence_passes_without_being_looked_at() -> None:
    class Untouchable:
        def __iter__(self):
            raise AssertionError("looked at")

    guarded, said = guard()
    same = Untouchable()
    assert guarded.check("p", same, same) is same
    assert said == []


@pytest.mark.parametrize("policy", POLICIES)
def test_new_messages_may_be_projected(policy: str) -> None:
    guarded, said = guard(policy)
    shorter = evolve(RESULT, content=(Text("short"),))
    guarded.check("p", ALL, swap(6, shorter))
    assert said == []
    assert guarded.override is None
    assert guarded.tail[4] == (4, shorter)


def test_new_custom_and_user_messages_may_be_left_out() -> None:
    guarded, said = guard()
    kept = guarded.check("p", ALL, [*SENT, OTHER, CALL, RESULT])
    assert said == []
    assert [place for place, _ in guarded.tail] == [1, 3, 4]
    guarded.check("q", kept, [*SENT, CALL, RESULT])
    assert [place for place, _ in guarded.tail] == [3, 4]


REWRITES = {
    "an older message replaced": swap(0, UserMessage("one")),
    "an older message left out": list(ALL[1:]),
    "a message put in front": [UserMessage("memory"), *ALL],
    "a message appended": [*ALL, UserMessage("memory")],
    "new ones left out and in another order": [*SENT, OTHER, STATE, CALL, RESULT],
    "a call left out": [*SENT, *NEW[:3], RESULT],
    "a result left out": list(ALL[:-1]),
    "an answer changed": swap(5, evolve(CALL, content=(Text("x"),))),
    "a result for another call": swap(6, evolve(RESULT, tool_call_id="d")),
    "another kind of message": swap(2, UserMessage("s")),
    "nothing at all": [],
}


@pytest.mark.parametrize("what", REWRITES)
def test_enforce_refuses_a_rewrite_and_names_the_plugin(what: str) -> None:
    guarded, said = guard()
    assert guarded.check("bad", ALL, REWRITES[what]) is ALL
    assert [r.plugin for r in said] == ["bad"]
    assert "'bad' (context)" in said[0].text
    assert guarded.override is None
    assert guarded.tail == list(enumerate(NEW))


@pytest.mark.parametrize("policy", ["record", "off"])
@pytest.mark.parametrize("what", REWRITES)
def test_record_and_off_let_a_rewrite_through_with_its_owner(what: str, policy: str) -> None:
    guarded, said = guard(policy)
    guarded.check("bad", ALL, REWRITES[what])
    assert guarded.override == REWRITES[what]
    assert guarded.owner == "bad"
    assert len(said) == 1


def test_a_plugin_after_a_rewrite_does_not_take_the_blame() -> None:
    guarded, said = guard("record")
    seen = guarded.check("bad", ALL, [UserMessage("memory"), *ALL])
    guarded.check("good", seen, [*seen[:-1], evolve(RESULT, content=())])
    assert guarded.owner == "bad"
    assert [r.plugin for r in said] == ["bad"]
    assert guarded.override[-1].content == ()


def test_after_a_refusal_the_next_plugin_is_held_to_what_stands() -> None:
    guarded, said = guard()
    kept = guarded.check("bad", ALL, [])
    guarded.check("good", kept, [*SENT, *NEW[1:]])
    assert [r.plugin for r in said] == ["bad"]
    assert len(guarded.tail) == len(NEW) - 1


# The payload.


def message(text: str, role: str = "user") -> dict[str, object]:
    return {"role": role, "content": text}


PAYLOAD = Payload(
    envelope={"model": "m"},
    system=[{"type": "text", "text": "S"}],
    tools=[{"name": "t"}],
    messages=[message("a"), message("b", "assistant"), message("c")],
)


def payload_guard(policy: str = "enforce", sent: int = 2) -> tuple[PayloadGuard, list[Rewrite]]:
    said: list[Rewrite] = []
    return PayloadGuard(sent, policy, said.append), said


def with_messages(*messages: object) -> Payload:
    return evolve(PAYLOAD, messages=list(messages))


def test_the_same_payload_or_equal_parts_are_no_change() -> None:
    guarded, said = payload_guard()
    assert guarded.check("p", PAYLOAD, PAYLOAD) is PAYLOAD
    assert guarded.check("p", PAYLOAD, evolve(PAYLOAD, envelope={"model": "m"})) is PAYLOAD
    assert guarded.check("p", PAYLOAD, with_messages(*PAYLOAD.messages)) is PAYLOAD
    assert (said, guarded.touched_head, guarded.changed) == ([], [], {})


@pytest.mark.parametrize(
    "change", [{"envelope": {"model": "m", "x": 1}}, {"system": []}, {"tools": []}]
)
def test_a_changed_head_is_noted_with_its_plugin(change: dict[str, object]) -> None:
    guarded, said = payload_guard()
    accepted = guarded.check("p", PAYLOAD, evolve(PAYLOAD, **change))
    assert guarded.touched_head == [("p", accepted)]
    assert said == []


def test_a_new_wire_message_may_be_changed() -> None:
    guarded, said = payload_guard()
    accepted = guarded.check("p", PAYLOAD, with_messages(*PAYLOAD.messages[:2], message("d")))
    assert guarded.changed == {2: message("d")}
    assert accepted.messages[2] == message("d")
    assert said == []


def test_breakpoints_may_be_moved_over_old_messages() -> None:
    marked = {"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}}
    guarded, said = payload_guard()
    guarded.check("p", PAYLOAD, with_messages(marked, *PAYLOAD.messages[1:]))
    assert said == []
    assert guarded.changed == {}


WIRE_REWRITES = {
    "an old message changed": with_messages(message("x"), *PAYLOAD.messages[1:]),
    "one added": with_messages(message("x"), *PAYLOAD.messages),
    "one taken out": with_messages(*PAYLOAD.messages[1:]),
    "a role changed": with_messages(*PAYLOAD.messages[:2], message("c", "assistant")),
}


@pytest.mark.parametrize("what", WIRE_REWRITES)
def test_enforce_refuses_a_rewrite_of_wire_messages_but_keeps_the_head(what: str) -> None:
    guarded, said = payload_guard()
    returned = evolve(WIRE_REWRITES[what], envelope={"model": "m", "x": 1})
    accepted = guarded.check("bad", PAYLOAD, returned)
    assert accepted.messages is PAYLOAD.messages
    assert accepted.envelope == {"model": "m", "x": 1}
    assert guarded.override is None
    assert [r.plugin for r in said] == ["bad"]


@pytest.mark.parametrize("what", WIRE_REWRITES)
def test_record_lets_a_rewrite_of_wire_messages_through(what: str) -> None:
    guarded, _ = payload_guard("record")
    guarded.check("bad", PAYLOAD, WIRE_REWRITES[what])
    assert guarded.override is not None
    assert list(guarded.override.messages) == list(WIRE_REWRITES[what].messages)
    assert guarded.owner == "bad"


def test_a_plugin_after_a_wire_rewrite_works_on_it_and_is_not_blamed() -> None:
    guarded, said = payload_guard("record")
    seen = guarded.check("bad", PAYLOAD, WIRE_REWRITES["one added"])
    guarded.check("good", seen, evolve(seen, messages=[*seen.messages[:-1], message("new")]))
    assert guarded.override is not None
    assert guarded.override.messages[-1] == message("new")
    assert len(guarded.override.messages) == 4
    assert guarded.owner == "bad"
    assert [r.plugin for r in said] == ["bad"]
    assert guarded.changed == {}


def test_markers_are_taken_off_at_every_depth_and_nothing_else_is() -> None:
    wire = {"content": [{"text": "x", "cache_control": 1}, {"prompt_cache_breakpoint": 2}], "n": 1}
    assert without_markers(wire) == {"content": [{"text": "x"}, {}], "n": 1}


# Who moved the head.

FIRST = [("a", "1"), ("b", "2"), ("c", "3")]


@pytest.mark.parametrize(
    ("now", "who"),
    [
        (FIRST, None),
        ([("a", "1"), ("b", "x"), ("c", "y")], "b"),
        ([("b", "x"), ("c", "y")], "a"),
        ([("a", "1"), ("c", "y")], "b"),
        ([("a", "1"), ("b", "2")], "c"),
        ([("a", "1"), ("new", "7"), ("b", "x"), ("c", "y")], "new"),
        ([], "a"),
    ],
)
def test_the_first_that_does_something_else_or_lets_go_has_moved_the_head(now, who) -> None:
    watch = HeadWatch()
    watch.take(FIRST)
    assert watch.culprit(now) == who


def test_a_head_sent_for_the_first_time_is_what_is_compared_with() -> None:
    watch = HeadWatch()
    watch.take(FIRST)
    watch.take([("b", shape_digest(b"new"))])
    assert watch.culprit([("b", shape_digest(b"new"))]) is None
    assert watch.culprit([("b", shape_digest(b"other"))]) == "b"
