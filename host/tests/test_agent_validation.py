"""Arguments that do not fit are explained so that the model can correct them."""

import pytest

from unipi.agent.validation import Validators
from unipi.sim import Call, Say
from unipi.testing import lab
from unipi_hookspecs import Tool, ToolResultMessage, hookimpl


def tool(schema):
    return Tool("probe", "Probe.", parameters=schema, run=lambda call, ctx: "ran")


SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "edits": {"type": "array", "items": {"type": "object", "required": ["old"]}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def test_what_fits_has_no_problems():
    assert Validators().problems(tool(SCHEMA), {"path": "a"}) is None


def test_each_problem_names_its_place():
    text = Validators().problems(tool(SCHEMA), {"edits": [{"old": "a"}, {}], "more": 1})
    assert text.splitlines()[0] == "The arguments of probe are not valid:"
    assert "- (the whole object): 'path' is a required property" in text
    assert "- edits/1: 'old' is a required property" in text
    assert "'more' was unexpected" in text
    assert text.endswith("Call it again with corrected arguments.")


def test_many_and_long_problems_are_cut():
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    text = Validators().problems(tool(schema), {f"k{n}": "x" * 1000 for n in range(9)})
    assert "- and 4 more" in text
    assert len(text) < 2500


def test_the_draft_that_a_schema_names_is_the_one_that_counts():
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"maximum": 3, "exclusiveMaximum": True}},
    }
    assert Validators().problems(tool(schema), {"n": 2}) is None
    assert "- n: 3 is" in Validators().problems(tool(schema), {"n": 3})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/schema"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
async def test_a_schema_that_cannot_be_used_costs_its_tool_and_not_the_run(tmp_path, schema):
    class Brings:
        @hookimpl
        def register_tools(self):
            return [tool(schema)]

    script = [[Call("probe", {"a": "x"}), Call("ls")], [Say("ok")]]
    async with lab(tmp_path, script, plugins=[("brings", Brings())]) as it:
        await it.agent.prompt("go")
        messages = it.agent.session.messages()
    refused, listed = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert refused.is_error
    assert "schema" in refused.content[0].text
    assert not listed.is_error
