"""The one list of tools that the model sees, and who wins when two want one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .candidates import shown_distribution
from .order import utf16_key
from .values import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from unipi_hookspecs import Tool

ToolOffer: TypeAlias = "tuple[str, str | None, str | None, Tool]"
"""Plugin name, distribution, version, tool."""


def collect_tools(
    offers: Iterable[ToolOffer],
    *,
    builtins: Collection[str] = frozenset(),
    override: bool = False,
) -> tuple[list[Tool], list[Problem]]:
    """The tools, sorted by name in UTF-16 code-unit order, and one problem a contested name.

    `offers` come in plugin order; `builtins` names the host's own plugins. Of third parties the
    first in plugin order wins. Against a built-in tool the built-in wins, unless `override` (the
    setting `override_tools`) is on. The outcome is the same whatever was installed first.
    """
    wanted: dict[str, list[ToolOffer]] = {}
    for offer in offers:
        wanted.setdefault(offer[3].name, []).append(offer)
    tools: list[Tool] = []
    problems: list[Problem] = []
    for name in sorted(wanted, key=utf16_key):
        claims = wanted[name]
        winner = _winner(claims, builtins, override=override)
        tools.append(winner[3])
        if len(claims) > 1:
            problems.append(_conflict(name, claims, winner, builtins, override=override))
    return tools, problems


def _winner(claims: list[ToolOffer], builtins: Collection[str], *, override: bool) -> ToolOffer:
    own = [claim for claim in claims if claim[0] in builtins]
    others = [claim for claim in claims if claim[0] not in builtins]
    first, second = (others, own) if override else (own, others)
    return (first or second)[0]


def _conflict(
    name: str,
    claims: list[ToolOffer],
    winner: ToolOffer,
    builtins: Collection[str],
    *,
    override: bool,
) -> Problem:
    listed = " and ".join(_owner(claim, builtins) for claim in claims)
    if any(claim[0] in builtins for claim in claims):
        rule = (
            "because `override_tools` is on"
            if override
            else "because a built-in tool is kept unless the setting `override_tools` is true"
        )
    else:
        rule = "because it comes first in plugin order"
    text = (
        f"the tool {name!r} is offered by {listed}. The one of {winner[0]!r} is used, {rule}."
        " Disable one with `unipi plugins disable NAME`, or have it renamed."
    )
    shown = (shown_distribution(claim[1], claim[2]) for claim in claims)
    return Problem(
        "tool_conflict",
        text,
        tuple(dict.fromkeys(claim[0] for claim in claims)),
        tuple(dict.fromkeys(item for item in shown if item)),
    )


def _owner(claim: ToolOffer, builtins: Collection[str]) -> str:
    if claim[0] in builtins:
        return f"the built-in plugin {claim[0]!r}"
    shown = shown_distribution(claim[1], claim[2])
    return f"plugin {claim[0]!r} of {shown}" if shown else f"plugin {claim[0]!r}"
