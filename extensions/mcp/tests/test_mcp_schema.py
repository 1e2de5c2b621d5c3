"""Schemas in one form: the same bytes whatever the order, the same verdicts as before."""

from __future__ import annotations

import copy
import json
import random

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from unipi_mcp.refs import problem
from unipi_mcp.schema import MAX_DEPTH, SchemaError, canonical, parameters

NAMES = st.sampled_from(["a", "b", "required", "enum", "type", "ä", "\U0001f600", "\uff61", "Z"])
PLAIN = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "", "ä"])
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SETS = st.lists(NAMES, max_size=4)


def keywords(inner):
    """One schema object: a few keywords of every kind, some of them about the same thing."""
    several = st.lists(inner, min_size=1, max_size=2)
    mapped = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3),
            "properties": mapped,
            "patternProperties": st.dictionaries(
                st.sampled_from(["^a", "b$", "."]), inner, max_size=2
            ),
            "additionalProperties": inner,
            "required": SETS,
            "dependentRequired": st.dictionaries(NAMES, SETS, max_size=2),
            "dependentSchemas": mapped,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "propertyNames": inner,
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "default": VALUES,
            "examples": st.lists(VALUES, max_size=2),
            "description": st.sampled_from(["", "what it is"]),
            "x-order": st.lists(PLAIN, max_size=3),
            "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
        },
    )


SCHEMAS = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=5)
ROOTS = st.builds(
    lambda root, a, b: {**(root if isinstance(root, dict) else {}), "$defs": {"a": a, "b": b}},
    SCHEMAS,
    st.builds(lambda kind: {"type": kind}, TYPES),
    st.builds(lambda value: {"const": value, "examples": [value]}, VALUES),
)


def text(value):
    return json.dumps(value, ensure_ascii=False)


