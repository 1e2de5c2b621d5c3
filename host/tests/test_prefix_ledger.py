"""The epoch ledger: number, cause, owner and price of every boundary."""

from __future__ import annotations

import pytest
from attrs import evolve

from unipi.prefix.ledger import Ledger, Reason, head_change, to_data
from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi_hookspecs import Model, Prices

MODEL = Model("p", "m", "anthropic-messages", "http://x")
SPEC = HeadSpec(MODEL, ("system",), (ToolSpec("t", "d", b"{}"),))
PRICES = Prices(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
REASON = Reason("tools", "plug", avoidable=True, detail="why")


def test_boundaries_are_numbered_on_from_where_the_session_stands() -> None:
    ledger = Ledger(4)
    for _ in range(2):
        ledger.cross(REASON, surviving=0, total=0, prices=None)
    assert [b.number for b in ledger.boundaries] == [5, 6]
    assert ledger.number == 6


def test_a_boundary_keeps_its_reason() -> None:
    boundary = Ledger().cross(REASON, surviving=0, total=0, prices=None)
    assert (boundary.cause, boundary.owner, boundary.avoidable, boundary.detail) == (
        "tools",
        "plug",
        True,
        "why",
    )


@pytest.mark.parametrize(("surviving", "lost"), [(0, 1000), (250, 750), (1000, 0)])
def test_what_is_lost_is_the_share_of_the_last_prompt_that_does_not_survive(
    surviving: int, lost: int
) -> None:
    ledger = Ledger()
    ledger.saw_prompt(1000)
    boundary = ledger.cross(REASON, surviving=surviving, total=1000, prices=PRICES)
    assert boundary.tokens_lost == lost
    assert boundary.price == pytest.approx(lost * (3.75 - 0.3) / 1e6)


def test_four_bytes_are_a_token_where_the_provider_reported_no_prompt() -> None:
    assert Ledger().cross(REASON, surviving=0, total=400, prices=None).tokens_lost == 100


def test_without_prices_there_is_no_price_and_without_a_request_nothing_is_lost() -> None:
    boundary = Ledger().cross(REASON, surviving=0, total=0, prices=None)
    assert (boundary.tokens_lost, boundary.price) == (0, None)


def test_a_ledger_line_is_in_the_files_spelling() -> None:
    boundary = Ledger().cross(REASON, surviving=0, total=0, prices=None)
    assert to_data(boundary) == {
        "number": 1,
        "cause": "tools",
        "owner": "plug",
        "avoidable": True,
        "tokensLost": 0,
        "price": None,
        "detail": "why",
    }


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({}, None),
        ({"model": evolve(MODEL, id="n")}, "model"),
        ({"model": evolve(MODEL, base_url="http://y")}, "model"),
        ({"thinking": "high"}, "thinking"),
        ({"max_tokens": 5}, "sampling"),
        ({"options": {"temperature": 1}}, "sampling"),
        ({"system": ("other",)}, "system_prompt"),
        ({"tools": ()}, "tools"),
        ({"tools": (), "system": (), "thinking": "high"}, "thinking"),
    ],
)
def test_the_dearest_change_of_a_head_is_its_cause(change: dict[str, object], cause) -> None:
    assert head_change(SPEC, evolve(SPEC, **change)) == cause
