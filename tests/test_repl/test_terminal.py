"""`unipi` without a command, typed at through a real pseudo-terminal."""

from __future__ import annotations

import pytest

from unipi.sim import Call, Say
from unipi.sim.script import Answer
from unipi.testing import prefix_breaks
from unipi_hookspecs import AssistantMessage, ToolResultMessage, UserMessage

pytestmark = pytest.mark.slow

SLOWLY = Answer((Say("slow words " * 400),), delay=0.02)
"""An answer that is still streaming when the next key is typed."""


def test_an_answer_is_shown_and_the_status_says_what_the_cache_gave(sit, messages) -> None:
    me, _ = sit(Say("Good morning."), Say("As I said."))
    me.enters("hello")
    me.sees("> hello")
    me.sees("Good morning.")
    me.sees("epoch 1: first, by host")
    me.enters("again")
    me.sees("As I said.")
    me.sees("of 200,000")
    me.sees("cache ")
    me.presses("ctrl-d")
    assert me.leaves() == 0
    assert [type(m) for m in messages()] == [UserMessage, AssistantMessage] * 2


def test_a_call_and_its_result_are_a_line_each_until_they_are_asked_for_in_full(sit, cli) -> None:
    (cli.folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(40)))
    me, _ = sit(Call("read", {"path": "long.txt"}), Say("Read."))
    me.enters("read it")
    me.sees("· read long.txt")
    me.sees("└ read: 40 lines")
    me.sees("Read.")
    assert "line 17" not in me.screen
    me.presses("ctrl-o")
    me.sees("line 17")
    me.sees("line 39")


def test_ctrl_c_stops_the_turn_and_the_session_goes_on(sit, prompts) -> None:
    me, sim = sit(SLOWLY, Say("Here again."))
    me.enters("go")
    me.sees("slow words")
    me.presses("ctrl-c")
    me.sees("stopped")
    me.enters("and now")
    me.sees("Here again.")
    assert me.process.poll() is None
    assert prefix_breaks(sim.requests) == []
    assert prompts() == ["go", "and now"]


def test_ctrl_c_while_a_tool_runs_leaves_no_call_without_a_result(sit, messages) -> None:
    me, _ = sit(Call("bash", {"command": "echo ready; sleep 60"}), Say("Went on."))
    me.enters("go")
    me.sees("· bash")
    me.presses("ctrl-c")
    me.sees("stopped")
    me.enters("go on")
    me.sees("Went on.")
    assert any(isinstance(m, ToolResultMessage) for m in messages())


def test_ctrl_c_twice_at_an_idle_prompt_leaves_and_the_first_only_empties_the_line(sit) -> None:
    me, _ = sit()
    me.types("half a thought")
    me.presses("ctrl-c")
    me.presses("ctrl-c")
    me.sees("Ctrl-C again, or Ctrl-D, leaves")
    assert me.process.poll() is None
    me.presses("ctrl-c")
    assert me.leaves() == 0


def test_what_is_typed_while_a_turn_runs_is_said_in_that_turn_or_behind_it(sit, prompts) -> None:
    me, sim = sit(
        Answer((Say("Wait. " * 40), Call("ls", {"path": "."})), delay=0.02),
        Say("Seen."),
        Say("End."),
    )
    me.enters("go")
    me.sees("Wait.")
    me.types("afterwards")
    me.presses("alt-enter")
    me.sees("> afterwards (queued)")
    me.enters("by the way")
    me.sees("> by the way (queued)")
    me.sees("Seen.")
    me.sees("End.")
    said = prompts()
    assert said == ["go", "by the way", "afterwards"]
    assert prefix_breaks(sim.requests) == []


def test_tab_completes_commands_their_arguments_and_names_of_files(sit, cli) -> None:
    (cli.folder / "unmistakable.txt").write_text("x")
    me, sim = sit(Say("Fine."))
    me.types("/thin")
    me.sees("choose how much")
    me.presses("tab")
    me.sees("king")
    me.types(" of")
    me.sees("off")
    me.presses("tab")
    me.sees("f")
    me.presses("enter")
    me.sees("> /thinking off")
    me.types("look at unmis")
    me.presses("tab")
    me.sees("takable.txt")
    me.presses("enter")
    me.sees("> look at unmistakable.txt")
    me.sees("Fine.")
    assert b"look at unmistakable.txt" in sim.requests[0].body


def test_a_command_that_is_not_there_is_told_and_never_sent(sit) -> None:
    me, sim = sit()
    me.enters("/comapct")
    me.sees("there is no command /comapct")
    assert sim.requests == []


def test_fork_shows_the_prompts_and_puts_the_chosen_one_on_the_line(sit, prompts) -> None:
    me, sim = sit(Say("First."), Say("Second."), Say("Third."))
    me.enters("one")
    me.sees("First.")
    me.enters("two")
    me.sees("Second.")
    me.enters("/fork")
    me.sees("user: two")
    me.sees("before which prompt [1-2]")
    me.enters("2")
    me.sees("session ")
    me.sees("two")
    me.enters(" and a half")
    me.sees("Third.")
    assert prompts() == [
        "one",
        "two and a half",
    ]
    assert prefix_breaks([sim.requests[0], sim.requests[2]]) == []


def test_what_was_queued_when_the_turn_was_stopped_is_said_with_the_next_prompt(sit) -> None:
    me, sim = sit(SLOWLY, Say("Both."), Say("Both."))
    me.enters("go")
    me.sees("slow words")
    me.enters("by the way")
    me.sees("> by the way (queued)")
    me.presses("ctrl-c")
    me.sees("stopped")
    me.enters("go on")
    me.sees("Both.")
    me.presses("ctrl-d")
    me.leaves()
    assert b"by the way" in sim.requests[1].body
    assert b"go on" in sim.requests[1].body


def test_a_new_session_begins_on_the_same_screen(sit, prompts) -> None:
    me, sim = sit(Say("First."), Say("Second."))
    me.enters("one")
    me.sees("First.")
    me.enters("/new")
    me.sees("session ")
    me.enters("two")
    me.sees("Second.")
    assert prompts() == ["two"]
    assert b"one" not in sim.requests[1].body.partition(b'"messages"')[2]
