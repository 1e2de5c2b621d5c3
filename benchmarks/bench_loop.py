"""A tool loop of 200 turns: `unipi run` beside the least that such a loop can be.

Both follow the same script of one loopback provider, in turns, so that a slow moment of the machine
meets both; the figures are medians. `unipi run` has every installed plugin on, keeps its session in
a file, streams, and checks its arguments; the floor does none of that.
"""

from __future__ import annotations

import compileall
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from attrs import frozen

from benchmarks import loop_tools, userenv
from benchmarks.claims import Claim
from benchmarks.loop_measure import Run, measure, provider, slope

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).parents[1]
_TURNS = 200
_REPETITIONS = 5
_QUICK_REPETITIONS = 3
_SMALLEST_SLOPE = 0.5
"""Microseconds a turn below which the floor's slope is noise; one body of 1.2 KB more costs 1.3."""

APIS = {
    "chat": "openai-chat-completions",
    "anthropic": "anthropic-messages",
    "responses": "openai-responses",
}
_LOST = {"chat": 4, "anthropic": 64}


@frozen
class Client:
    """What runs: the floor, or `unipi run` on one of the APIs, with 1 or 20 tools."""

    kind: str
    tools: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.tools}"


def run(quick: bool) -> list[Claim]:
    """Measure; `quick` takes three repetitions instead of five."""
    for package in ("hookspecs", "host", "extensions"):
        compileall.compile_dir(_ROOT / package, quiet=2)
    compileall.compile_dir(_ROOT / "benchmarks", maxlevels=0, quiet=2)
    clients = [Client(kind, n) for n in (1, 20) for kind in ("floor", "chat", "anthropic")]
    runs: dict[Client, list[Run]] = {client: [] for client in clients}
    with provider(_ROOT) as port, tempfile.TemporaryDirectory(prefix="unipi-bench-") as folder:
        for number in range(_QUICK_REPETITIONS if quick else _REPETITIONS):
            for client in clients:
                place = Path(folder) / f"{client.name}-{number}"
                place.mkdir()
                runs[client].append(_one(client, port, place, f"{client.name}-{number}"))
    claims = _lost(runs)
    for tools in (1, 20):
        floor = runs[Client("floor", tools)]
        claims += _against(floor, runs[Client("chat", tools)], f"chat.{tools}tools", bound=True)
        claims += _against(
            floor, runs[Client("anthropic", tools)], f"anthropic.{tools}tools", bound=False
        )
    return claims


def _one(client: Client, port: int, place: Path, name: str) -> Run:
    env = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    env |= {"HOME": str(place), "PYTHONPATH": str(_ROOT), "BENCH_TOOLS": str(client.tools)}
    base = f"/s/{name}/{_TURNS}"
    if client.kind == "floor":
        path = f"{base}/v1/chat/completions"
        script = str(_ROOT / "benchmarks" / "loop_floor.py")
        command = [userenv.python()[0], script, "127.0.0.1", str(port), path]
        return measure(command, env, place, port, name, _TURNS)
    env |= {"UNIPI_HOME": str(place / "home"), "BENCH_KEY": "none"}
    write_models(place / "home", APIS[client.kind], f"http://127.0.0.1:{port}{base}")
    return measure(unipi_run(place), env, place, port, name, _TURNS)


def unipi_run(place: Path, turns: int = _TURNS) -> list[str]:
    """The command line of the measured `unipi run`."""
    return [
        *(userenv.python()[0], "-m", "unipi", "run", "--max-turns", str(turns + 1)),
        *("-p", loop_tools.PROMPT, "--model", "bench/bench-model"),
        *("-e", str(_ROOT / "benchmarks" / "loop_plugin.py")),
        *("--session", str(place / "session.jsonl"), "--prefix-policy", "enforce"),
    ]


def write_models(home: Path, api: str, base_url: str) -> None:
    """The file that tells `unipi run` of the bench's model."""
    home.mkdir(mode=0o700)
    model = {
        "api": api,
        "base_url": base_url,
        "context_window": 2_000_000,
        "api_key_env": "BENCH_KEY",
    }
    path = home / "models.json"
    path.write_text(json.dumps({"models": {"bench/bench-model": model}}))
    path.chmod(0o600)


def _lost(runs: dict[Client, list[Run]]) -> list[Claim]:
    claims = []
    for kind, bound in _LOST.items():
        worst = {}
        for tools in (1, 20):
            worst[tools] = max(max(run.lost) for run in runs[Client(kind, tools)])
            claims.append(
                Claim(
                    f"loop.bytes_lost.{kind}.{tools}tools",
                    worst[tools],
                    bound,
                    note="bytes of a request that are no prefix of the next, the worst of all",
                )
            )
        claims.append(
            Claim(
                f"loop.bytes_lost.{kind}.difference",
                abs(worst[20] - worst[1]),
                0,
                note="with 20 tools and with 1",
            )
        )
    return claims


def _against(floor: Sequence[Run], ours: Sequence[Run], name: str, *, bound: bool) -> list[Claim]:
    """The ratios to the floor; the issue's bounds are those of the chat API."""

    def claim(what: str, own: float, least: float, most: float, unit: str) -> Claim:
        note = f"{own:.3g} / {least:.3g} {unit}"
        return Claim(f"loop.{what}.{name}", own / least, most if bound else None, note=note)

    def middle(runs: Sequence[Run], what: str) -> float:
        return float(median(getattr(run, what) for run in runs))

    def turn(runs: Sequence[Run], number: int) -> float:
        return median(run.at(number) for run in runs)

    rise = max(slope(floor), _SMALLEST_SLOPE)
    return [
        Claim(
            f"loop.turn10.{name}",
            turn(ours, 10) / turn(floor, 10),
            note=f"{turn(ours, 10):.3g} / {turn(floor, 10):.3g} ms",
        ),
        claim("turn200", turn(ours, _TURNS), turn(floor, _TURNS), 6, "ms"),
        claim("slope", slope(ours), rise, 3, "us a turn"),
        claim("cpu", middle(ours, "cpu"), middle(floor, "cpu"), 8, "s"),
        claim("startup", middle(ours, "startup"), middle(floor, "startup"), 5, "s"),
        claim("memory", middle(ours, "memory") / 2**20, middle(floor, "memory") / 2**20, 3, "MiB"),
    ]
