"""Whose tool it is when two plugins offer one name."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from unipi.loader import ToolOffer, collect_tools
from unipi_hookspecs import Tool

if TYPE_CHECKING:
    from unipi_hookspecs import Call, Context


def run(_call: Call, _ctx: Context) -> str:
    return ""


def offer(plugin: str, name: str, *, distribution: str | None = "") -> ToolOffer:
    dist = f"{plugin}-dist" if distribution == "" else distribution
    return (plugin, dist, "1.0" if dist else None, Tool(name, plugin, run=run))


def test_tools_are_sorted_by_name_whoever_offers_them() -> None:
    tools, problems = collect_tools([offer("z", "b"), offer("a", "c"), offer("m", "B")])
    assert [tool.name for tool in tools] == ["B", "b", "c"]
    assert not problems


def test_two_third_parties_with_one_tool_are_one_message_and_the_first_in_order_wins() -> None:
    tools, [problem] = collect_tools([offer("alpha", "read"), offer("beta", "read")])
    assert [tool.description for tool in tools] == ["alpha"]
    assert problem.distributions == ("alpha-dist 1.0", "beta-dist 1.0")
    assert "The one of 'alpha' is used, because it comes first in plugin order" in problem.message


def test_a_builtin_tool_is_kept_unless_the_setting_says_otherwise() -> None:
    offers = [offer("core", "read", distribution=None), offer("mine", "read"), offer("x", "read")]
    tools, [problem] = collect_tools(offers, builtins={"core"})
    assert tools[0].description == "core"
    assert "override_tools" in problem.message
    for name in ("the built-in plugin 'core'", "mine-dist 1.0", "x-dist 1.0"):
        assert name in problem.message
    tools, [problem] = collect_tools(offers, builtins={"core"}, override=True)
    assert tools[0].description == "mine"
    assert "because `override_tools` is on" in problem.message


def test_one_plugin_that_offers_a_name_twice_is_told_so() -> None:
    tools, [problem] = collect_tools([offer("p", "t"), offer("p", "t")])
    assert len(tools) == 1
    assert problem.plugins == ("p",)


def test_the_list_does_not_depend_on_the_order_of_offers_without_a_conflict() -> None:
    offers = [offer("p", name) for name in ("c", "a", "b")]
    lists = {tuple(t.name for t in collect_tools(list(p))[0]) for p in permutations(offers)}
    assert lists == {("a", "b", "c")}
