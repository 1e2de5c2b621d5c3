"""The part of a head that both APIs write alike: members in a fixed order, options among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.prefix.canonical import canonical, string, utf16_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi.prefix.wire import HeadSpec
    from unipi_hookspecs import JSON

_OURS = frozenset({"model", "stream", "system", "instructions", "tools", "messages", "input"})


def envelope(spec: HeadSpec, members: Mapping[str, JSON]) -> bytes:
    """Write `{` and the members, each followed by a comma.

    `members` keep their order. An option (of the model, then of the request) of the same name takes
    a member's place, null takes it out; further options follow in UTF-16 order. Raises ValueError
    when an option names what only the host may write.
    """
    options = {**spec.model.options, **spec.options}
    refused = sorted(_OURS & options.keys())
    if refused:
        raise ValueError(
            f"model {spec.model.name}: the option {refused[0]!r} is written by the host; remove it"
        )
    merged = {**members, **{key: options[key] for key in sorted(options, key=utf16_key)}}
    written = (
        string(key) + b":" + canonical(value) + b","
        for key, value in merged.items()
        if value is not None
    )
    return b"{" + b"".join(written)
