"""The scripted agent: what it is asked, what it works on, and what it answers.

It answers by what it reads, and not by counting: a tool that fails leads it astray, and the demo
says so. The engine's model and the simulator follow the same actions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unipi.sim import Answer, Call, Say
from unipi.sim.tiny_model import DEMO_FILES, DEMO_PROMPT, Action, demo_actions, tool_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unipi.sim import Part
    from unipi_hookspecs import JSON

PROMPTS = (
    DEMO_PROMPT,
    "Now let it greet the world when there is no name, with a test for it.",
    "Note both in the changelog, and commit.",
    "Is the old spelling left anywhere?",
)
LAST_ANSWER = "No, the old spelling is gone."
FILES = {
    **DEMO_FILES,
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n",
    ".gitignore": "__pycache__/\n",
}
"""The project, path to content; it is committed before the agent starts."""


def actions() -> list[Action]:
    """The answers, the first that matches the last telling message; results before prompts."""
    world: dict[str, JSON] = {"newText": "{name or 'world'}", "oldText": "{name}"}
    seen = '"Hello, Ada!")'
    case = (
        "\n\n    def test_it_greets_the_world(self) -> None:\n"
        '        self.assertEqual(greet(""), "Hello, world!")'
    )
    test: dict[str, JSON] = {"newText": seen + case, "oldText": seen}
    heading = "## Unreleased\n"
    notes = "\n- An empty name greets the world.\n- It says Hello now.\n"
    note: dict[str, JSON] = {"newText": heading + notes, "oldText": heading}
    commit = 'git commit -qam "Greet properly" && git --no-pager show --stat --format=%s'
    both = [
        tool_call("edit", path="greet.py", edits=[world]),
        tool_call("edit", path="test_greet.py", edits=[test]),
    ]
    return [
        Action("Ran 2 tests", "It greets the world now, and both tests pass."),
        Action("in test_greet.py", tool_call("bash", command="python3 -m unittest -v")),
        Action("class GreetTest", "\n".join(both)),
        Action("3 files changed", "Both are noted, and all of it is committed."),
        Action("in CHANGELOG.md", tool_call("bash", command=commit)),
        Action("## Unreleased", tool_call("edit", path="CHANGELOG.md", edits=[note])),
        Action("No matches.", LAST_ANSWER),
        *demo_actions(),
        Action("let it greet the world", tool_call("read", path="test_greet.py")),
        Action("in the changelog", tool_call("read", path="CHANGELOG.md")),
        Action("old spelling left", tool_call("grep", pattern="Helo")),
        Action("", "I do not know what to do with that; I stop here."),
    ]


_CALL = re.compile(r'\n?<tool_call>\n\{"name": "(\w+)", "arguments": (.*?)\}\n</tool_call>')


def answer(request: dict[str, object], index: int) -> Answer:
    """The simulator's script: what the engine's model would answer to `request`."""
    script = actions()
    for text in _newest_texts(request):
        for action in script:
            if action.when and action.when in text:
                return Answer(tuple(_parts(action.say)))
    return Answer(tuple(_parts(script[-1].say)))


def _parts(say: str) -> Iterator[Part]:
    text = _CALL.sub("", say)
    if text:
        yield Say(text)
    for name, arguments in _CALL.findall(say):
        yield Call(name, arguments)


def _newest_texts(request: dict[str, object]) -> Iterator[str]:
    """What was said since the last answer, the newest first (Anthropic's shape)."""
    messages = request.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if message["role"] == "assistant":
            return
        yield from reversed([*_texts(message["content"])])


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result":
            yield from _texts(block.get("content"))
