"""The base prompt, and edits of it that move from one base to another."""

from pathlib import Path

import pytest

from unipi.agent.system_prompt import addition, base_prompt, moved_edit
from unipi_hookspecs import Tool


def tool(name, description):
    return Tool(name, description, run=lambda call, ctx: "")


def test_it_names_folder_instructions_and_each_tool_by_its_first_sentence():
    tools = [tool("read", "Read a file. It is cut after 2000 lines."), tool("ls", "List.\nMore.")]
    text = base_prompt(Path("/project"), tools, ["Be brief.", "Use tabs."])
    assert "- read: Read a file\n- ls: List\n" in text
    assert text.index("Be brief.") < text.index("Use tabs.") < text.index("/project")
    assert text == base_prompt(Path("/project"), tools, ["Be brief.", "Use tabs."])


def test_an_addition_moves_with_the_base_it_stands_around():
    assert (
        moved_edit("old base", "before\nold base\nafter", "new base") == "before\nnew base\nafter"
    )


@pytest.mark.parametrize("given", ["old base", ""])
def test_a_text_without_the_base_replaces_it(given):
    assert moved_edit(given, "all mine", "new base") == "all mine"


def test_what_was_added_is_what_stands_around_the_base():
    assert addition("base", "before\nbase\n\nafter\n") == "before\nafter"
    assert addition("base", "base") == ""
    assert addition("base", "all mine") is None
    assert addition("", "all mine") is None
