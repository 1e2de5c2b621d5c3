"""What an answer costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi_hookspecs import Cost

if TYPE_CHECKING:
    from unipi_hookspecs import Prices, Usage

_MILLION = 1_000_000


def cost_of(usage: Usage, prices: Prices | None) -> Cost | None:
    """Price a usage, in US dollars; None when the model has no prices.

    Each token is paid once: `input` holds neither what was read nor what was written, and
    `cache_write_1h` is the part of `cache_write` that is billed at the longer-lived price.
    """
    if prices is None:
        return None
    written = usage.cache_write or 0
    longer = min(usage.cache_write_1h or 0, written)
    longer_price = prices.cache_write if prices.cache_write_1h is None else prices.cache_write_1h
    return Cost(
        input=usage.input * prices.input / _MILLION,
        output=usage.output * prices.output / _MILLION,
        cache_read=(usage.cache_read or 0) * prices.cache_read / _MILLION,
        cache_write=((written - longer) * prices.cache_write + longer * longer_price) / _MILLION,
    )
