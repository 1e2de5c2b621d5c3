"""The tool `session_recall`."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from . import state
from .index import has_ids
from .recall import Query, Recall, live_ids

if TYPE_CHECKING:
    from unipi_hookspecs import Call, Context


async def run(call: Call, ctx: Context) -> str:
    """Answer a call; the index is read and written in a worker thread.

    Raises RuntimeError with what to do when there is no index to be had.
    """
    session = ctx.session
    own = state.of(ctx)
    path = session.path
    if own.recall is None or own.recall_path != path:
        # A session that was in no file, or in one of version 1, moves with its first entry.
        if own.recall is not None:
            own.recall.close()
        from_file = path is not None and has_ids(path)
        own.recall = Recall(session.id, str(session.cwd), path, from_file=from_file)
        own.recall_path, own.recall_from_file = path, from_file
    entries = () if own.recall_from_file else session.entries()
    ask = partial(own.recall.ask, Query.read(call.input), entries, live_ids(session.branch()))
    try:
        answer = await to_thread.run_sync(ask)
    except (OSError, sqlite3.Error) as error:
        raise RuntimeError(
            f"the index of earlier history cannot be used now ({error}); try again, "
            "or read the session file"
        ) from error
    return ctx.bound_output(answer, label="recall").text
