"""A plugin that behaves: it keeps the model informed of what `git status` says, at the tail.

The state changes all the time and the prefix never does: each snapshot is a new message that says
that it replaces the ones before it, and the host appends it only when it differs.
"""

from __future__ import annotations

from unipi_hookspecs import Context, Manifest, TurnEndEvent, hookimpl

manifest = Manifest(name="git-state", description="Tells the model what `git status` says.")
STATE_TYPE = "git-state"


@hookimpl
async def turn_end(event: TurnEndEvent, ctx: Context) -> None:
    """Say what has changed since the last commit, if that is news."""
    done = await ctx.run_process(
        ["git", "status", "--porcelain"], timeout=3, env={"GIT_OPTIONAL_LOCKS": "0"}
    )
    if done.exit_code != 0:
        return
    changed = done.stdout.rstrip("\n")
    text = f"Not committed:\n{changed}" if changed else "Everything is committed."
    await ctx.append_message(STATE_TYPE, text, display=False, supersedes=True)