def shuffled(value, rng, *, schema=True, kind="schema"):
    """The same schema as another run of its server might write it: keys and sets in other order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        if kind == "schema":
            return {key: shuffled(value[key], rng, kind=_inside(key)) for key in keys}
        inner = {"map": "schema", "sets": "set"}.get(kind, "literal")
        return {key: shuffled(value[key], rng, kind=inner) for key in keys}
    if isinstance(value, list):
        if kind == "set":
            again = value + ([rng.choice(value)] if value else [])
            rng.shuffle(again)
            return again
        return [
            shuffled(item, rng, kind="schema" if kind == "schemas" else "literal") for item in value
        ]
    return value


def _inside(key):
    if key in {"required", "type"}:
        return "set"
    if key == "dependentRequired":
        return "sets"
    if key in {"properties", "patternProperties", "dependentSchemas", "$defs"}:
        return "map"
    if key in {"allOf", "anyOf", "oneOf", "prefixItems"}:
        return "schemas"
    if key in {"enum", "const", "default", "examples", "x-order", "description", "$ref"}:
        return "literal"
    return "schema"


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROOTS, st.lists(VALUES, min_size=10, max_size=10))
def test_no_instance_is_judged_otherwise(schema, instances):
    before, after = (jsonschema.Draft202012Validator(s) for s in (schema, canonical(schema)))
    for instance in instances:
        assert after.is_valid(instance) == before.is_valid(instance)


@pytest.mark.slow
@settings(max_examples=700, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROOTS, st.integers(0, 2**32))
def test_keys_and_sets_in_any_order_give_the_same_bytes_and_twice_changes_nothing(schema, seed):
    once = canonical(schema)
    assert text(canonical(shuffled(schema, random.Random(seed)))) == text(once)
    assert text(canonical(once)) == text(once)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROOTS)
def test_nothing_is_dropped_added_or_changed_in_place(schema):
    before = copy.deepcopy(schema)
    made = canonical(schema)
    assert schema == before
    assert sets_as_sets(made) == sets_as_sets(schema)


def sets_as_sets(value, kind="schema"):
    if isinstance(value, dict):
        inner = {"map": "schema", "sets": "set", "literal": "literal"}
        return {k: sets_as_sets(v, inner.get(kind) or _inside(k)) for k, v in value.items()}
    if isinstance(value, list):
        if kind == "set":
            return frozenset(value)
        return [sets_as_sets(item, "schema" if kind == "schemas" else "literal") for item in value]
    return value


def test_keys_stand_in_utf16_order_at_every_depth():
    names = ["\uff61", "\U0001f600", "ä", "a", "Z", "A"]
    made = canonical({"properties": {name: {"z": {"b": 1, "a": 2}, "a": 1} for name in names}})
    assert list(made["properties"]) == ["A", "Z", "a", "ä", "\U0001f600", "\uff61"]
    assert text(made["properties"]["A"]) == '{"a": 1, "z": {"a": 2, "b": 1}}'


def test_required_is_sorted_and_without_duplicates_inside_any_of_too():
    made = canonical({"anyOf": [{"required": ["b", "a", "b"]}], "required": ["z", "y", "z"]})
    assert made == {"anyOf": [{"required": ["a", "b"]}], "required": ["y", "z"]}


def test_required_with_anything_but_strings_keeps_its_order():
    assert canonical({"required": ["b", 1, "a"]}) == {"required": ["b", 1, "a"]}
    assert canonical({"required": True}) == {"required": True}


def test_literals_keep_the_order_of_their_arrays_and_lose_only_that_of_their_keys():
    literal = {"required": ["b", "a"], "properties": {"required": ["d", "c"]}}
    made = canonical(
        {"enum": ["b", "a"], "const": literal, "default": literal, "examples": [literal]}
    )
    assert made["enum"] == ["b", "a"]
    assert made["const"] == made["default"] == made["examples"][0] == literal
    assert list(made["const"]) == ["properties", "required"]


@pytest.mark.parametrize("name", ["required", "enum", "const", "default", "examples", "type"])
def test_a_property_that_is_called_like_a_keyword_is_a_property(name):
    made = canonical({"properties": {name: {"required": ["b", "a"], "enum": ["d", "c"]}}})
    assert made["properties"][name] == {"enum": ["d", "c"], "required": ["a", "b"]}


@pytest.mark.parametrize(
    "path",
    [
        ["$defs", "x"],
        ["definitions", "x"],
        ["patternProperties", "^x"],
        ["dependentSchemas", "x"],
        ["dependencies", "x"],
        ["if"],
        ["then"],
        ["else"],
        ["not"],
        ["items"],
        ["items", 0],
        ["prefixItems", 0],
        ["allOf", 0],
        ["oneOf", 0],
        ["contains"],
        ["additionalProperties"],
        ["unevaluatedProperties"],
        ["propertyNames"],
    ],
)
def test_a_schema_is_a_schema_wherever_one_may_stand(path):
    def wrapped(inner):
        for step in reversed(path):
            inner = [inner] if step == 0 else {step: inner}
        return inner

    assert canonical(wrapped({"required": ["b", "a"]})) == wrapped({"required": ["a", "b"]})


def test_sets_by_property_are_sorted_in_both_spellings():
    made = canonical(
        {"dependentRequired": {"x": ["b", "a"]}, "dependencies": {"x": ["b", "a", "a"]}}
    )
    assert made == {"dependencies": {"x": ["a", "b"]}, "dependentRequired": {"x": ["a", "b"]}}


def test_a_union_of_types_is_a_set():
    assert canonical({"type": ["string", "null"]}) == canonical({"type": ["null", "string"]})


def test_parameters_are_an_object_with_all_three_of_its_keys():
    assert (
        text(parameters({"type": "object"}))
        == '{"properties": {}, "required": [], "type": "object"}'
    )
    assert parameters(True) == parameters({"type": ["null", "object"]}) == parameters({})


@pytest.mark.parametrize("schema", [False, None, [], "x", {"type": "string"}, {"type": ["null"]}])
def test_a_schema_that_takes_no_object_is_refused_with_the_reason(schema):
    with pytest.raises(SchemaError, match="object"):
        parameters(schema)


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def test_a_schema_beyond_the_depth_is_refused_and_never_a_recursion_error():
    assert canonical(nested(MAX_DEPTH // 2 - 1))
    for levels in (MAX_DEPTH, 2_000):
        with pytest.raises(SchemaError, match="levels deep"):
            canonical(nested(levels))
        assert "levels deep" in problem(nested(max(levels, MAX_DEPTH + 1)))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {}}},
        {"$ref": "#x", "$defs": {"a": {"$anchor": "x"}}},
        {"$id": "https://example.org/root", "$ref": "other", "$defs": {"o": {"$id": "other"}}},
        {"$ref": "#/allOf/0", "allOf": [{}]},
        {"properties": {"$ref": {"type": "string"}}},
        {"const": {"$ref": "https://example.org/x"}},
        {"properties": {"child": {"$ref": "#"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"allOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}], "$defs": {"t": True}},
        True,
    ],
)
def test_references_that_lead_somewhere_here_are_fine(schema):
    assert problem(schema) is None


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "#/$defs/b", "$defs": {"a": {}}}, "does not hold"),
        ({"$ref": "#nowhere"}, "does not hold"),
        ({"properties": {"a": {"items": {"$ref": "https://example.org/x"}}}}, "not fetched"),
        ({"$ref": "file:///etc/passwd"}, "not fetched"),
        ({"$ref": "#"}, "without an end"),
        ({"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"anyOf": [{"$ref": "#"}]}}}, "end"),
    ],
)
def test_a_reference_that_leads_nowhere_outside_or_round_and_round_is_named(schema, why):
    assert why in problem(schema)
