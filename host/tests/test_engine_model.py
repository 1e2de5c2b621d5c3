"""The scripted model: what is written, what is refused."""

import sys
from pathlib import Path

import pytest

from unipi.sim.engine import EngineUnavailable, engine_available
from unipi.sim.tiny_model import Action, demo_actions, tool_call, write_model

_MISSING = engine_available()
_needs_engine = pytest.mark.skipif(
    _MISSING is not None, reason=_MISSING or "the engine is installed"
)


def test_a_call_is_written_compact_in_the_order_given() -> None:
    said = tool_call("edit", path="a", edits=[{"newText": "x", "oldText": "é"}])
    arguments = '{"path":"a","edits":[{"newText":"x","oldText":"é"}]}'
    assert said == f'<tool_call>\n{{"name": "edit", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.engine
@_needs_engine
def test_equal_actions_give_equal_files_of_half_a_megabyte(tmp_path: Path) -> None:
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    write_model(first, demo_actions())
    write_model(second, demo_actions())
    assert first.read_bytes() == second.read_bytes()
    assert 400_000 < first.stat().st_size < 700_000


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([Action(f"w{i}", "x") for i in range(62)], "room for 62"),
        ([Action("when", "")], "'when' is empty"),
        ([Action("caf\u00e9", "x")], "not printable ASCII"),
        ([Action("a", "same"), Action("b", "same")], "the same text: 'same'"),
    ],
)
def test_a_script_that_the_model_cannot_hold_is_refused(
    tmp_path: Path, actions: list[Action], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_model(tmp_path / "m.gguf", actions)


def test_without_its_parts_the_engine_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(EngineUnavailable, match=r"gguf.*unipi\[local\]"):
        write_model(tmp_path / "m.gguf", demo_actions())
