"""What the host's own slash commands do. Those of plugins, templates and skills are the agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from unipi.providers import ModelError, api_for, find_model
from unipi.providers.models import thinking_levels
from unipi_hookspecs import SessionInfoChangedEvent

from . import moves

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from unipi_hookspecs import ThinkingLevel

    from .shell import Shell


@frozen
class Own:
    """A command of the prompt's own; `any_time` says that it may run beside a turn."""

    about: str
    run: Callable[[Shell, str], Awaitable[str | None]]
    any_time: bool = False


OF_AGENT = {
    "compact": "put a summary in the place of what is old; words behind it say what to mind",
    "continue": "let the model go on without a new prompt",
    "reload": "read instruction files and skills anew: a boundary",
}
"""Commands that the agent itself knows, and that wait for a turn to end."""


async def _help(shell: Shell, rest: str) -> str:
    found = described(shell)
    width = max(map(len, found))
    lines = [f"  /{name:<{width}}  {found[name]}" for name in sorted(found)]
    return "\n".join([*lines, "", *_KEYS])


_KEYS = (
    "  Enter sends; while a turn runs it is said before the next request",
    "  Alt-Enter begins a new line; while a turn runs it says the text once the turn is done",
    "  Tab completes commands and file names, Ctrl-O shows the last tool result in full",
    "  Ctrl-C stops the turn; twice at an idle prompt, or Ctrl-D, leaves",
)


async def _model(shell: Shell, rest: str) -> str | None:
    agent = shell.agent
    name = rest
    if not name:
        shell.console.write(f"the model is {agent.model.name}")
        chosen = await agent.ui.select("which model", sorted(shell.host.models))
        if chosen is None:
            return None
        name = chosen
    try:
        model = find_model(name, shell.host.models)
    except ModelError as error:
        return str(error)
    if model == agent.model:
        return f"the model is {model.name} already"
    await agent.set_model(model, api_for(model.api))
    return f"{model.name} answers from now on; its next request begins an epoch"


async def _thinking(shell: Shell, rest: str) -> str | None:
    agent = shell.agent
    levels = level_names(shell)
    level: str | None = rest
    if not level:
        shell.console.write(f"thinking is {agent.thinking}")
        level = await agent.ui.select("which level", levels)
    if not level:
        return None
    if level not in levels:
        return f"{agent.model.name} has no level {level!r}; it has {', '.join(levels)}"
    await agent.set_thinking(level)
    return f"thinking is {level} from now on"


async def _name(shell: Shell, rest: str) -> str:
    agent = shell.agent
    if not rest:
        name = agent.session.name
        return f"the session's name is {name!r}" if name else "the session has no name"
    name = " ".join(rest.split())
    agent.session.append("session_info", {"name": name})
    await agent.hooks.session_info_changed(SessionInfoChangedEvent(name))
    return f"the session's name is {name!r} from now on"


async def _expand(shell: Shell, rest: str) -> str:
    return shell.transcript.expanded()


async def _quit(shell: Shell, rest: str) -> None:
    shell.leaving = True


async def _status(shell: Shell, rest: str) -> str:
    where = shell.agent.session.path
    return f"{shell.status()}\n{where or 'in memory'}"


COMMANDS: Mapping[str, Own] = {
    "clone": Own("go on in a copy of this session", moves.clone),
    "expand": Own("show the last tool result in full", _expand, any_time=True),
    "fork": Own("go on in a copy that ends before one of your prompts", moves.fork),
    "help": Own("this list", _help, any_time=True),
    "model": Own("choose the model that answers", _model),
    "name": Own("give the session a name", _name, any_time=True),
    "new": Own("begin a new session", moves.new),
    "quit": Own("leave", _quit, any_time=True),
    "resume": Own("go on with another session of this folder", moves.resume),
    "status": Own("context, cache and the last boundary", _status, any_time=True),
    "thinking": Own("choose how much the model thinks", _thinking),
    "tree": Own("go on from another entry of this session", moves.tree),
}


def level_names(shell: Shell) -> list[ThinkingLevel]:
    """The thinking levels that make a difference for the model, and "off"."""
    return ["off", *thinking_levels(shell.agent.model)]  # type: ignore[list-item]  # its keys are levels


def described(shell: Shell) -> dict[str, str]:
    """Every command by name, with what it is for; of one name, the one that runs."""
    from unipi.loader.paths import user_dir
    from unipi.resources.skills import find_skills
    from unipi.resources.templates import FOLDERS, find_template

    cwd, user = shell.host.cwd, user_dir()
    found: dict[str, str] = {}
    for skill in find_skills(cwd, user).found:
        found[f"skill:{skill.name}"] = skill.description
    for folder in (*(cwd / each for each in FOLDERS), user / "prompts"):
        for path in folder.glob("*.md"):
            if find_template(path.stem, cwd, user) is not None:
                found[path.stem] = f"the template {path.stem}.md"
    found |= OF_AGENT
    found |= {name: command.description for name, (_, command) in shell.agent.commands.items()}
    found |= {name: own.about for name, own in COMMANDS.items()}
    return found


def arguments(shell: Shell) -> Mapping[str, Callable[[], Sequence[str]]]:
    """What can stand behind a command, for those where it is known."""
    return {
        "model": lambda: sorted(shell.host.models),
        "thinking": lambda: level_names(shell),
        "resume": lambda: [info.id for info in moves.others(shell)],
    }
