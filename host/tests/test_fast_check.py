"""The quick check of tool arguments never says yes where jsonschema says no."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from unipi.agent.fast_check import plainly_valid

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.sampled_from("abc")
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(
    ["string", "boolean", "integer", "number", "null", "array", "object"]
) | st.just(["string", "null"])


def schemas(depth: int = 2) -> st.SearchStrategy[object]:
    inner = schemas(depth - 1) if depth else st.just({"type": "string"})
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "properties": st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
            "required": st.lists(st.sampled_from("abcd"), unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "minLength": st.integers(0, 3),
            "description": st.just("d"),
        },
    )


@settings(max_examples=400, deadline=None)
@given(schema=schemas(), value=VALUES)
def test_a_yes_is_always_a_yes_of_jsonschema(schema: object, value: object) -> None:
    if plainly_valid(schema, value):
        assert Draft202012Validator(schema).is_valid(value)


def test_a_usual_tool_schema_is_decided_without_jsonschema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"type": "integer"},
            "mode": {"type": "string", "enum": ["fast", "slow"]},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    good = {"path": "a", "limit": 3, "mode": "fast", "names": ["x"]}
    assert plainly_valid(schema, good)
    for bad in (
        {},
        {"path": 1},
        {**good, "mode": "odd"},
        {**good, "more": 1},
        {"path": "a", "limit": True},
    ):
        assert not plainly_valid(schema, bad)
        assert not Draft202012Validator(schema).is_valid(bad)
