"""The tool list is frozen for the epoch; policy is enforced when a call is made."""

import pytest

from unipi.agent.toolbox import OwnedTool, Toolbox
from unipi_hookspecs import Tool


def tool(name, **fields):
    return Tool(name, f"Does {name}.", run=lambda call, ctx: "", **fields)


@pytest.fixture
def told():
    return []


@pytest.fixture
def box(told):
    owned = [OwnedTool("tools", tool(name)) for name in ("read", "Bash", "edit")]
    return Toolbox(owned, lambda plugin, text: told.append((plugin, text)))


def names(specs):
    return [spec.name for spec in specs]


def test_the_list_is_in_code_unit_order_and_stands_until_the_next_epoch(box):
    assert names(box.freeze()) == ["Bash", "edit", "read"]
    box.offer("late", [tool("add")])
    assert list(box.visible) == ["Bash", "edit", "read"]
    assert box.pending == ["add"]
    assert names(box.freeze()) == ["Bash", "add", "edit", "read"]
    assert box.pending == []


def test_schemas_are_canonical_and_broken_descriptions_repaired(told):
    schema = {"type": "object", "properties": {"b": {}, "a": {}}, "additionalProperties": False}
    odd = Tool("odd", "Half \ud800.", parameters=schema, run=lambda call, ctx: "")
    (spec,) = Toolbox([OwnedTool("p", odd)], told.append).freeze()
    assert spec.description == "Half \ufffd."
    assert spec.schema == (
        b'{"additionalProperties":false,"properties":{"a":{},"b":{}},"type":"object"}'
    )


def test_a_disabled_tool_is_refused_at_once_and_leaves_with_the_next_epoch(box):
    box.freeze()
    assert box.refusal("read") is None
    box.disable("read", "planner", "only reading the plan now")
    assert box.refusal("read") == "read is disabled by plugin 'planner': only reading the plan now"
    assert "read" in box.visible
    assert names(box.freeze()) == ["Bash", "edit"]


def test_a_tool_is_enabled_when_every_plugin_that_disabled_it_has_taken_that_back(box):
    box.freeze()
    box.disable("read", "one", "a")
    box.disable("read", "two", "b")
    box.enable("read", "one")
    assert box.refusal("read") == "read is disabled by plugin 'two': b"
    box.enable("read", "stranger")
    box.enable("read", "two")
    assert box.refusal("read") is None


def test_an_unknown_and_a_waiting_tool_are_told_apart_with_what_there_is(box):
    box.freeze()
    box.offer("late", [tool("add")])
    assert box.refusal("grep") == "There is no tool 'grep'. Tools: Bash, edit, read"
    assert box.refusal("add") == "add is not available yet. Tools: Bash, edit, read"


def test_the_author_of_a_late_tool_hears_where_and_what_to_do(box, told):
    box.offer("early", [tool("one")])
    assert told == []
    box.freeze()
    box.offer("late", [tool("two"), tool("three")], where="turn_end")
    ((plugin, text),) = told
    assert plugin == "late"
    assert "two, three in turn_end" in text
    assert "ctx.request_boundary" in text


def test_a_name_that_another_plugin_has_is_refused_naming_both_and_ones_own_is_no_news(box, told):
    box.offer("mine", [tool("read"), tool("new")])
    box.offer("mine", [tool("new")])
    ((plugin, text),) = told
    assert plugin == "mine"
    assert "'mine'" in text
    assert "'tools'" in text
    assert box._known["read"].owner == "tools"


def test_the_list_of_a_stored_epoch_is_taken_over_and_what_is_gone_is_named(box):
    assert box.restore(["Bash", "removed", "read"]) == ["removed"]
    assert list(box.visible) == ["Bash", "read"]
    assert box.pending == ["edit"]
    assert "not available yet" in box.refusal("edit")


def test_what_the_model_must_be_told_is_what_differs_from_what_it_was_told(box):
    box.freeze()
    assert box.changes(adds=True, removes=True) is None
    box.offer("late", [tool("add")])
    box.disable("read", "planner", "no")
    verb = box.changes(adds=True, removes=True)
    assert [t.name for t in verb.define] == ["add"]
    assert verb.withdraw == ("read",)
    box.told(verb)
    assert box.changes(adds=True, removes=True) is None
    assert box.refusal("add") is None
    box.enable("read", "planner")
    assert box.changes(adds=True, removes=True).offer == ("read",)


def test_what_the_model_cannot_be_told_waits(box):
    box.freeze()
    box.offer("late", [tool("add")])
    box.disable("read", "planner", "no")
    assert box.changes(adds=False, removes=False) is None
    assert box.pending == ["add"]


def test_a_tool_that_comes_back_while_the_list_still_holds_it_is_there_at_once(box, told):
    box.restore(["Bash", "slow"])
    box.offer("server", [tool("slow")])
    assert box.refusal("slow") is None
    assert told == []
