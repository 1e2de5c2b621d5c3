"""Compiling plans, registration hooks, the digest, and who may call pluggy."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pluggy
import pytest

import unipi
from unipi.hooks import Failure, Hooks, acting_as, compile_hooks, current_plugin
from unipi_hookspecs import (
    POLICIES,
    Command,
    Flag,
    ProviderSpec,
    Renderer,
    Setting,
    Tool,
    TurnStartEvent,
    _specs,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TURN = TurnStartEvent(0, 0)


class Plugin:
    def __init__(self, **implementations: Callable[..., object]) -> None:
        for name, function in implementations.items():
            setattr(self, name, hookimpl(function))


def manager_of(**plugins: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager("unipi")
    manager.add_hookspecs(_specs)
    for name, each in plugins.items():
        manager.register(each, name=name)
    return manager


def hooks_of(failures: list[Failure] | None = None, /, **plugins: object) -> Hooks:
    report = None if failures is None else failures.append
    return compile_hooks(manager_of(**plugins), report=report)


def loading(name: str) -> SimpleNamespace:
    return SimpleNamespace(plugin=name)


def tool(name: str) -> Tool:
    return Tool(name, "", run=lambda call, ctx: "")


# Compiling.


def test_every_hook_has_a_method_or_a_collector():
    for hook, policy in POLICIES.items():
        name = f"collect_{hook.removeprefix('register_')}" if policy.registration else hook
        assert callable(getattr(Hooks, name)), hook


def test_a_manager_without_the_specifications_is_refused():
    with pytest.raises(ValueError, match="no specification of the hook 'register_tools'"):
        compile_hooks(pluggy.PluginManager("unipi"))


@pytest.mark.parametrize("options", [{"wrapper": True}, {"hookwrapper": True}])
async def test_a_hook_wrapper_is_refused_and_the_rest_runs(options):
    def wrapping(event, ctx):
        return (yield)

    seen: list[str] = []
    wrapped = SimpleNamespace(turn_start=hookimpl(wrapping, **options))
    failures: list[Failure] = []
    hooks = hooks_of(failures, w=wrapped, a=Plugin(turn_start=lambda: seen.append("a")))
    hooks.bind(loading)
    await hooks.turn_start(TURN)
    assert seen == ["a"]
    assert [str(f) for f in failures] == [
        "plugin 'w', hook turn_start: is a hook wrapper, which cannot be awaited or timed; "
        "implement the hook itself"
    ]


async def test_a_plugin_registered_after_compiling_is_not_called():
    manager = manager_of()
    hooks = compile_hooks(manager, contexts=loading)
    manager.register(Plugin(turn_start=lambda: pytest.fail("called")), name="late")
    await hooks.turn_start(TURN)


async def test_a_module_and_an_object_are_plugins_alike():
    seen: list[object] = []

    class Careful:
        @hookimpl
        def turn_start(self, event, ctx):
            seen.append((self, ctx.plugin))

    careful = Careful()
    hooks = hooks_of(careful=careful)
    hooks.bind(loading)
    await hooks.turn_start(TURN)
    assert seen == [(careful, "careful")]


# Registration.


def test_tools_are_collected_in_plugin_order_with_their_plugin_outside_any_event_loop():
    hooks = hooks_of(
        b=Plugin(register_tools=lambda ctx: [tool(f"{ctx.plugin}_one"), tool("two")]),
        a=Plugin(register_tools=lambda: (tool("three"),)),
        c=Plugin(register_tools=lambda: None),
    )
    found = [(name, each.name) for name, each in hooks.collect_tools(loading)]
    assert found == [("b", "b_one"), ("b", "two"), ("a", "three")]


def test_each_registration_hook_has_its_type():
    command = Command("c", "", run=lambda text, ctx: None)
    flag, setting = Flag("f", ""), Setting("s", "")
    spec, renderer = ProviderSpec("p", ()), Renderer("t", str)
    hooks = hooks_of(
        a=Plugin(
            register_commands=lambda: [command],
            register_flags=lambda: [flag],
            register_settings=lambda: [setting],
            register_providers=lambda: [spec],
            register_renderers=lambda: [renderer],
        )
    )
    assert hooks.collect_commands(loading) == [("a", command)]
    assert hooks.collect_flags(loading) == [("a", flag)]
    assert hooks.collect_settings(loading) == [("a", setting)]
    assert hooks.collect_providers(loading) == [("a", spec)]
    assert hooks.collect_renderers(loading) == [("a", renderer)]


def generator():
    yield tool("x")


async def coroutine():
    return [tool("x")]


def exits():
    raise SystemExit(1)


def breaks():
    raise ValueError("no")


@pytest.mark.parametrize(
    ("implementation", "text"),
    [
        (lambda: tool("x"), "returned a Tool, expected a list of Tool"),
        (lambda: [tool("x"), Flag("f", "")], "returned a Flag, expected a list of Tool"),
        (lambda: "tools", "returned a str, expected a list of Tool"),
        (generator, "returned a generator, expected a list of Tool"),
        (coroutine, "is async; a registration hook must be a plain def"),
        (exits, "raised SystemExit: 1"),
        (breaks, "raised ValueError: no"),
    ],
)
def test_a_plugin_that_registers_wrongly_registers_nothing_and_is_named(implementation, text):
    failures: list[Failure] = []
    hooks = hooks_of(
        failures,
        a=Plugin(register_tools=implementation),
        b=Plugin(register_tools=lambda: [tool("y")]),
    )
    assert [name for name, _ in hooks.collect_tools(loading)] == ["b"]
    assert [(f.plugin, f.hook, f.error) for f in failures] == [("a", "register_tools", text)]
    assert hooks.stats()[0].errors == 1


def test_a_keyboard_interrupt_passes_out_of_a_registration():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hooks_of(a=Plugin(register_tools=interrupt)).collect_tools(loading)
    assert current_plugin() is None


def test_the_current_plugin_is_known_while_it_registers():
    seen: list[str | None] = []
    hooks = hooks_of(a=Plugin(register_flags=lambda: seen.append(current_plugin())))
    hooks.collect_flags(loading)
    assert seen == ["a"]


def test_registering_slowly_is_reported_over_the_budget_only():
    now = [0]

    def takes(seconds):
        def register_flags():
            now[0] += int(seconds * 1e9)

        return Plugin(register_flags=register_flags)

    failures: list[Failure] = []
    hooks = compile_hooks(
        manager_of(quick=takes(1), slow=takes(6)), report=failures.append, clock=lambda: now[0]
    )
    hooks.collect_flags(loading)
    assert {f.plugin for f in failures} == {"slow"}
    assert [s.max_ns for s in hooks.stats()] == [1_000_000_000, 6_000_000_000]


def test_the_host_may_act_for_a_plugin():
    with acting_as("a"):
        assert current_plugin() == "a"
        with acting_as(None):
            assert current_plugin() is None
        assert current_plugin() == "a"
    assert current_plugin() is None


# The digest.


def test_the_digest_tells_order_arguments_and_plugins_apart():
    def one(**plugins):
        return hooks_of(**plugins).digest()

    def event_only():
        return Plugin(turn_start=lambda event: None)

    def both():
        return Plugin(turn_start=lambda event, ctx: None)

    digests = [
        one(),
        one(a=event_only()),
        one(b=event_only()),
        one(a=both()),
        one(a=event_only(), b=event_only()),
        one(b=event_only(), a=event_only()),
    ]
    assert len(set(digests)) == len(digests)
    assert one(a=event_only(), b=both()) == one(a=event_only(), b=both())
    assert len(digests[0]) == hashlib.sha256().digest_size * 2


SCRIPT = """
import pluggy
from unipi.hooks import compile_hooks
from unipi_hookspecs import POLICIES, _specs, hookimpl
manager = pluggy.PluginManager("unipi")
manager.add_hookspecs(_specs)
class Plugin: pass
for name in ("b", "\\uff61", "\\U0001f600", "a"):
    plugin = Plugin()
    for hook, policy in POLICIES.items():
        setattr(plugin, hook, hookimpl(lambda ctx: None))
    manager.register(plugin, name=name)
print(compile_hooks(manager).digest())
"""


@pytest.mark.slow
def test_the_digest_is_the_same_under_any_hash_seed():
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1


# Who may call pluggy.


def relay_calls(path: Path, hooks: frozenset[str]) -> list[str]:
    """`manager.hook.NAME` and the like, where NAME is one of `hooks`."""
    return [
        f"{path.name}:{node.lineno} .hook.{node.attr}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in hooks
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "hook"
    ]


EVENTS = frozenset(name for name, policy in POLICIES.items() if not policy.registration)


def test_no_module_of_the_host_calls_a_hook_through_pluggy():
    """Registration hooks are plain functions, which the loader may look at by itself."""
    root = Path(unipi.__file__).parent
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        room = path.relative_to(root).parts[0]
        if room != "hooks":
            found += relay_calls(path, EVENTS if room == "loader" else frozenset(POLICIES))
    assert found == []


def test_that_check_sees_such_a_call(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("async def f(pm):\n    pm.hook.turn_end(event=1, ctx=2)\n", "utf-8")
    assert relay_calls(path, EVENTS) == ["bad.py:2 .hook.turn_end"]
