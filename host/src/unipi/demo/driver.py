"""The demo from beginning to end: a project, a provider and an agent for each session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.agent import (
    AgentError,
    AgentOptions,
    RunFailedError,
    open_agent,
    prepare_host,
)
from unipi.builtin import ESSENTIAL, builtin_plugins
from unipi.loader import LoadOptions
from unipi.session import Session
from unipi.tools.specs import PASS_ENV
from unipi_hookspecs import CustomMessage

from .errors import DemoError as DemoError
from .events import Asked, ProviderChosen, RunBegins
from .plans import PLANS
from .project import ENVIRONMENT, environment, make_project
from .provider import choose_provider
from .report import DemoReport, Run
from .script import LAST_ANSWER, PROMPTS
from .state import STATE_TYPE
from .watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from unipi.agent import Host

    from .events import Tell
    from .plans import Plan
    from .provider import Provider


def _silent(_event: object) -> None:
    return None


async def run_demo(folder: Path, *, simulator: bool = False, tell: Tell = _silent) -> DemoReport:
    """Run the three sessions in `folder`, an empty folder that keeps what they leave behind.

    Nothing of the user's is read: no settings, no plugins, no git configuration. `simulator` says
    not to look for the engine. `tell` gets the values of `unipi.demo.events`.

    Raises DemoError when a session cannot run at all.
    """
    provider = await choose_provider(folder, simulator=simulator)
    tell(ProviderChosen(provider))
    with environment():
        steady, record, enforce = [
            await _run(number, plan, provider, folder / plan.name, tell)
            for number, plan in enumerate(PLANS, 1)
        ]
    return DemoReport(provider, steady, record, enforce)


async def _run(number: int, plan: Plan, provider: Provider, folder: Path, tell: Tell) -> Run:
    project = folder / "project"
    await make_project(project)
    host = _host(plan, project)
    tell(RunBegins(number, plan))
    session = Session.create(folder / "session.jsonl", cwd=project)
    watch = Watch(tell)
    options = AgentOptions(policy=plan.policy, max_turns=20, wants_bodies=True)
    try:
        async with (
            provider.serve() as url,
            open_agent(host, session, provider.model(url), options, observer=watch) as agent,
        ):
            for prompt in PROMPTS:
                tell(Asked(prompt))
                await agent.prompt(prompt)
            messages = session.messages()
    except (AgentError, RunFailedError) as error:
        raise DemoError(f"the session {plan.name!r} stopped: {error}") from error
    return Run(
        plan=plan,
        prompts=len(PROMPTS),
        requests=len(watch.answers),
        prompt_tokens=sum(answer.prompt_tokens for answer in watch.answers),
        cache_read_tokens=sum(answer.cache_read_tokens for answer in watch.answers),
        cost=watch.cost,
        boundaries=tuple(watch.boundaries),
        rewritten=watch.rewritten,
        violations=watch.violations,
        state_messages=sum(
            isinstance(m, CustomMessage) and m.custom_type == STATE_TYPE for m in messages
        ),
        warnings=tuple((n.plugin or "host", n.text) for n in watch.warnings),
        strayed=_strayed(watch),
    )


def _host(plan: Plan, project: Path) -> Host:
    host = prepare_host(
        project,
        LoadOptions(
            entry_points=False,
            builtins=(*builtin_plugins(resources=False), *plan.plugins),
            essential=ESSENTIAL,
            settings={"tools": {PASS_ENV: sorted(ENVIRONMENT)}},
        ),
    )
    if host.problems:
        raise DemoError(f"the demo's own plugins do not load: {host.problems[0].message}")
    return host


def _strayed(watch: Watch) -> str:
    """Why the scripted agent did not come to its end, or nothing when it did."""
    if watch.failed_tools:
        return f"a tool failed: {watch.failed_tools[0]}"
    if watch.last_answer != LAST_ANSWER:
        return f"the scripted agent lost its way; its last answer is {watch.last_answer!r}"
    return ""
