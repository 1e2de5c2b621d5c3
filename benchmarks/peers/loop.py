"""The tool loop of our host beside its peers' and the floor, interleaved: each repetition runs all.

The method is that of `bench_loop`: one script of a loopback provider, which takes the time at both
ends of a turn; the client on a processor of its own, but for Pi, whose engine uses two. Peers answer
without a stream where they can choose; ours streams, writes its session and runs every plugin.
"""

from __future__ import annotations

import compileall
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from benchmarks import userenv
from benchmarks.bench_loop import APIS, unipi_run, write_models
from benchmarks.loop_measure import Run, RunFailed, measure, provider
from benchmarks.loop_tools import PROMPT
from benchmarks.peers import envs, restart
from benchmarks.peers.claims import loop_claims, table_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.claims import Claim

_ROOT = Path(__file__).parents[2]
_CLIENTS = str(Path(__file__).with_name("clients.py"))
_LOST = {"anthropic": 64}
_CLOSING = 4
"""Bytes that may close a body; a marker of Anthropic's may move as well."""
_QUIET = {
    "OPENAI_API_KEY": "x",
    "ANTHROPIC_API_KEY": "x",
    "OTEL_SDK_DISABLED": "true",
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
}


@frozen
class Peer:
    """A loop to measure. `made` gives its command and the version of what runs."""

    name: str
    made: Callable[[Path, str], tuple[list[str], str]]
    framework: bool = False
    pin: bool = True


def _floor(place: Path, base: str) -> tuple[list[str], str]:
    host, _, rest = base.removeprefix("http://").partition("/")
    address, _, port = host.partition(":")
    script = str(_ROOT / "benchmarks" / "loop_floor.py")
    return [userenv.python()[0], script, address, port, f"/{rest}/v1/chat/completions"], ""


def _ours(kind: str) -> Callable[[Path, str], tuple[list[str], str]]:
    def made(place: Path, base: str) -> tuple[list[str], str]:
        if not (place / "home").exists():
            write_models(place / "home", APIS[kind], base)
        return unipi_run(place, int(base.rpartition("/")[2])), userenv.python()[1]

    return made


def _python(
    environment: str, package: str, client: str
) -> Callable[[Path, str], tuple[list[str], str]]:
    def made(place: Path, base: str) -> tuple[list[str], str]:
        env = envs.environment(environment)
        return [env.python, _CLIENTS, client], f"{package} {env.version(package)}"

    return made


def _pi(place: Path, base: str) -> tuple[list[str], str]:
    command, version = envs.pi()
    agent = place / "agent"
    agent.mkdir()
    model = {
        "id": "bench-model",
        "contextWindow": 2_000_000,
        "maxTokens": 8_192,
        "reasoning": False,
    }
    served = {"baseUrl": base, "api": "anthropic-messages", "apiKey": "x", "models": [model]}
    (agent / "models.json").write_text(json.dumps({"providers": {"bench": served}}))
    extension = str(Path(__file__).with_name("pi_tool.ts"))
    return [
        *command,
        *("-p", "--offline", "--provider", "bench", "--model", "bench-model", "--no-session"),
        *("-ne", "-ns", "-np", "-nc", "-nbt", "--thinking", "off", "-e", extension, PROMPT),
    ], f"pi {version}"


PEERS = (
    Peer("floor", _floor),
    Peer("unipi_chat", _ours("chat")),
    Peer("unipi_anthropic", _ours("anthropic")),
    Peer("unipi_responses", _ours("responses")),
    Peer("raw_openai_chat", _python("rawsdk", "openai", "raw_openai_chat")),
    Peer("raw_openai_responses", _python("rawsdk", "openai", "raw_openai_responses")),
    Peer("raw_anthropic", _python("rawsdk", "anthropic", "raw_anthropic")),
    Peer(
        "pydantic_ai_chat",
        _python("pydantic-ai", "pydantic-ai-slim", "pydantic_ai_chat"),
        framework=True,
    ),
    Peer(
        "pydantic_ai_anthropic",
        _python("pydantic-ai", "pydantic-ai-slim", "pydantic_ai_anthropic"),
        framework=True,
    ),
    Peer(
        "openai_agents_chat",
        _python("openai-agents", "openai-agents", "openai_agents_chat"),
        framework=True,
    ),
    Peer(
        "strands_anthropic",
        _python("strands", "strands-agents", "strands_anthropic"),
        framework=True,
    ),
    Peer("llm_chat", _python("llm", "llm", "llm_chat"), framework=True),
    Peer("pi_anthropic", _pi, pin=False),
)


