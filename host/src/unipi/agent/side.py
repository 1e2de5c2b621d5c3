"""A request beside the session's own line: its whole prefix, and a tail that is never kept.

It reads what the session's last request wrote to the cache, which a request with a prompt of its
own could not. The session's line does not move for it: no byte, no boundary, no count.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from unipi_hookspecs import RequestInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import AssistantMessage, Message, Purpose

    from .agent import Agent


async def ask_beside(
    agent: Agent, purpose: Purpose, tail: Sequence[Message], upto: int | None = None
) -> AssistantMessage:
    """Send the session's prefix with `tail` behind it, and return the answer.

    `upto` takes only so many messages of the prefix. Nothing is stored. Raises `ProviderError`.
    """
    spec = agent.head_spec()
    model = agent.model
    shown, _ = agent.lineage.project()
    last = shown[: len(shown) if upto is None else upto][-1:]
    stand_in = agent.verbs.stand_in(last[0], tail[0]) if last else None
    if stand_in is not None:
        tail = [stand_in, *tail]
    info = RequestInfo(
        request_id=uuid.uuid4().hex,
        attempt=0,
        purpose=purpose,
        provider=model.provider,
        api=model.api,
        model=model.id,
        epoch=agent.lineage.ledger.number,
    )
    sealed = agent.lineage.beside(spec, agent.head(spec), tail, upto)
    return await agent.requester.send(sealed, info, beside=True)
