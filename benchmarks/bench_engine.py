"""Sessions of 200 turns on the real engine, through each wire API: does any cached token get lost?

Counted in tokens as the engine reports them, so the figures are the same on every machine. Without
the `local` extra there is nothing to measure, and the benchmark says so.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from attrs import evolve

from benchmarks.claims import Claim
from benchmarks.engine_session import TURNS_A_PROMPT, Played, engine_model, play, served
from unipi.agent import AgentOptions, CompactionOptions, open_agent
from unipi.providers.apis import APIS
from unipi.session import Session
from unipi.sim.engine import engine_available, start_engine
from unipi.sim.tiny_model import Action, write_model
from unipi.testing.lab import host
from unipi_hookspecs import (
    AssistantMessage,
    Message,
    ProviderResponseEndEvent,
    Text,
    Usage,
    UserMessage,
)

_TURNS = 200
_QUICK_TURNS = 60
_COUNTS = 24
_ASKED = "Stop working and write a summary"
_SUMMARY = "Goal: the user counts things and wants each count answered; some are done, more come."
_ACTIONS = [
    Action(_ASKED, _SUMMARY),
    *(Action(f"count {n},", f"That makes {n} things so far.") for n in range(_COUNTS)),
    Action("", "I am lost."),
]


def run(quick: bool) -> list[Claim]:
    """Measure; `quick` plays 60 turns instead of 200."""
    if reason := engine_available():
        return [Claim("engine.skipped", 0.0, note=reason)]
    turns = _QUICK_TURNS if quick else _TURNS
    claims: list[Claim] = []
    for api in sorted(APIS):
        with tempfile.TemporaryDirectory(prefix="unipi-bench-") as folder:
            claims += _claims(api, anyio.run(_play, api, turns, Path(folder)))
    for api in sorted(APIS):
        with tempfile.TemporaryDirectory(prefix="unipi-bench-") as folder:
            claims += anyio.run(_summaries, api, Path(folder))
    return claims


async def _summaries(api: str, folder: Path) -> list[Claim]:
    """A summary asked for on the session's own prefix, then one as others ask for it."""
    path = folder / "scripted.gguf"
    write_model(path, _ACTIONS)
    told: list[ProviderResponseEndEvent] = []

    def observe(event: object) -> None:
        if isinstance(event, ProviderResponseEndEvent):
            told.append(event)

    options = AgentOptions(compaction=CompactionOptions(keep=300))
    session = Session.create(None, cwd=folder)
    async with start_engine(path, 32_768) as url:
        model = evolve(engine_model(url, api), context_window=32_768)
        async with open_agent(host(folder), session, model, options, observer=observe) as agent:
            for n in range(1, _COUNTS):
                await agent.prompt(f"count {n}, with {'many words ' * 60}")
            said = "\n\n".join(_text(message) for message in session.messages())
            await agent.prompt("/compact")
        other = Session.create(None, cwd=folder)
        async with open_agent(host(folder), other, model, options, observer=observe) as agent:
            await agent.prompt(f"{said}\n\nThe conversation above is to be summarised. {_ASKED}.")
    last, warm, fresh = [event.usage or Usage() for event in told[-3:]]
    read = (warm.cache_read or 0) / last.prompt
    paid, anew = (usage.prompt - (usage.cache_read or 0) for usage in (warm, fresh))
    name = f"engine.{api}.summary"
    ratio = f"{paid:,} tokens evaluated for it / {anew:,} with the conversation as text in a prompt"
    note = f"{warm.cache_read:,} of the {last.prompt:,} prompt tokens before it were read"
    return [
        Claim(f"{name}.read", read, 0.99, "ge", note),
        Claim(f"{name}.paid", paid / anew, None, note=ratio),
    ]


def _text(message: Message) -> str:
    content = message.content if isinstance(message, UserMessage | AssistantMessage) else ()
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, Text))


async def _play(api: str, turns: int, folder: Path) -> Played:
    """One session on a fresh engine, with one boundary asked for halfway."""
    halfway = turns // TURNS_A_PROMPT // 2
    async with served(folder) as url:
        return await play(url, api, turns, folder, boundary_after=[halfway])


def _claims(api: str, played: Played) -> list[Claim]:
    name = f"engine.{api}"
    if played.strayed:
        return [Claim(f"{name}.strayed", len(played.strayed), 0, note=played.strayed[0])]
    rows, pairs = played.rows, played.pairs()
    read, sent = sum(row.cached for row in rows), sum(row.prompt for row in rows)
    unrecorded = set(played.lost()) ^ set(played.begun())
    return [
        Claim(
            f"{name}.kept",
            played.share_kept(),
            1.0,
            "ge",
            f"of {len(pairs)} requests in an epoch: read at least the whole prompt before them",
        ),
        Claim(
            f"{name}.exact",
            played.share_exact(),
            1.0,
            "ge",
            "of the same: read that prompt and its answer, less the one token it evaluates again",
        ),
        Claim(
            f"{name}.unrecorded",
            len(unrecorded),
            0,
            "le",
            f"losses the ledger does not name; it names {len(played.boundaries)} boundaries: "
            + ", ".join(b.cause for b in played.boundaries),
        ),
        Claim(
            f"{name}.read",
            read / sent,
            None,
            "ge",
            f"{read:,} of {sent:,} prompt tokens in {len(rows)} requests came from the cache",
        ),
    ]