def run(
    repetitions: int, turns: int, only: Sequence[str], say: Callable[[str], None]
) -> list[Claim]:
    """Measure the peers that can be had (`only` these, when any is named) and judge our claims."""
    for package in ("hookspecs", "host", "extensions"):
        compileall.compile_dir(_ROOT / package, quiet=2)
    peers = [peer for peer in PEERS if not only or peer.name in only or peer.name == "floor"]
    runs: dict[str, list[Run]] = {}
    with provider(_ROOT) as port, tempfile.TemporaryDirectory(prefix="unipi-peers-") as folder:
        peers = _ready(peers, say)
        for number in range(repetitions):
            for peer in list(peers):
                place = Path(folder) / f"{peer.name}-{number}"
                place.mkdir()
                try:
                    done = _one(peer, port, place, f"{peer.name}-{number}", turns)
                except RunFailed as problem:
                    say(f"{peer.name}: left out: {problem}")
                    peers.remove(peer)
                    continue
                runs.setdefault(peer.name, []).append(done)
                say(table_row(peer.name, [done], turns))
        say("")
        for name, found in runs.items():
            say(table_row(name, found, turns))
        restarts = _restarts(port, Path(folder), say)
    frameworks = {peer.name for peer in PEERS if peer.framework}
    return [*loop_claims(runs, turns, frameworks), *restarts]


def _ready(peers: Sequence[Peer], say: Callable[[str], None]) -> list[Peer]:
    """Those that can be had, their environments made before anything is measured."""
    ready = []
    for peer in peers:
        with tempfile.TemporaryDirectory() as folder:
            try:
                _, version = peer.made(Path(folder), "http://127.0.0.1:1/s/x/1")
            except envs.NotInstalled as problem:
                say(f"{peer.name}: not installed here: {problem}")
                continue
        say(f"{peer.name}: {version or 'this checkout'}")
        ready.append(peer)
    return ready


def _environment(place: Path, base: str) -> dict[str, str]:
    env = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    return (
        env
        | _QUIET
        | {
            "HOME": str(place),
            "PYTHONPATH": str(_ROOT),
            "BENCH_TOOLS": "1",
            "BENCH_BASE": base,
            "BENCH_KEY": "none",
            "UNIPI_HOME": str(place / "home"),
            "LLM_USER_PATH": str(place / "llm"),
            "PI_CODING_AGENT_DIR": str(place / "agent"),
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
        }
    )


def _one(peer: Peer, port: int, place: Path, name: str, turns: int) -> Run:
    base = f"http://127.0.0.1:{port}/s/{name}/{turns}"
    command, _ = peer.made(place, base)
    env = _environment(place, base)
    return measure(command, env, place, port, name, turns, pin=peer.pin)


def _restarts(port: int, folder: Path, say: Callable[[str], None]) -> list[Claim]:
    """Each API of ours left and taken up again, and strands with the window that it comes with."""

    def place(name: str) -> tuple[Path, str]:
        made = folder / f"restart-{name}"
        made.mkdir()
        return made, f"http://127.0.0.1:{port}/s/restart-{name}/{restart.TURNS}"

    claims = []
    for kind in APIS:
        where, base = place(kind)
        command, _ = _ours(kind)(where, base)
        at = command.index("--session")
        first = [*command[:at], *command[at + 2 :]]
        commands = [first, [*first, "--continue"]]
        bound = _LOST.get(kind, _CLOSING)
        env = _environment(where, base)
        claims.append(restart.restart(kind, commands, env, where, port, bound))
    try:
        python = envs.environment("strands").python
    except envs.NotInstalled as problem:
        say(f"strands after a restart: not installed here: {problem}")
        return claims
    where, base = place("strands_default")
    again = [[python, _CLIENTS, "strands_session"]] * 2
    env = _environment(where, base)
    return [*claims, restart.restart("strands_default", again, env, where, port, None)]
