"""What `unipi doctor` looks at: whether the configured servers can be had, without starting one."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from unipi_hookspecs import Check, CheckResult

from . import definitions
from .config import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import LoadContext

_FIX = "`unipi mcp test` starts each server once and says what it lists"


def checks(ctx: LoadContext) -> Sequence[Check]:
    """One check over all servers."""
    return [Check("MCP servers", lambda: _look(ctx), _FIX)]


def _look(ctx: LoadContext) -> CheckResult:
    found = load(
        ctx.cwd,
        ctx.user_dir,
        trusted=ctx.project_trusted,
        settings=ctx.settings,
        environ=os.environ,
    )
    folder = definitions.folder(ctx.state_dir)
    wrong = [str(each) for each in found.problems]
    waiting = []
    enabled = [server for server in found.servers if server.enabled]
    for server in enabled:
        path = server.env.get("PATH")
        if server.command and shutil.which(server.command, path=path) is None:
            wrong.append(f"{server.name}: there is no command {server.command!r} here")
        try:
            if definitions.read_pending(folder, server) is not None:
                waiting.append(server.name)
            definitions.read(folder, server)
        except definitions.CatalogueError as error:
            wrong.append(str(error))
    if wrong:
        return CheckResult("failed", "; ".join(wrong), _FIX)
    if waiting:
        told = f"definitions of {', '.join(waiting)} wait for approval"
        return CheckResult("warning", told, "`unipi mcp approve` shows what has changed")
    return CheckResult("ok", f"{len(enabled)} enabled")
