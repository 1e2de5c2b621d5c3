"""Our own lines in a session file: what is written is read back, and rubbish is nothing."""

import pytest

from unipi.agent import records
from unipi.prefix.lineage import Decision
from unipi.prefix.wire import Head, HeadSpec, ToolSpec
from unipi.session import Session
from unipi_hookspecs import Model, UserMessage

SPEC = HeadSpec(
    model=Model("sim", "one", "anthropic-messages", "http://localhost"),
    system=("be brief", "é"),
    tools=(ToolSpec("read", "Read.", b"{}"),),
    thinking="low",
    lineage="s",
    options={},
)


def test_a_head_is_kept_byte_for_byte_with_what_it_was_made_of():
    head = Head('{"system":"é","messages":['.encode(), b"]}", leading=True)
    making = records.Making(Head(b"{", b"}", leading=False), "be", {"shaper": "digest"})
    data = records.head_data(3, SPEC, head, making)
    assert records.head_from(data) == head
    assert records.making_from(data, head) == making
    assert (data["epoch"], data["model"], data["tools"]) == (3, "one", ["read"])


def test_a_head_that_nobody_changed_is_its_own_making():
    head = Head(b"{", b"}", leading=False)
    making = records.Making(head, "be brief")
    assert records.making_from(records.head_data(1, SPEC, head, making), head) == making


@pytest.mark.parametrize(
    "decision",
    [
        Decision("a", UserMessage("short", 5)),
        Decision("a", dropped=True),
        Decision("a", wire=b'{"role":"user","content":"\xc3\xa9"}'),
    ],
)
def test_a_decision_reads_back(decision):
    assert records.decision_from(records.projection_data(decision)) == decision


@pytest.mark.parametrize("rubbish", [{}, {"open": 1, "close": "x"}, {"entryId": 7}, {"epoch": "x"}])
def test_rubbish_is_no_head_no_decision_and_no_mark(rubbish):
    assert records.head_from(rubbish) is None
    assert records.decision_from(rubbish) is None
    assert records.mark_from(rubbish) is None


def test_of_a_branch_the_latest_and_every_entry_of_a_type_are_found(tmp_path):
    with Session.create(None, cwd=tmp_path) as session:
        for n in range(3):
            session.append_custom("mine", {"n": n})
            session.append_custom("other", {"n": -n})
        session.append_custom("mine")
        branch = session.branch()
    assert [data["n"] for data in records.every(branch, "mine")] == [0, 1, 2]
    assert records.latest(branch, "other") == {"n": -2}
    assert records.latest(branch, "mine") is None
    assert records.latest(branch, "nobody's") is None
