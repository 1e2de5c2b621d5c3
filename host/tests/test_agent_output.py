"""What a tool gives back is made fit for the model and for the session."""

from __future__ import annotations

import pytest
from attrs import evolve

from unipi.agent.output import bounded_content, complaint, without_copies
from unipi.session import Session
from unipi.sim import Call, Say
from unipi.testing import lab, prefix_breaks
from unipi.tools.bound import bound_output
from unipi_hookspecs import Image, Text, Tool, ToolOutput, ToolResultMessage, hookimpl

LIMIT = 65_536
PICTURE = Image("AAAA", "image/png")


def bound(raw, *, label="output"):
    return bound_output(raw, label=label, artifacts=None)


def size(content):
    return sum(len(part.text.encode()) for part in content if isinstance(part, Text))


def test_text_within_the_bound_stays_the_same_objects():
    parts = [Text("one"), PICTURE, Text("é")]
    content, cut = bounded_content(parts, "t", bound)
    assert not cut
    assert all(a is b for a, b in zip(content, parts, strict=True))


def test_text_over_the_bound_is_cut_as_one_and_pictures_stay():
    content, cut = bounded_content([Text("a" * 40_000), PICTURE, Text("b" * 40_000)], "t", bound)
    assert cut
    assert size(content) <= LIMIT
    assert content[1:] == (PICTURE,)


def test_broken_units_count_with_what_they_become():
    content, cut = bounded_content("\ud800 " * 20_000, "t", bound)
    assert cut
    assert size(content) <= LIMIT


def test_details_keep_their_shape_and_lose_only_long_texts():
    details = {
        "raw": "x" * 100_000,
        "rows": [1, "short", ["y" * 100_000]],
        "ok": True,
        "none": None,
    }
    kept = without_copies(details, "t", bound)
    assert len(kept["raw"].encode()) <= LIMIT
    assert len(kept["rows"][2][0].encode()) <= LIMIT
    assert (kept["rows"][:2], kept["ok"], kept["none"]) == ([1, "short"], True, None)


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (ToolOutput(None), "NoneType"),
        (ToolOutput(b"bytes"), "bytes"),
        (ToolOutput([{"type": "text", "text": "x"}]), "dict"),
        (ToolOutput("fine", details=object()), "details"),
        (ToolOutput("fine", details={"n": float("nan")}), None),
        (ToolOutput("fine", details={1: 2}), None),
    ],
)
def test_what_can_be_no_result_is_named(output, word):
    found = complaint(output)
    assert found is None if word is None else word in found


def test_a_good_output_is_no_complaint():
    assert complaint(ToolOutput([Text("a"), PICTURE], {"rows": (1, 2)})) is None


@pytest.mark.parametrize(
    "result",
    [ToolOutput(None), ToolOutput("x", details=object()), ToolOutput([3]), 7, None],
)
async def test_a_tool_that_returns_rubbish_gets_an_error_result_and_the_run_goes_on(
    tmp_path, result
):
    async def run(call, ctx):
        return result

    class Brings:
        @hookimpl
        def register_tools(self):
            return [Tool("odd", "Odd.", run=run)]

    path = tmp_path / "s.jsonl"
    session = Session.create(path, cwd=tmp_path)
    script = [[Call("odd"), Call("ls", {"path": "."})], [Say("ok")]]
    async with lab(tmp_path, script, plugins=[("brings", Brings())], session=session) as it:
        await it.agent.prompt("go")
        messages = it.agent.session.messages()
    odd, listed = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert odd.is_error
    assert odd.content[0].text.startswith(("The result has", "The tool returned"))
    assert not listed.is_error
    assert prefix_breaks(it.requests) == []


@pytest.mark.parametrize("bad", [False, True])
async def test_a_plugin_that_replaces_a_result_keeps_its_call_and_the_bound(tmp_path, bad):
    class Replaces:
        @hookimpl
        def message_end(self, event):
            if isinstance(event.message, ToolResultMessage):
                content = [3] if bad else [Text("y" * 100_000)]
                return evolve(event.message, tool_call_id="another", content=content)
            return None

    script = [[Call("ls", {"path": "."}, id="call_1")], [Say("ok")]]
    async with lab(tmp_path, script, plugins=[("replaces", Replaces())]) as it:
        await it.agent.prompt("go")
        (result,) = [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]
    assert result.tool_call_id == "call_1"
    assert size(result.content) <= LIMIT
    assert [r.status for r in it.sim.requests] == [200, 200]
    assert [n.plugin for n in it.notices] == (["replaces"] if bad else [])
    assert result.content[0].text.startswith("yyy") is not bad
