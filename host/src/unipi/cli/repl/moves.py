"""Commands that go to another session, or to another place in this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent.moving import may_fork, may_switch, move_to
from unipi.cli._summary import printable
from unipi.session import Session, find_session, list_sessions, new_session_path
from unipi_hookspecs import UserMessage

from .choice import model_of, thinking_of
from .transcript import brief

if TYPE_CHECKING:
    from pathlib import Path

    from unipi.session import SessionInfo
    from unipi_hookspecs import Entry

    from .shell import Shell


async def new(shell: Shell, rest: str) -> str | None:
    """`/new`: another session, with the same model."""
    why_not = await may_switch(shell.agent, "new", None)
    if why_not is not None:
        return why_not
    session = Session.create(None, cwd=shell.host.cwd)
    if shell.agent.session.path is not None:
        path, id_ = new_session_path(shell.host.cwd)
        session = Session.create(path, cwd=shell.host.cwd, id=id_)
    _go(shell, session)
    return None


async def resume(shell: Shell, rest: str) -> str | None:
    """`/resume [id or file]`: a session that is there, with the model that answered last in it."""
    path = find_session(rest, shell.host.cwd) if rest else await _choose(shell)
    if path is None:
        return None if others(shell) else "there is no other session of this folder"
    here = shell.agent.session.path
    if here is not None and path.resolve() == here.resolve():
        return "that is this session"
    why_not = await may_switch(shell.agent, "resume", path)
    if why_not is not None:
        return why_not
    session = Session.open(path)
    if session.read_only:
        session.close()
        return f"{path}: can only be read; `unipi --fork` goes on in a file of its own"
    _go(shell, session)
    return None


async def clone(shell: Shell, rest: str) -> str | None:
    """`/clone`: a copy of this branch, to its end."""
    session = shell.agent.session
    leaf = session.leaf_id
    if leaf is None or not session.messages():
        return "there is nothing to copy yet"
    why_not = await may_fork(shell.agent, leaf, "at")
    if why_not is not None:
        return why_not
    _go(shell, session.fork(_path_of_copy(shell), leaf))
    return None


async def fork(shell: Shell, rest: str) -> str | None:
    """`/fork [entry]`: a copy that ends before a prompt, which can then be said in other words."""
    session = shell.agent.session
    said = [entry for entry in session.branch() if isinstance(entry.message, UserMessage)]
    if not said:
        return "nothing has been said yet"
    entry = await _which(shell, said, rest, "before which prompt")
    if entry is None:
        return f"there is no prompt {rest!r} on this branch" if rest else None
    why_not = await may_fork(shell.agent, entry.id, "before")
    if why_not is not None:
        return why_not
    _go(shell, session.fork(_path_of_copy(shell), entry.parent_id), prefill=_words(entry))
    return None


async def tree(shell: Shell, rest: str) -> str | None:
    """`/tree [entry]`: go on from another message of this session; nothing is lost.

    From one of the user's own it goes on before it, with its text on the line to be changed.
    """
    session = shell.agent.session
    saying = [entry for entry in session.entries() if entry.message is not None]
    if not saying:
        return "nothing has been said yet"
    entry = await _which(shell, saying, rest, "go on behind which entry")
    if entry is None:
        return f"there is no message {rest!r} in this session" if rest else None
    summarize = await shell.agent.ui.confirm("keep a summary of what is left behind?")
    moved = await move_to(shell.agent, entry.id, summarize=summarize)
    if moved.moved:
        shell.console.prefill(moved.prefill)
    return moved.told


def others(shell: Shell) -> list[SessionInfo]:
    """The user's other sessions of this folder, the last written first."""
    here = shell.agent.session.id
    return [info for info in list_sessions(shell.host.cwd) if not info.side and info.id != here]


async def _choose(shell: Shell) -> Path | None:
    found = {
        f"{info.id}  {info.modified[:16].replace('T', ' ')}  {info.name or info.first}": info.path
        for info in others(shell)
    }
    chosen = await shell.agent.ui.select("which session", list(found))
    return found[chosen] if chosen is not None else None


async def _which(shell: Shell, entries: list[Entry], rest: str, question: str) -> Entry | None:
    if rest:
        return next((entry for entry in entries if entry.id == rest), None)
    lines = {f"{entry.id}  {_summary(entry)}": entry for entry in entries}
    chosen = await shell.agent.ui.select(question, list(lines))
    return lines[chosen] if chosen is not None else None


def _summary(entry: Entry) -> str:
    assert entry.message is not None, "only what was said is listed"
    return f"{entry.message.role}: {brief({'text': printable(_words(entry))})}"


def _words(entry: Entry) -> str:
    message = entry.message
    assert message is not None, "only what was said is listed"
    if message.role == "summary":
        return message.summary
    if message.role == "bashExecution":
        return message.command
    if isinstance(message.content, str):
        return message.content
    words = []
    for block in message.content:
        if block.type == "text":
            words.append(block.text)
        elif block.type == "toolCall":
            words.append(f"[{block.name} {brief(block.arguments)}]")
    return "".join(words)


def _path_of_copy(shell: Shell) -> Path | None:
    return None if shell.agent.session.path is None else new_session_path(shell.host.cwd)[0]


def _go(shell: Shell, session: Session, *, prefill: str = "") -> None:
    from .shell import Start

    agent = shell.agent
    model = model_of(session, shell.host.models) or agent.model
    thinking = thinking_of(session) or agent.thinking
    shell.following = Start(session, model, thinking, prefill)
