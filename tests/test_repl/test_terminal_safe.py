"""What others put in at the prompt, and how it ends: plugins, secrets, escapes, kills, plain mode."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys

import pytest

from unipi.sim import Call, Say
from unipi.sim.script import Answer
from unipi_hookspecs import ToolResultMessage

pytestmark = pytest.mark.slow

SLOWLY = Answer((Say("slow words " * 400),), delay=0.02)
"""An answer that is still streaming when the next key is typed."""


def test_history_comes_back_in_another_session_and_only_its_owner_can_read_it(sit, cli) -> None:
    me, _ = sit(Say("One."))
    me.enters("remember this")
    me.sees("One.")
    me.presses("ctrl-d")
    assert me.leaves() == 0
    kept = cli.home / "state" / "history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    me, _ = sit(Say("Two."))
    me.presses("up")
    me.sees("remember this")


def test_a_plugin_asks_and_the_line_that_is_typed_is_its_answer(sit, cli, messages) -> None:
    plugin = cli.plugin(
        "asks",
        "manifest = Manifest(name='asks', api=1)\n"
        "@hookimpl\nasync def tool_call(event, ctx):\n"
        "    if not await ctx.ui.confirm('really list?'):\n"
        "        return Block('The user said no.')\n",
    )
    me, _ = sit(Call("ls", {"path": "."}), Say("Then not."), args=("-e", plugin))
    me.enters("go")
    me.sees("really list? [y/N]")
    me.enters("n")
    me.sees("ls failed")
    me.sees("Then not.")
    results = [m for m in messages() if isinstance(m, ToolResultMessage)]
    assert "The user said no." in str(results[0].content)


def test_no_escape_sequence_of_a_model_or_a_file_reaches_the_terminal(sit, cli) -> None:
    (cli.folder / "evil.txt").write_text("\x1b]0;owned\x07 \x1b[2Jgone\n")
    me, _ = sit(
        Call("read", {"path": "evil.txt"}), Say("\x1b]52;c;b3duZWQ=\x07\x1b[31mred\r\x9b2J ok")
    )
    me.enters("read it")
    me.sees("red")
    me.sees("ok")
    me.presses("ctrl-o")
    me.sees("gone")
    assert "\x1b]0;owned" not in me.raw
    assert "\x1b]52" not in me.raw
    assert "\x1b[31mred" not in me.raw
    assert "\x9b2J" not in me.raw
    assert "\x1b[2Jgone" not in me.raw


def test_a_polite_kill_gives_the_terminal_back_and_keeps_the_session(sit, messages) -> None:
    me, _ = sit(SLOWLY)
    me.enters("go")
    me.sees("slow words")
    me.process.send_signal(signal.SIGTERM)
    assert me.leaves() == 0
    assert [m.content for m in messages()] == ["go"]


def test_a_question_puts_aside_what_was_half_typed_and_gives_it_back(sit, cli) -> None:
    plugin = cli.plugin(
        "asks",
        "manifest = Manifest(name='asks', api=1)\n"
        "@hookimpl\nasync def tool_call(event, ctx):\n"
        "    assert await ctx.ui.confirm('really list?')\n",
    )
    wordy = Answer((Say("Wait. " * 30), Call("ls", {"path": "."})), delay=0.02)
    me, _ = sit(wordy, Say("Listed."), Say("Heard."), args=("-e", plugin))
    me.enters("go")
    me.sees("Wait.")
    me.types("half a thought")
    me.sees("really list?")
    me.enters("y")
    me.sees("Listed.")
    me.enters(" and the other")
    me.sees("> half a thought and the other")
    me.sees("Heard.")


def test_ctrl_c_at_a_question_is_no_answer(sit, cli) -> None:
    plugin = cli.plugin(
        "asks",
        "manifest = Manifest(name='asks', api=1)\n"
        "async def ask(rest, ctx):\n"
        "    return f'got {await ctx.ui.input(\"name?\")!r}'\n"
        "@hookimpl\ndef register_commands(ctx):\n"
        "    return [Command('ask', 'Ask.', ask)]\n",
    )
    me, _ = sit(args=("-e", plugin))
    me.enters("/ask")
    me.sees("name?")
    me.enters("Ada")
    me.sees("got 'Ada'")
    me.enters("/ask")
    me.sees("name?")
    me.presses("ctrl-c")
    me.sees("stopped")
    assert me.process.poll() is None


def test_what_a_plugin_prints_is_shown_above_the_input_without_its_escapes(sit, cli) -> None:
    plugin = cli.plugin(
        "prints",
        "import sys, threading\n"
        "manifest = Manifest(name='prints', api=1)\n"
        "@hookimpl\ndef input(event, ctx):\n"
        "    print('from \\x1b[2J the hook')\n"
        "    thread = threading.Thread(target=lambda: print('from a thread', file=sys.stderr))\n"
        "    thread.start(); thread.join()\n",
    )
    me, _ = sit(Say("Fine."), args=("-e", plugin))
    me.enters("go")
    me.sees("from \ufffd[2J the hook")
    me.sees("from a thread")
    me.sees("Fine.")


def test_a_terminal_that_goes_away_ends_the_process_and_keeps_the_session(sit, messages) -> None:
    me, _ = sit(SLOWLY)
    me.enters("go")
    me.sees("slow words")
    me.hangs_up()
    assert me.process.wait(timeout=10) >= 0  # by itself, by no signal
    assert [m.content for m in messages()] == ["go"]


def test_listing_commands_loads_nothing_that_only_the_prompt_needs() -> None:
    heavy = "{'httpx2', 'rich', 'structlog', 'mcp', 'prompt_toolkit', 'anyio'}"
    program = f"import sys, unipi.cli.main; print({heavy} & set(sys.modules) or 'none')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "none\n"


def test_a_key_that_is_typed_by_mistake_is_in_no_history(sit, cli) -> None:
    me, _ = sit(Say("One."), Say("Two."))
    me.enters("hello")
    me.sees("One.")
    me.enters(f"is {me.secret} right")
    me.sees("Two.")
    kept = (cli.home / "state" / "history").read_text()
    assert "hello" in kept
    assert "right" in kept
    assert me.secret not in kept


def test_plain_mode_at_a_terminal_asks_and_sends_no_escape_sequence(sit, cli) -> None:
    plugin = cli.plugin(
        "asks",
        "manifest = Manifest(name='asks', api=1)\n"
        "@hookimpl\nasync def input(event, ctx):\n"
        '    ctx.ui.notify(f\'chose {await ctx.ui.select("which?", ["tea", "coffee"])}\')\n',
    )
    me, _ = sit(Say("Fine."), args=("--plain", "-e", plugin))
    me.types("go\n")
    me.sees("which? [1-2]")
    me.types("cof\n")
    me.sees("chose coffee")
    me.sees("Fine.")
    me.sees("> ")
    me.presses("ctrl-c")
    assert me.leaves() == 0
    assert "\x1b" not in me.raw


def test_ctrl_c_in_plain_mode_stops_the_turn_and_keeps_the_prompt(sit) -> None:
    me, _ = sit(SLOWLY, Say("Here again."), args=("--plain",))
    me.types("go\n")
    me.sees("slow words")
    me.presses("ctrl-c")
    me.sees("stopped")
    me.types("again\n")
    me.sees("Here again.")
