"""What the Messages API refuses about ``cache_control`` markers ("Prompt caching")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.sim.anthropic_render import content_blocks, marker_ttl
from unipi.sim.errors import ApiError
from unipi.sim.rules import HOUR
from unipi.sim.shapes import as_dict, as_list

if TYPE_CHECKING:
    from collections.abc import Iterator


def _carriers(request: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Every place that may carry a marker, in the order in which the cache sees them."""
    for number, tool in enumerate(map(as_dict, as_list(request.get("tools")))):
        yield f"tools.{number}", tool
    for number, block in enumerate(content_blocks(request.get("system"))):
        yield f"system.{number}", block
    for number, message in enumerate(map(as_dict, as_list(request["messages"]))):
        for place, block in enumerate(content_blocks(message.get("content"))):
            yield f"messages.{number}.content.{place}", block
            for inner_place, inner in enumerate(map(as_dict, as_list(block.get("content")))):
                yield f"messages.{number}.content.{place}.content.{inner_place}", inner


def check_markers(request: dict[str, object], limit: int) -> None:
    """Refuse too many markers, and lifetimes that are unknown or out of order.

    Args:
        request: the parsed body.
        limit: markers a request may carry, the automatic one counted.

    Raises:
        ApiError: 400.
    """
    marked: list[tuple[str, float]] = []
    last: dict[str, object] = {}
    for path, block in _carriers(request):
        thinking = block.get("type") in ("thinking", "redacted_thinking")
        # What stands inside a result is not a block of its own for the automatic marker.
        last = last if thinking or path.count("content") > 1 else block
        value = block.get("cache_control")
        if value is not None:
            _check_marker(f"{path}.cache_control", value)
            marked.append((path, marker_ttl(value) or 0.0))
    automatic = request.get("cache_control")
    if automatic is not None:
        _check_marker("cache_control", automatic)
        ttl = marker_ttl(automatic) or 0.0
        own = marker_ttl(last.get("cache_control"))
        if own is not None and own != ttl:
            raise ApiError(400, "cache_control: the last cacheable block already has another `ttl`")
        if own is None:
            marked.append(("cache_control", ttl))
    if len(marked) > limit:
        raise ApiError(
            400,
            f"A maximum of {limit} blocks with cache_control may be provided. Found {len(marked)}.",
        )
    short = False
    for path, ttl in marked:
        if ttl >= HOUR and short:
            raise ApiError(
                400,
                f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
                "ttl='5m' cache_control block. Note that blocks are processed in the following "
                "order: `tools`, `system`, `messages`.",
            )
        short = short or ttl < HOUR


def _check_marker(path: str, value: object) -> None:
    if not isinstance(value, dict) or value.get("type") != "ephemeral":
        raise ApiError(400, f"{path}.type: Input should be 'ephemeral'")
    if value.get("ttl") not in (None, "5m", "1h"):
        raise ApiError(400, f"{path}.ephemeral.ttl: Input should be '5m' or '1h'")
