"""Parts of the prompt that need no terminal: completion, rows, questions, the status of a setting."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from attrs import Factory, define
from hypothesis import given, strategies as st
from prompt_toolkit.utils import get_cwidth

from unipi.cli._load import keep_warm_pings
from unipi.cli.repl.complete import choices
from unipi.cli.repl.history import open_history
from unipi.cli.repl.transcript import brief
from unipi.cli.repl.ui import AskingUI, chosen_of
from unipi.cli.repl.wrap import rows, safe
from unipi.loader.settings import Settings


def offered(before: str, cwd: Path) -> list[str]:
    commands = {"model": "choose", "mode": "x", "skill:go": "go"}
    found = choices(before, cwd, lambda: commands, {"model": lambda: ["a/one", "b/two"]})
    return [before[: len(before) - each.back] + each.text for each in found]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/mo", ["/mode", "/model"]),
        ("/skill:", ["/skill:go"]),
        ("/model ", ["/model a/one", "/model b/two"]),
        ("/model tw", ["/model b/two"]),
        ("/model a/one ", []),
        ("see /mo", []),
        ("", []),
        ("see ", []),
        ("see su", ["see sub/"]),
        ("see sub/", ["see sub/inner.py"]),
        ("see @sub/in", ["see @sub/inner.py"]),
        ("see .h", ["see .hidden"]),
        ("see nowhere/x", []),
        ("\0", []),
    ],
)
def test_a_slash_completes_commands_and_any_other_word_a_path(before, after, tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("sub/inner.py", ".hidden", "with space", "evil\x1b[2J"):
        (tmp_path / name).touch()
    assert offered(before, tmp_path) == after


def test_a_name_that_could_steer_the_terminal_is_not_offered(tmp_path) -> None:
    for name in ("evil\x1b[2J", "evident"):
        (tmp_path / name).touch()
    assert offered("ev", tmp_path) == ["evident"]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60)), st.integers(4, 40))
def test_rows_fit_hold_no_control_character_and_lose_no_word(pieces, width) -> None:
    done: list[str] = []
    rest = ""
    for piece in pieces:
        fresh, rest = rows(rest + piece, width)
        done += fresh
    for row in [*done, safe(rest)]:
        assert all(char.isprintable() for char in row)
    assert all(get_cwidth(row) <= width for row in done if len(row) > 1)
    kept = "".join("".join([*done, safe(rest)]).split())
    assert kept.replace("\ufffd", "") == "".join(
        char for char in "".join("".join(pieces).split()) if char.isprintable() and char != "\ufffd"
    )


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("2", "beta"),
        ("alp", "alpha"),
        ("beta", "beta"),
        ("9", None),
        ("x", None),
        ("10", "10"),
        ("²", None),
    ],
)
def test_an_option_is_chosen_by_number_text_or_its_start(answer, chosen) -> None:
    assert chosen_of(answer, ["alpha", "beta", "10"]) == chosen


def test_the_start_of_two_options_chooses_neither() -> None:
    assert chosen_of("a", ["alpha", "anna"]) is None


@given(st.dictionaries(st.text(max_size=5), st.text()))
def test_a_calls_arguments_are_one_short_line(args) -> None:
    line = brief(args)
    assert len(line) <= 100
    assert len(line.splitlines()) <= 1


def test_history_that_was_readable_by_others_is_not_any_more_and_does_not_grow_for_ever(
    tmp_path,
) -> None:
    path = tmp_path / "state" / "history"
    path.parent.mkdir()
    path.write_bytes(b"\n# 2026\n+old\n" * 100_000)
    path.chmod(0o644)
    history = open_history(path)
    history.append_string("new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 1_000_000
    assert next(iter(history.load_history_strings())) == "new"


def test_history_behind_a_link_is_kept_in_memory(tmp_path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "history").symlink_to(tmp_path / "target")
    open_history(tmp_path / "history").append_string("a secret")
    assert (tmp_path / "target").read_text() == ""


@pytest.mark.parametrize("value", [True, -1, "3", 1.5])
def test_keep_warm_is_a_number_of_pings_or_refused(value, capsys) -> None:
    assert keep_warm_pings(Settings(values={"keep_warm": 3})) == 3
    assert keep_warm_pings(Settings()) == 0
    with pytest.raises(SystemExit):
        keep_warm_pings(Settings(values={"keep_warm": value}))
    assert "`keep_warm` must be a number of pings" in capsys.readouterr().err


@define
class Answering:
    """A console at which these answers are given, one after the other."""

    answers: list[str | None]
    asked: list[str] = Factory(list)
    interactive: bool = True

    def write(self, text: str, kind: str = "aside") -> None:
        self.asked.append(text)

    async def ask(self, question: str, *, default: str = "") -> str | None:
        self.asked.append(question)
        await anyio.lowlevel.checkpoint()
        return self.answers.pop(0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "default", "meant"),
    [
        (["y"], False, True),
        (["No"], True, False),
        ([""], True, True),
        ([None], True, True),
        (["perhaps", "yes"], False, True),
        (["a", "b", "c"], False, False),
    ],
)
async def test_confirm_asks_again_for_what_is_neither_yes_nor_no(answers, default, meant) -> None:
    ui = AskingUI(Answering(list(answers)), lambda event: None)
    assert await ui.confirm("sure?", default=default) is meant


@pytest.mark.anyio
async def test_two_questions_at_once_are_asked_one_after_the_other() -> None:
    console = Answering(["perhaps", "y", "Ada"])
    ui = AskingUI(console, lambda event: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ui.confirm, "sure?")
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(ui.input, "name?")
    assert console.asked == ["sure? [y/N]", "sure? [y/N]", "name?"]


@pytest.mark.anyio
async def test_select_without_an_answer_or_without_options_is_none() -> None:
    console = Answering(["", "7", "x", "0"])
    ui = AskingUI(console, lambda event: None)
    assert await ui.select("which?", []) is None
    assert await ui.select("which?", ["tea", "coffee"]) is None
    assert await ui.select("which?", ["tea", "coffee"]) is None
    assert console.answers == []
