"""A lineage: from the branch to requests that extend each other, and back after a restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from unipi.prefix.ledger import Ledger, Reason
from unipi.prefix.lineage import Decision, Item, Lineage
from unipi.prefix.seal import Sealed
from unipi.prefix.wire import HeadSpec
from unipi.providers import api_for
from unipi_hookspecs import (
    AssistantMessage,
    CustomMessage,
    Message,
    Model,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

API = api_for("anthropic-messages")
SPEC = HeadSpec(Model("p", "m", "anthropic-messages", "http://x"), ("system",), ())
HEAD = API.head(SPEC)
TOLD = [
    UserMessage("one"),
    AssistantMessage((Text("two"), ToolCall("c", "t", {}))),
    ToolResultMessage("c", "t", (Text("three"),)),
    CustomMessage("state", "four"),
]


def lineage(*messages: Message) -> Lineage:
    made = Lineage(API, b"secret", Ledger())
    for number, message in enumerate(messages):
        made.append(Item(f"e{number}", message))
    return made


def request(it: Lineage, spec: HeadSpec = SPEC, owner: str | None = None) -> Sealed:
    """Build the next request as the agent does, without plugins."""
    it.project()
    reason = it.reason_for(spec)
    if reason is None:
        return it.extend([raw for _, raw in it.new_fragments(spec)])
    wire = [raw for _, raw in it.all_fragments(spec)]
    return it.restart(spec, API.head(spec), reason, wire, owner)[0]


def extends(now: Sealed, before: Sealed) -> bool:
    return now.body.startswith(before.body[: len(before.body) - before.tail_length])


def test_the_first_request_begins_the_first_epoch() -> None:
    it = lineage(*TOLD)
    request(it)
    assert [(b.number, b.cause, b.owner) for b in it.ledger.boundaries] == [(1, "first", "host")]


def test_each_request_extends_the_last_one_and_crosses_no_boundary() -> None:
    it = lineage(TOLD[0])
    before = request(it)
    for number, message in enumerate(TOLD[1:]):
        it.append(Item(f"n{number}", message))
        now = request(it)
        assert extends(now, before)
        assert now.fingerprint != before.fingerprint
        before = now
    assert len(it.ledger.boundaries) == 1


def test_a_projection_says_which_messages_were_never_sent() -> None:
    it = lineage(*TOLD[:3])
    assert it.project()[1] == 0
    request(it)
    it.append(Item("e3", TOLD[3]))
    messages, new_from = it.project()
    assert list(messages) == TOLD
    assert new_from == 3


def test_a_projection_that_was_not_sent_is_made_anew() -> None:
    it = lineage(*TOLD)
    it.project()
    assert list(it.project()[0]) == TOLD


def test_what_a_plugin_made_of_new_messages_is_shown_from_then_on() -> None:
    it = lineage(*TOLD)
    it.project()
    short = evolve(TOLD[2], content=(Text("short"),))
    decisions = it.accept([(0, TOLD[0]), (1, TOLD[1]), (2, short)])
    assert decisions == [Decision("e2", short), Decision("e3", dropped=True)]
    assert list(it.project()[0]) == [*TOLD[:2], short]


def test_a_projection_that_changes_nothing_leaves_nothing_to_remember() -> None:
    it = lineage(*TOLD)
    it.project()
    assert it.accept(list(enumerate(TOLD))) == []


def test_an_excluded_type_is_hidden_and_each_hidden_message_is_told_once() -> None:
    it = lineage(*TOLD)
    it.excluded.add("state")
    assert list(it.project()[0]) == TOLD[:3]
    assert it.take_hidden() == [Decision("e3", dropped=True)]
    it.project()
    assert it.take_hidden() == []


def test_was_sent_knows_the_custom_types_of_this_epochs_requests() -> None:
    it = lineage(*TOLD)
    it.project()
    assert not it.was_sent("state")
    request(it)
    assert it.was_sent("state")
    assert not it.was_sent("other")


def test_wire_bytes_that_were_decided_stand_for_the_message_in_later_epochs_too() -> None:
    it = lineage(*TOLD)
    it.decide(Decision("e0", wire=b'{"role":"user","content":"patched"}'))
    before = request(it)
    assert b"patched" in before.body
    it.want_boundary(Reason("tools", "user"))
    assert request(it).body == before.body
    assert it.ledger.number == 2


def test_a_wanted_boundary_is_crossed_once_and_the_first_reason_is_recorded() -> None:
    it = lineage(*TOLD)
    request(it)
    it.want_boundary(Reason("tools", "plug"))
    it.want_boundary(Reason("reload", "user"))
    assert it.boundary_wanted
    request(it)
    assert not it.boundary_wanted
    request(it)
    assert [(b.cause, b.owner) for b in it.ledger.boundaries[1:]] == [("tools", "plug")]


def test_another_head_is_a_boundary_of_the_users() -> None:
    it = lineage(*TOLD)
    request(it)
    request(it, evolve(SPEC, system=("other",)))
    last = it.ledger.boundaries[-1]
    assert (last.cause, last.owner, last.avoidable) == ("system_prompt", "user", False)


def test_choices_that_come_back_to_the_same_bytes_cost_no_boundary() -> None:
    it = lineage(*TOLD)
    before = request(it)
    # The model does not think, so that its head is the same at every level.
    now = request(it, evolve(SPEC, thinking="high"))
    assert now.body == before.body
    assert len(it.ledger.boundaries) == 1


def test_another_branch_is_a_boundary_that_loses_what_it_does_not_share() -> None:
    it = lineage(*TOLD)
    size = len(request(it).body) - len(HEAD.close)
    it.ledger.saw_prompt(1000)
    it.replace([Item("e0", TOLD[0]), Item("x", UserMessage("other"))], Reason("tree", "user"))
    request(it)
    boundary = it.ledger.boundaries[-1]
    assert boundary.cause == "tree"
    kept = len(HEAD.open) / size
    assert 0 < boundary.tokens_lost < 1000 * (1 - kept)


def test_a_rewrite_that_was_let_through_is_remembered_until_the_next_restart() -> None:
    it = lineage(*TOLD)
    it.want_boundary(Reason("plugin_rewrite", "bad", avoidable=True))
    request(it, owner="bad")
    assert it.diverged == "bad"
    it.want_boundary(Reason("reload", "user"))
    request(it)
    assert it.diverged is None


def test_before_the_first_request_there_is_no_mark() -> None:
    assert lineage(*TOLD).mark() is None


def test_a_mark_names_both_ends_of_what_was_sent() -> None:
    it = lineage(*TOLD)
    sealed = request(it)
    it.append(Item("later", UserMessage("later")))
    mark = it.mark()
    assert mark is not None
    assert (mark.epoch, mark.first, mark.last) == (1, "e0", "e3")
    assert mark.fingerprint == sealed.fingerprint


def test_a_resumed_lineage_goes_on_with_the_same_bytes() -> None:
    old = lineage(*TOLD)
    before = request(old)
    mark = old.mark()
    assert mark is not None
    new = lineage(*TOLD, UserMessage("more"))
    assert new.resume(SPEC, HEAD, mark)
    now = request(new)
    assert extends(now, before)
    old.append(Item("e4", UserMessage("more")))
    assert now.body == request(old).body
    assert new.ledger.boundaries == []


def test_resuming_needs_the_decisions_of_the_process_before() -> None:
    old = lineage(*TOLD)
    old.project()
    (decision,) = old.accept(list(enumerate(TOLD[:3])))
    request(old)
    mark = old.mark()
    assert mark is not None
    assert not lineage(*TOLD).resume(SPEC, HEAD, mark)
    new = lineage(*TOLD)
    new.decide(decision)
    assert new.resume(SPEC, HEAD, mark)


EDITS: dict[str, Callable[[list[Item]], list[Item]]] = {
    "a word changed": lambda items: [Item("e0", UserMessage("uno")), *items[1:]],
    "the first one gone": lambda items: items[1:],
    "the last one gone": lambda items: items[:-1],
    "one in the middle gone": lambda items: [items[0], *items[3:]],
    "everything gone": lambda items: [],
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_branch_is_not_resumed_and_stays_usable(edit: str) -> None:
    old = lineage(*TOLD)
    request(old)
    mark = old.mark()
    assert mark is not None
    new = lineage()
    new.items = EDITS[edit](lineage(*TOLD).items)
    told = list(new.items)
    assert not new.resume(SPEC, HEAD, mark)
    assert new.items == told
    assert new.prefix is None


def test_another_head_or_another_key_is_not_resumed() -> None:
    old = lineage(*TOLD)
    request(old)
    mark = old.mark()
    assert mark is not None
    assert not lineage(*TOLD).resume(SPEC, API.head(evolve(SPEC, system=("x",))), mark)
    stranger = Lineage(API, b"another secret", Ledger())
    stranger.items = lineage(*TOLD).items
    assert not stranger.resume(SPEC, HEAD, mark)
