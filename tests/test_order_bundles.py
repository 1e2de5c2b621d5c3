"""Thirty plugins in ten installed bundles: one order and one tool list, everywhere."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Bundle letters are not plugin names: each bundle brings plugins from all over the alphabet.
NAMES = [
    *("00_first", "Alpha", "B2", "a", "alpha", "b", "c10", "c9", "delta", "e"),
    *("f", "G", "guard", "h", "i", "I", "\u0131", "İ", "j", "k"),
    *("ß", "ss", "z", "Z", "zebra", "é", "\uff46", "｡", "😀", "\U0001d51e"),
]
BEFORE = {"zebra": ["a"], "😀": ["h"]}
AFTER = {"Alpha": ["z"], "guard": ["｡"], "\u0131": ["I", "İ"]}

OURS = [point.name for point in entry_points(group="unipi.plugins")]
"""What this workspace has installed, which the order here is not about."""

PROGRAM = """
import json, locale, sys
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
from unipi.loader import LoadOptions, collect_tools, load_plugins
from unipi.loader.offers import offered_tools
options = LoadOptions(deny=frozenset(sys.argv[1:]))
result = load_plugins(options)
offers, silent = offered_tools(result, options)
tools, conflicts = collect_tools(offers)
listed = [[tool.name, tool.description, dict(tool.parameters)] for tool in tools]
sys.stdout.buffer.write(json.dumps({
    "order": [item.name for item in result.active],
    "tools": listed,
    "problems": [p.message for p in (*result.problems, *silent, *conflicts)],
}).encode())
"""


def module(name: str, index: int) -> str:
    tools = [
        f"tool_{(index * 7) % 30:02d}",
        f"Tool_{index:02d}",
        "contested" if index % 9 == 4 else f"x{index}",
    ]
    return (
        "from unipi_hookspecs import Manifest, Tool, hookimpl\n"
        f"manifest = Manifest({name!r}, before={BEFORE.get(name, [])}, after={AFTER.get(name, [])})\n"
        "@hookimpl\n"
        "def register_tools(ctx):\n"
        f"    return [Tool(t, ctx.plugin, run=print) for t in {tools!r}]\n"
    )


def install(folder: Path, order: list[int]) -> list[Path]:
    """Ten bundles in the given order, on two site folders; the path they make."""
    sites = [folder / "site-a", folder / "site-b"]
    for place, number in enumerate(order):
        site = sites[place % 2]
        info = site / f"bundle_{number}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: bundle-{number}\nVersion: 1.0\n")
        indexes = [number, number + 10, number + 20]
        random.Random(place).shuffle(indexes)
        lines = "".join(f"{NAMES[i]} = bundle_{number}_{i}\n" for i in indexes)
        (info / "entry_points.txt").write_text(f"[unipi.plugins]\n{lines}", encoding="utf-8")
        for i in indexes:
            source = module(NAMES[i], i)
            (site / f"bundle_{number}_{i}.py").write_text(source, encoding="utf-8")
    return sites


def outcome(sites: list[Path], seed: int, locale: str) -> bytes:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, sites)),
        "PYTHONHASHSEED": str(seed),
        "LC_ALL": locale,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *OURS], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.slow
def test_install_order_hash_seed_and_locale_do_not_reach_the_order_or_the_tools(
    tmp_path: Path,
) -> None:
    numbers = list(range(10))
    orders = [numbers, numbers[::-1], random.Random(4).sample(numbers, 10)]
    seen: set[bytes] = set()
    for index, order in enumerate(orders):
        sites = install(tmp_path / str(index), order)
        for seed in range(5):
            for locale in ("C", "de_DE.UTF-8", "tr_TR.UTF-8"):
                seen.add(outcome(sites, seed, locale))
    [only] = seen
    found = json.loads(only)
    assert sorted(found["order"]) == sorted(NAMES)
    assert found["order"].index("😀") < found["order"].index("h")
    free = [n for n in found["order"] if n not in {*BEFORE, *AFTER, "a", "h"}]
    assert free == sorted(free, key=lambda name: name.encode("utf-16-be"))
    assert free[-3:] == ["\U0001d51e", "\uff46", "｡"]
    names = [tool[0] for tool in found["tools"]]
    assert names == sorted(set(names))
    [conflict] = [text for text in found["problems"] if "'contested'" in text]
    assert conflict.count("bundle-4 1.0") == 1
    assert len(found["problems"]) == 1
