"""Opening an agent on a session: resume its epoch where the bytes allow, start its plugins, and
end everything in order.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from attrs import field, frozen

from unipi.prefix.ledger import Ledger, Reason
from unipi.prefix.lineage import Item
from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers import Transport, api_for, find_secret
from unipi.providers.verbs import betas
from unipi.session import SessionWriteError
from unipi.tools.bound import Artifacts
from unipi_hookspecs import SessionShutdownEvent, SessionStartEvent

from . import records
from .agent import Agent
from .compacting import CompactionOptions
from .keep_warm import KeepWarm
from .notices import Notice, nobody
from .requests import RetryPolicy
from .toolbox import Toolbox
from .ui import PatientUI, SilentUI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from unipi.prefix.guard import PrefixPolicy
    from unipi.session import Session
    from unipi_hookspecs import UI, Model, ThinkingLevel

    from .cache_ttl import CacheTtl
    from .host import Host
    from .notices import Observer

_SHUTDOWN_SECONDS = 5.0
_ARTIFACT_DAYS = 30
_ARTIFACT_BYTES = 1 << 30


@frozen
class AgentOptions:
    """The choices of one run. `save_wait` is how many seconds a full disk may pause a turn;
    `cache_ttl` how long the provider is to keep the prompt, see `agent.cache_ttl`; `keep_warm` how
    often an idle session renews that time."""

    thinking: ThinkingLevel = "off"
    policy: PrefixPolicy = "enforce"
    max_turns: int = 200
    save_wait: float = 30.0
    retry: RetryPolicy = field(factory=RetryPolicy)
    compaction: CompactionOptions = field(factory=CompactionOptions)
    fresh_head: bool = False
    cache_ttl: CacheTtl = "5m"
    keep_warm: KeepWarm = field(factory=KeepWarm)
    wants_deltas: bool = False
    wants_bodies: bool = False


@asynccontextmanager
async def open_agent(
    host: Host,
    session: Session,
    model: Model,
    options: AgentOptions = AgentOptions(),
    *,
    observer: Observer = nobody,
    ui: UI | None = None,
) -> AsyncIterator[Agent]:
    """An agent that works in `session` until the block ends.

    On leaving, plugins hear `session_shutdown`, their tasks end, and the session file is closed.
    """

    def warn(plugin: str, text: str) -> None:
        observer(Notice("warning", text, plugin))

    failure: Exception | None = None
    async with Transport() as transport, anyio.create_task_group() as tasks:
        agent = Agent(
            session=session,
            hooks=host.hooks,
            api=api_for(model.api),
            model=model,
            transport=transport,
            toolbox=Toolbox(host.tools, warn),
            tasks=tasks,
            ui=PatientUI(ui or SilentUI(observer)),
            commands=host.commands,
            artifacts=_artifacts(session),
            find_secret=find_secret,
            thinking=options.thinking,
            policy=options.policy,
            observer=observer,
            settings=host.settings,
            retry=options.retry,
            compaction=options.compaction,
            cache_ttl=options.cache_ttl,
            keep_warm=options.keep_warm,
            max_turns=options.max_turns,
            save_wait=options.save_wait,
            missing_required=host.loaded.missing_required,
            wants_deltas=options.wants_deltas,
            wants_bodies=options.wants_bodies,
        )
        agent.side_host = host
        host.hooks.bind(agent.contexts.of)
        try:
            await _begin(agent, fresh_head=options.fresh_head)
            yield agent
        except Exception as error:  # noqa: BLE001 - raised below, bare rather than in a group
            failure = error
        finally:
            with anyio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
                await host.hooks.session_shutdown(SessionShutdownEvent("quit"))
            agent.contexts.end("session_shutdown")
            host.hooks.unbind()
            tasks.cancel_scope.cancel()
            try:
                session.close()
            except SessionWriteError as error:
                failure = failure or error
    if failure is not None:
        raise failure


def _artifacts(session: Session) -> Artifacts | None:
    if session.path is None:
        return None
    artifacts = Artifacts(session.path.with_suffix(".artifacts"), session.secret())
    artifacts.clean(max_age=_ARTIFACT_DAYS * 86_400, max_bytes=_ARTIFACT_BYTES)
    return artifacts


async def _begin(agent: Agent, *, fresh_head: bool) -> None:
    resumed = bool(agent.session.context())
    closed = agent.session.close_open_calls("the previous run ended before this call had finished")
    if closed:
        text = f"{len(closed)} tool calls of the previous run had no result; they are marked so"
        agent.observer(Notice("info", text))
    for item in agent.session.context():
        agent.lineage.append(Item(item.entry_id, item.message))
    agent.tail.remember(agent.session.messages())
    await agent.prompt_text.discover("startup")
    if resumed:
        _resume(agent, fresh_head=fresh_head)
        agent.verbs.rebuilt()
    await agent.hooks.session_start(SessionStartEvent("resume" if resumed else "startup"))


def _resume(agent: Agent, *, fresh_head: bool) -> None:
    """Go on with the stored head and the same bytes, or say why that cannot be."""
    branch = agent.session.branch()
    for data in records.every(branch, records.PROJECTION):
        agent.lineage.unbound.update(records.unbound_from(data))
        decision = records.decision_from(data)
        if decision is not None:
            agent.lineage.decide(decision)
    stored = records.latest(branch, records.HEAD)
    request = records.latest(branch, records.REQUEST) or {}
    mark = records.mark_from(request)
    if stored is None or mark is None:
        return
    begun = records.latest(branch, records.EPOCH) or {}
    number = begun.get("number")
    agent.lineage.ledger = Ledger(max(mark.epoch, number if isinstance(number, int) else 0))
    head = records.head_from(stored)
    if head is None:
        return
    if agent.lineage.ledger.number > mark.epoch:  # the process ended between boundary and request
        agent.lineage.want_boundary(records.reason_from(begun))
        return
    making = records.making_from(stored, head)
    spec = _stored_spec(agent, stored)
    fresh = Reason("reload", "user", detail="a fresh head was asked for") if fresh_head else None
    reason = (
        records.compacted_since_request(branch) or fresh or _ended(agent, stored, request, spec)
    )
    if reason is None and agent.lineage.resume(spec, head, mark):
        gone = agent.toolbox.restore([tool.name for tool in spec.tools])
        agent.prompt_text.restore(spec, making.prompt, making.edits)
        agent.requester.restore_shapes(making.shapes)
        agent.restore_head(spec, making.base)
        both = agent.lineage.after_sent()
        if both is not None and agent.verbs.stand_in(*both) is not None:
            detail = "another program went on where an answer had to come"
            agent.lineage.want_boundary(Reason("resume", "host", detail=detail))
        _tell_changes(agent, gone)
        return
    agent.lineage.want_boundary(
        reason or Reason("resume", "host", detail="the stored prefix could not be rebuilt")
    )


def _ended(
    agent: Agent, stored: records.Data, request: records.Data, spec: HeadSpec
) -> Reason | None:
    """Why the stored epoch cannot go on, as far as is known before its bytes are rebuilt."""
    if not _same_model(agent, stored):
        return Reason("model", "user", detail="another model was chosen")
    if (stored.get("betas") or "") != betas(agent.model):
        return Reason("payload_shape", "host", detail="the model's beta headers are others now")
    if not agent.verbs.same_level(spec):
        return Reason("thinking", "user", detail="another level was chosen")
    rewriter = request.get("rewrittenBy")
    if isinstance(rewriter, str):
        return Reason("plugin_rewrite", rewriter, avoidable=True, detail="ended by a restart")
    return None


def _stored_spec(agent: Agent, stored: records.Data) -> HeadSpec:
    """The head's specification as far as it is stored; schemas live in the head's bytes alone."""
    system, tools = stored.get("system"), stored.get("tools")
    return HeadSpec(
        model=agent.model,
        system=tuple(str(text) for text in system) if isinstance(system, list) else (),
        tools=tuple(ToolSpec(str(name), "", b"") for name in tools)
        if isinstance(tools, list)
        else (),
        thinking=stored.get("thinking") or "off",  # type: ignore[arg-type]  # a level when written
        lineage=agent.session.id,
        options=agent.model.options,
        ttl=str(stored.get("ttl") or ""),
    )


def _same_model(agent: Agent, stored: records.Data) -> bool:
    model = agent.model
    return (
        stored.get("provider") == model.provider
        and stored.get("model") == model.id
        and stored.get("api") == model.api
    )


def _tell_changes(agent: Agent, gone: Sequence[str]) -> None:
    """What has changed since the stored head was made; the session goes on with what it has."""
    changes = []
    if gone:
        changes.append(f"tools that are gone: {', '.join(gone)}")
    if agent.toolbox.pending and not agent.verbs.adds_tools:
        changes.append(f"tools that wait for the next epoch: {', '.join(agent.toolbox.pending)}")
    if not changes and agent.prompt_text.base() != agent.prompt_text.given:
        changes.append("the base prompt would be another one now")
    if changes:
        text = f"resumed with the stored head ({'; '.join(changes)}); --fresh-head takes a new one"
        agent.observer(Notice("info", text))
