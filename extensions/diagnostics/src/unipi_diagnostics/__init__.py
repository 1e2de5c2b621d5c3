"""Says what moved a session's prefix, from the bytes that were really sent.

The plugin observes and never changes anything: it keeps keyed digests and counters of each sealed
request, the usage that providers reported, and the boundaries that the host recorded. The command
`/unipi:prefix-cache` returns its report as text, so that it never reaches the model.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from unipi_hookspecs import Command, Manifest, hookimpl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from unipi_hookspecs import (
        Context,
        EpochBoundaryEvent,
        LoadContext,
        ModelSelectEvent,
        ProviderRequestSealedEvent,
        ProviderResponseEndEvent,
        SessionCompactEvent,
        SessionShutdownEvent,
        SessionStartEvent,
        SessionTreeEvent,
        ThinkingLevelSelectEvent,
    )

    from .exporters import Exporters
    from .session import Sessions

__version__ = "0.1.0"

manifest = Manifest(
    name="diagnostics",
    api=1,
    host=">=0.1,<0.2",
    description="Says what extended and what broke the prefix (/unipi:prefix-cache).",
)

_exporters: Exporters | None = None


@cache
def _sessions() -> Sessions:
    # Made when there is something to see: a host that only lists plugins pays nothing, and the first
    # request of a session does not wait for it.
    from .session import Sessions

    return Sessions()


async def _prefix_cache(_: str, ctx: Context) -> str:
    from .report import render

    model = ctx.model
    prices = model.prices if model is not None else None
    return render(_sessions().of(ctx.session.id), prices, ctx.context_usage())


async def _status(_: str, ctx: Context) -> str:
    return (
        "/unipi:prefix-cache says what extended and what broke this session's prefix, and what it\n"
        "cost. In a shell `unipi doctor` looks at settings, plugins, keys and session files, and\n"
        "`unipi cache report --last` at the last session."
    )


@hookimpl
def register_commands(ctx: LoadContext) -> Sequence[Command]:
    return [
        Command(
            "unipi:prefix-cache",
            "What extended the provider's cached prefix in this session, and what broke it.",
            _prefix_cache,
        ),
        Command("unipi:status", "Where to look for what.", _status),
    ]


@hookimpl
def session_start(event: SessionStartEvent, ctx: Context) -> Awaitable[None] | None:
    if _sessions.cache_info().currsize:
        _sessions().reset(ctx.session.id)
    return _exporting(ctx)


def _exporting(ctx: Context) -> Awaitable[None] | None:
    """What has to be waited for before figures go out; nothing, and nothing imported, when off."""
    global _exporters
    if _exporters is None:
        if not (ctx.settings.get("otel") or ctx.settings.get("prometheus")):
            return None
        from .exporters import Exporters

        _exporters = Exporters()
    return _exporters.switch_on(ctx) if _exporters.wanted(ctx.settings) else None


@hookimpl
def session_shutdown(event: SessionShutdownEvent, ctx: Context) -> None:
    if _sessions.cache_info().currsize:
        _sessions().drop(ctx.session.id)


@hookimpl
def provider_request_sealed(event: ProviderRequestSealedEvent, ctx: Context) -> None:
    _sessions().of(ctx.session.id).sealed(event)


@hookimpl
def provider_response_end(event: ProviderResponseEndEvent, ctx: Context) -> None:
    _sessions().of(ctx.session.id).ended(event, ctx.cache_state)
    if _exporters is not None:
        _exporters.response(event, ctx.session.id)


@hookimpl
def session_compact(event: SessionCompactEvent, ctx: Context) -> None:
    _sessions().of(ctx.session.id).mark("compaction", event.from_plugin or "host")


@hookimpl
def session_tree(event: SessionTreeEvent, ctx: Context) -> None:
    if event.new_leaf_id != event.old_leaf_id:
        _sessions().of(ctx.session.id).mark("tree", "user")


@hookimpl
def model_select(event: ModelSelectEvent, ctx: Context) -> None:
    old, new = event.previous_model, event.model
    if old and (old.provider, old.id, old.api) != (new.provider, new.id, new.api):
        _sessions().of(ctx.session.id).mark("model", "user")


@hookimpl
def thinking_level_select(event: ThinkingLevelSelectEvent, ctx: Context) -> None:
    if event.level != event.previous_level:
        _sessions().of(ctx.session.id).mark("thinking", "user")


@hookimpl
def epoch_boundary(event: EpochBoundaryEvent, ctx: Context) -> None:
    _sessions().of(ctx.session.id).boundary(event.boundary)
    if _exporters is not None:
        _exporters.boundary(event.boundary)
