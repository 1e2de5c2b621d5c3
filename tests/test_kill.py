"""`kill -9` of a run, at any moment: what was acknowledged is there, and the session goes on."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import anyio
import pytest
from attrs import evolve, field, frozen

from unipi.agent import open_agent
from unipi.session import Session
from unipi.sim import Answer, Call, Say, Simulator, run_simulator
from unipi.testing import prefix_breaks
from unipi.testing.lab import host, model
from unipi_hookspecs import AssistantMessage, EpochBoundaryEvent

# Two hundred take a minute on two cores: `make test FULL=1`. A usual run does with fewer.
POINTS = 200 if os.environ.get("UNIPI_FULL") else 60
TURNS = 5
THROUGH_CLI = 30  # every so many points the session goes on in a process of its own


def script(request: Mapping[str, object], index: int) -> Answer:
    """Some tool calls, two at once, then an answer; the same again for the next prompt."""
    messages = request["messages"]
    assert isinstance(messages, list)
    answers = sum(message["role"] == "assistant" for message in messages)
    if answers % TURNS == TURNS - 1:
        return Answer([Say("All of it is done.")], delay=0.004)
    echo = Call("bash", {"command": f"echo line {answers}"})
    return Answer([Say("Next."), echo, echo], chunk=12, delay=0.002)


@frozen
class Killed:
    """A run and the complete lines that it printed; `took` is its launch and its work, seconds."""

    number: int
    path: Path
    finished: bool
    told: list[dict[str, object]] = field(repr=False)
    took: tuple[float, float]

    def lines(self, kind: str) -> list[dict[str, object]]:
        return [line for line in self.told if line["type"] == kind]

    @property
    def stage(self) -> str:
        if self.finished:
            return "after the end"
        if not self.path.exists():
            return "before the session"
        return "between saves" if self.lines("saved") else "before the first save"


def prompt(number: int) -> str:
    return f"task {number}."


def arguments(path: Path, number: int) -> list[str]:
    return ["run", "--json", "--model", "sim/one", "--session", str(path), "-p", prompt(number)]


@frozen
class Moment:
    """When to kill: so many seconds after the launch, or after the first line of output."""

    seconds: float
    after_first_line: bool = True


def run_until(cli, number: int, moment: Moment) -> Killed:
    """Start a run and kill it at a moment, unless it has ended by then."""
    path = cli.folder / f"s{number}.jsonl"
    began = time.monotonic()
    with cli.start(*arguments(path, number)) as process:
        timer = Timer(moment.seconds, process.kill)
        if not moment.after_first_line:
            timer.start()
        out = process.stdout.readline()
        first = time.monotonic()
        if moment.after_first_line:
            timer.start()
        out += process.stdout.read()
        process.wait(20)
        timer.cancel()
        assert process.returncode in (0, -9), process.stderr.read()
    told = [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
    took = (first - began, time.monotonic() - first)
    return Killed(number, path, process.returncode == 0, told, took)


def moments(start: float, work: float) -> list[Moment]:
    """Spread over the launch, which takes `start` seconds, and the work after it, and beyond."""
    chance = random.Random(7)
    early = POINTS // 8
    spread = [Moment((n + chance.random()) * start / early, False) for n in range(early)]
    late = POINTS - early
    spread += [Moment((n + chance.random()) * 1.1 * work / late) for n in range(late)]
    spread[-2:] = [Moment(5 * work)] * 2  # a machine that is busy now may take that long
    chance.shuffle(spread)
    return spread


def check_acknowledged(run: Killed, session: Session) -> None:
    entries = session.entries()
    ids = {entry.id for entry in entries}
    assert {line["entry_id"] for line in run.lines("saved")} <= ids
    messages = [entry.fields.get("message") for entry in entries if entry.type == "message"]
    for line in run.lines("message_end"):
        assert line["entry"]["message"] in messages
    # Every line was whole, or is set aside and said; nothing in the middle is damaged.
    assert all(damage.line > len(entries) for damage in session.damages)


async def go_on(run: Killed, session: Session, url: str) -> None:
    """Go on with a session in this process."""
    events: list[object] = []
    folder = run.path.parent
    known = any(entry.fields.get("customType") == "unipi.request" for entry in session.entries())
    # As the command has it, so that the session's route is the same.
    served = evolve(model(url), provider="sim", id="one")
    async with open_agent(host(folder), session, served, observer=events.append) as agent:
        await agent.prompt(prompt(run.number))
        last = agent.session.messages()[-1]
    assert isinstance(last, AssistantMessage)
    assert last.stop_reason == "stop"
    crossed = [e.boundary.cause for e in events if isinstance(e, EpochBoundaryEvent)]
    assert crossed == ([] if known else ["first"])


def check_goes_on(cli, run: Killed, url: str) -> None:
    if not run.path.exists():
        assert run.lines("saved") == run.lines("message_end") == []
        return
    with Session.open(run.path) as session:
        check_acknowledged(run, session)
        if run.number % THROUGH_CLI:
            anyio.run(go_on, run, session, url)
            return
    done = cli.run(*arguments(run.path, run.number))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_run_loses_nothing_that_it_acknowledged_and_its_session_goes_on(cli) -> None:
    sim = Simulator(script, profile="anthropic")
    with run_simulator(sim) as url, ThreadPoolExecutor(2) as two:
        cli.serve_model(url)
        whole = list(two.map(lambda n: run_until(cli, n, Moment(20)), range(-2, 0)))
        assert all(run.finished for run in whole)
        spread = moments(*(max(times) for times in zip(*(run.took for run in whole), strict=True)))
        runs = list(two.map(lambda n: run_until(cli, n, spread[n]), range(POINTS)))
        for run in runs:
            check_goes_on(cli, run, url)
    stages = Counter(run.stage for run in runs)
    print(stages)
    assert stages["before the session"]
    assert stages["between saves"] > POINTS / 3
    assert stages["after the end"]
    assert {request.status for request in sim.requests} == {200}
    for run in runs:
        said = b'"%b"' % prompt(run.number).encode()
        assert prefix_breaks([r for r in sim.requests if said in r.body]) == []
