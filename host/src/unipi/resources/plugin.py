"""Instruction files and skills in the head of an epoch, and what has changed of them at its tail.

What the model has been told, by the head or by a message, is kept in the session by digest (the entry
`unipi.resources`). So a session that is opened again goes on with its own head, hears of a file that
was edited meanwhile as one message at the tail, and of one that was only touched nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.loader.paths import user_dir
from unipi_hookspecs import Manifest, Resources, Transform, hookimpl

from .context_files import context_files
from .skills import find_skills, skill_text
from .templates import expand, find_template

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unipi_hookspecs import (
        BeforeAgentStartEvent,
        Context,
        InputEvent,
        ResourcesDiscoverEvent,
        SessionShutdownEvent,
    )

ENTRY = "unipi.resources"
NOTE = "project-instructions"
SKILLS = "skills"
"""The name of the list of skills among the digests; all other names are paths of files."""

_known: dict[str, dict[str, str] | None] = {}
"""What the model of each open session has been told: digests by name."""

manifest = Manifest(
    name="resources", description="Instruction files (AGENTS.md), skills and prompt templates."
)


@hookimpl
def resources_discover(event: ResourcesDiscoverEvent, ctx: Context) -> Resources | None:
    """The text of all files, for the head of the next epoch."""
    texts = [file.shown for file in context_files(ctx.cwd, user_dir())]
    skills = find_skills(ctx.cwd, user_dir())
    for problem in skills.problems:
        ctx.ui.notify(problem, level="warning")
    if skills.listing:
        texts.append(skills.listing)
    return Resources(texts) if texts else None


@hookimpl
async def before_agent_start(event: BeforeAgentStartEvent, ctx: Context) -> None:
    """Tell of what has changed since the model was told, before it is asked anything."""
    now = _now(ctx.cwd)
    digests = {name: digest for name, (digest, _) in now.items()}
    session = ctx.session.id
    told = _known[session] if session in _known else _told(ctx)
    if digests == (told or {}):
        _known[session] = told
        return
    if not ctx.cache_state().boundary_due:  # else the head has it
        await _tell(ctx, told or {}, now)
    await ctx.append_entry(ENTRY, {**digests})
    _known[session] = digests


@hookimpl
def session_shutdown(event: SessionShutdownEvent, ctx: Context) -> None:
    """Forget the session."""
    _known.pop(ctx.session.id, None)


@hookimpl
def input(event: InputEvent, ctx: Context) -> Transform | None:  # noqa: A001 - the hook's name
    """`/skill:name` and `/template words` become the text that they stand for."""
    if not event.text.startswith("/"):
        return None
    name, _, words = event.text[1:].partition(" ")
    if name.startswith("skill:"):
        return _skill(name.removeprefix("skill:"), words.strip(), ctx)
    path = find_template(name, ctx.cwd, user_dir())
    if path is None:
        return None
    try:
        return Transform(expand(path, words.strip()))
    except OSError as error:
        ctx.ui.notify(f"{path}: {error.strerror or error}", level="error")
        return None


def _skill(name: str, words: str, ctx: Context) -> Transform | None:
    known = {skill.name: skill for skill in find_skills(ctx.cwd, user_dir()).found}
    if name not in known:
        listed = ", ".join(known) or "none here"
        ctx.ui.notify(f"there is no skill {name!r}; there are: {listed}", level="warning")
        return None
    try:
        text = skill_text(known[name])
    except OSError as error:
        ctx.ui.notify(f"{known[name].path}: {error.strerror or error}", level="error")
        return None
    return Transform(f"{text}\n\n{words}" if words else text)


def _now(cwd: Path) -> dict[str, tuple[str, str]]:
    """Digest and text of each file and of the list of skills."""
    found = {str(f.path): (f.digest, f.shown) for f in context_files(cwd, user_dir())}
    skills = find_skills(cwd, user_dir())
    if skills.listing:
        found[SKILLS] = (skills.digest, skills.listing)
    return found


def _told(ctx: Context) -> dict[str, str] | None:
    """What the model has been told on this branch, or None: nothing was ever kept."""
    for entry in reversed(ctx.session.branch()):
        if entry.type == "custom" and entry.fields.get("customType") == ENTRY:
            data = entry.fields.get("data")
            return {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {}
    return None


async def _tell(ctx: Context, told: Mapping[str, str], now: Mapping[str, tuple[str, str]]) -> None:
    changed = [name for name, (digest, _) in now.items() if told.get(name) != digest]
    gone = [name for name in told if name not in now]
    parts = [now[name][1] for name in changed]
    parts += [f"{name} is no longer there; what it said does not hold any more." for name in gone]
    head = "These have changed since the start of the conversation, and hold as they are now:"
    await ctx.append_message(NOTE, "\n\n".join([head, *parts]), display=False)
    state = ctx.cache_state()
    price = f", ${state.price:.2f}" if state.price else ""
    ctx.ui.notify(
        f"{', '.join([*changed, *gone])} changed: told at the tail, the prompt stays as it is. "
        f"/reload puts it into the head and reads {state.tokens:,} tokens anew{price}"
    )
