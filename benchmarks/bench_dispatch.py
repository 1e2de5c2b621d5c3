"""What a dispatch costs, against a bare pluggy call in the same run.

    python -m benchmarks.bench_dispatch [--json]

Each figure is the median over interleaved rounds, divided by that of pluggy's own
`turn_end(event=…, ctx=…)` through ten trivial implementations, or through none.
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable

import anyio
import pluggy
from attrs import asdict

from benchmarks.claims import Claim, middle, report
from unipi.hooks import Hooks, compile_hooks
from unipi_hookspecs import TurnEndEvent, _specs, hookimpl

COUNT = 10
EVENT = TurnEndEvent(0, None, ())  # type: ignore[arg-type]  # nobody looks at the message
CTX = object()


class Sync:
    """A plugin that does nothing."""

    @hookimpl
    def turn_end(self, event: object, ctx: object) -> None:
        return None

    @hookimpl
    def tool_result(self, event: object, ctx: object) -> None:
        return None


class Async:
    """One that could wait, and does not."""

    @hookimpl
    async def turn_end(self, event: object, ctx: object) -> None:
        return None


class Suspending:
    """One that gives way once."""

    @hookimpl
    async def turn_end(self, event: object, ctx: object) -> None:
        await anyio.lowlevel.checkpoint()


def manager_of(kind: type, count: int) -> pluggy.PluginManager:
    """A manager that holds `count` plugins of one kind."""
    manager = pluggy.PluginManager("unipi")
    manager.add_hookspecs(_specs)
    for index in range(count):
        manager.register(kind(), name=f"plugin-{index}")
    return manager


def hooks_of(kind: type, count: int) -> Hooks:
    """The dispatcher over such a manager."""
    contexts: Callable[[str], object] = lambda _: CTX  # noqa: E731 - nobody looks at the context
    return compile_hooks(manager_of(kind, count), contexts=contexts)  # type: ignore[arg-type]


async def awaited(call: Callable[[object], Awaitable[object]], calls: int) -> float:
    """Nanoseconds a dispatch."""
    began = time.perf_counter_ns()
    for _ in range(calls):
        await call(EVENT)
    return (time.perf_counter_ns() - began) / calls


def bare(manager: pluggy.PluginManager, calls: int) -> float:
    """Nanoseconds a call of pluggy."""
    call = manager.hook.turn_end
    began = time.perf_counter_ns()
    for _ in range(calls):
        call(event=EVENT, ctx=CTX)
    return (time.perf_counter_ns() - began) / calls


async def measure(rounds: int, calls: int) -> dict[str, float]:
    """Median nanoseconds a call, by row."""
    managers = {"pluggy_10": manager_of(Sync, COUNT), "pluggy_0": manager_of(Sync, 0)}
    rows: dict[str, Callable[..., Awaitable[object]]] = {
        "sync_10": hooks_of(Sync, COUNT).turn_end,
        "chain_10": hooks_of(Sync, COUNT).tool_result,
        "empty": hooks_of(Sync, 0).turn_end,
        "sync_1": hooks_of(Sync, 1).turn_end,
        "async_10": hooks_of(Async, COUNT).turn_end,
        "suspending_10": hooks_of(Suspending, COUNT).turn_end,
    }
    times: dict[str, list[float]] = {name: [] for name in (*managers, *rows)}
    for _ in range(rounds):
        for name, manager in managers.items():
            times[name].append(bare(manager, calls))
        for name, call in rows.items():
            times[name].append(await awaited(call, calls))
    return {name: middle(each) for name, each in times.items()}


def run(quick: bool = False) -> list[Claim]:
    """The claims of this benchmark."""
    ns = anyio.run(measure, 7 if quick else 21, 500 if quick else 1500)

    def claim(name: str, ours: str, theirs: str, bound: float | None = None) -> Claim:
        note = f"{ns[ours] / 1000:.2f} µs over {ns[theirs] / 1000:.2f} µs, {theirs}"
        return Claim(f"dispatch.{name}", ns[ours] / ns[theirs], bound, note=note)

    return [
        claim("sync_10", "sync_10", "pluggy_10", 1.5),
        claim("chain_10", "chain_10", "pluggy_10", 1.5),
        claim("empty", "empty", "pluggy_10", 0.3),
        claim("empty_over_empty", "empty", "pluggy_0", 0.3),
        claim("sync_1", "sync_1", "pluggy_10"),
        claim("async_10", "async_10", "pluggy_10"),
        claim("suspending_10", "suspending_10", "pluggy_10"),
    ]


if __name__ == "__main__":
    claims = run("--quick" in sys.argv)
    if "--json" in sys.argv:
        print(json.dumps([{**asdict(each), "ok": each.ok} for each in claims]))
    else:
        report(claims)
    sys.exit(0 if all(each.ok for each in claims) else 1)
