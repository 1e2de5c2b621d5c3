"""The one order of plugins, as a property of names and manifests alone."""

from __future__ import annotations

import random

from attrs import evolve
from hypothesis import given, settings, strategies as st

from unipi.loader import LoadOptions, explain, load_plugins, utf16_key
from unipi.loader.order import Node, edges, order
from unipi_hookspecs import Manifest, hookimpl


def node(
    name: str,
    *,
    before: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    requires: tuple[str, ...] = (),
    builtin: bool = False,
) -> Node:
    return Node(
        name, builtin, before, after, requires, f"{name} of {name}-dist 1", f"{name}-dist 1"
    )


def names(*nodes: Node) -> list[str]:
    return order(nodes, {})[0]


def test_before_after_and_requires_hold_and_the_rest_goes_by_name() -> None:
    assert names(node("a", after=("z",)), node("b"), node("z")) == ["b", "z", "a"]
    assert names(node("a"), node("z", before=("a",))) == ["z", "a"]
    assert names(node("a", requires=("z",)), node("z")) == ["z", "a"]


def test_builtins_stand_first_unless_a_manifest_says_otherwise() -> None:
    assert names(node("a"), node("z", builtin=True)) == ["z", "a"]
    assert names(node("a", before=("z",)), node("z", builtin=True)) == ["a", "z"]


def test_u_ff61_sorts_after_u_1f600_as_in_javascript() -> None:
    assert names(node("｡"), node("😀")) == ["😀", "｡"]
    assert utf16_key("\ud800") < utf16_key("\uffff")


def test_a_missing_after_target_is_one_message_and_costs_nothing_else() -> None:
    result, problems = order([node("a", after=("gone",)), node("b")], {})
    assert result == ["a", "b"]
    [problem] = problems
    assert (problem.kind, problem.distributions) == ("after", ("a-dist 1",))
    assert "'gone', which is not installed" in problem.message


def test_a_missing_before_target_is_nothing_to_speak_of() -> None:
    assert order([node("a", before=("gone",))], {}) == (["a"], [])


def test_an_after_target_that_is_disabled_is_said_to_be_so() -> None:
    [problem] = order([node("a", after=("b",))], {"b": "disabled"})[1]
    assert "which is disabled" in problem.message


def test_a_circle_is_one_message_naming_all_and_its_members_go_by_name() -> None:
    ring = [node("c", after=("b",)), node("b", after=("a",)), node("a", after=("c",))]
    outside = [node("0", after=("c",)), node("x", before=("b",))]
    result, problems = order(ring + outside, {})
    assert result == ["a", "c", "0", "x", "b"]
    [problem] = problems
    assert problem.plugins == ("a", "b", "c")
    assert problem.distributions == ("a-dist 1", "b-dist 1", "c-dist 1")


def test_a_plugin_that_names_itself_is_a_circle_of_one() -> None:
    [problem] = order([node("a", after=("a",))], {})[1]
    assert problem.kind == "cycle"
    assert "before or after itself" in problem.message


NAMES = st.lists(
    st.text(st.characters(codec="utf-16-be"), min_size=1, max_size=3), max_size=8, unique=True
)


@settings(max_examples=60, deadline=None)
@given(NAMES, st.data())
def test_any_set_of_plugins_has_one_order_that_keeps_what_can_be_kept(
    drawn: list[str], data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from(drawn), max_size=2).map(tuple) if drawn else st.just(())
    nodes = [evolve(node(name), before=data.draw(some), after=data.draw(some)) for name in drawn]
    first = order(nodes, {})
    shuffled = random.Random(data.draw(st.integers())).sample(nodes, len(nodes))
    assert order(shuffled, {}) == first
    assert sorted(first[0]) == sorted(drawn)
    circles = {name for p in first[1] if p.kind == "cycle" for name in p.plugins}
    place = {name: index for index, name in enumerate(first[0])}
    for edge in edges(nodes):
        if not {edge.first, edge.then} <= circles:
            assert place[edge.first] < place[edge.then]


class Plugin:
    """A plugin object with a manifest of its own."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @hookimpl
    def turn_end(self) -> None: ...


def test_explain_says_of_each_plugin_why_it_stands_where_it_stands() -> None:
    manifests = [
        Manifest("a", after=["z"]),
        Manifest("m", before=["z"]),
        Manifest("p", after=["q"]),
        Manifest("q", after=["p"]),
        Manifest("z"),
    ]
    plugins = tuple((m.name, Plugin(m)) for m in manifests)
    result = load_plugins(LoadOptions(entry_points=False, builtins=plugins))
    assert explain(result) == [
        "1. m (built-in): built-in, so before the others, by name; before z, as it asks",
        "2. p (built-in): built-in, so before the others, by name; in a circle of p, q, which goes by name",
        "3. q (built-in): built-in, so before the others, by name; in a circle of p, q, which goes by name",
        "4. z (built-in): built-in, so before the others, by name; after m, which asks to stand"
        " before it; before a, which asks to stand after it",
        "5. a (built-in): built-in, so before the others, by name; after z, as it asks",
    ]


def test_a_plugin_that_equals_another_and_so_cannot_register_leaves_nothing_behind() -> None:
    class Same(Plugin):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(self) -> int:
            return 1

    plugins = tuple(
        (m.name, Same(m)) for m in (Manifest("a"), Manifest("b"), Manifest("c", requires=["b"]))
    )
    result = load_plugins(LoadOptions(entry_points=False, builtins=plugins))
    assert [(i.name, i.state, i.stage) for i in result.plugins] == [
        ("a", "active", None),
        ("b", "failed", "register"),
        ("c", "blocked", None),
    ]
    assert [name for name, _ in result.manager.list_name_plugin()] == ["a"]
