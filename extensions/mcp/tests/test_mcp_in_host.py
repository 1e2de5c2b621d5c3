"""MCP servers in a real session: the same bytes whatever they do, and every call answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import anyio
import pytest

from unipi.session import Session
from unipi.sim import Answer, Call, Say, Simulator
from unipi.testing import prefix_breaks
from unipi_hookspecs import Image

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]


def use(tool: str, **given: object) -> Answer:
    return Answer((Call(f"mcp__s__{tool}", given),))


def told(it) -> str:
    return "\n".join(notice.text for notice in it.notices)


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_was_never_seen_is_listed_and_called_in_its_first_session(
    place, api: str
) -> None:
    place.servers(s=place.scripted(tools=["echo", "add"]))
    script = [use("echo", text="hello"), Say("done")]
    async with place.open(script, api=api) as it:
        await it.agent.prompt("go")
    assert place.names_of(it.requests[0]) == ["mcp__s__add", "mcp__s__echo"]
    assert [place.text_of(r) for r in place.results(it)] == ["echo: hello"]
    assert prefix_breaks(it.requests) == []


async def test_from_the_second_session_on_no_server_is_waited_for(place) -> None:
    place.servers(s=place.scripted(tools=["echo"]))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    first = place.tools_of(it.requests[0])
    entry = place.scripted(tools=["echo"])
    place.servers(s=entry | {"startSeconds": 60})
    async with place.open([Say("two")]) as it:
        await it.agent.prompt("go")
    assert place.tools_of(it.requests[0]) == first


async def test_a_server_that_hangs_costs_its_own_time_and_changes_no_other_s_bytes(place) -> None:
    place.servers(a=place.scripted(tools=["echo"]))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    alone = place.tools_of(it.requests[0])
    place.servers(
        a=place.scripted(tools=["echo"]), z=place.scripted(fault="hang") | {"startSeconds": 0.3}
    )
    async with place.open([Say("two")]) as it:
        await it.agent.prompt("go")
    assert place.tools_of(it.requests[0]) == alone
    assert "'z' did not list its tools within 0.3 seconds" in told(it)


async def test_a_known_server_that_is_down_keeps_its_tools_and_its_calls_say_why(place) -> None:
    mark = place.folder / "down"
    code = "import os,sys; os.path.exists(sys.argv[1]) and sys.exit('no database'); "
    code += "sys.argv[1:]=sys.argv[2:]; exec(open(sys.argv.pop(1)).read())"
    place.servers(
        s={
            "command": sys.executable,
            "args": [
                "-I",
                "-S",
                "-c",
                code,
                str(mark),
                place.script,
                json.dumps({"tools": ["echo"]}),
            ],
        }
    )
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    before = place.tools_of(it.requests[0])
    mark.touch()
    async with place.open([use("echo", text="x"), Say("two")]) as it:
        await it.agent.prompt("go")
        (result,) = place.results(it)
    assert place.tools_of(it.requests[0]) == before
    assert result.is_error
    assert "cannot be started" in place.text_of(result)
    assert "no database" in place.text_of(result)
    assert prefix_breaks(it.requests) == []


async def test_a_description_that_holds_a_counter_is_pinned_and_called_volatile(place) -> None:
    place.servers(s=place.scripted(tools=["echo"], fault="volatile"))
    bodies, notes = [], []
    for _ in range(4):
        async with place.open([Say("one")]) as it:
            await it.agent.prompt("go")
            await anyio.sleep(0.2)
        bodies.append(json.dumps(place.tools_of(it.requests[0])))
        notes.append(told(it))
    assert len(set(bodies)) == 1
    assert "changes its digits each time: a counter or a clock" in notes[-1]
    assert "lists otherwise than approved" in notes[1]


async def test_a_changed_list_waits_until_it_is_approved_and_a_reload_is_one_boundary(
    place,
) -> None:
    place.servers(s=place.scripted(tools=["echo"]))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    changing = place.folder / "changing.json"
    changing.write_text(json.dumps({"tools": ["echo"]}))
    code = "import sys; about=open(sys.argv[1]).read(); sys.argv[1:]=[sys.argv[2], about]; "
    code += "exec(open(sys.argv.pop(1)).read())"
    place.servers(
        s={"command": sys.executable, "args": ["-I", "-S", "-c", code, str(changing), place.script]}
    )
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    changing.write_text(json.dumps({"tools": ["echo", "more"]}))
    async with place.open([Say("one"), Say("two"), Say("three")]) as it:
        await it.agent.prompt("go")
        await settled(it, "added more")
        assert "approved: added more" in told(it)
        said = await it.agent.prompt("/unipi:mcp-reload")
        assert "waits for `unipi mcp approve`" in said
        await it.agent.prompt("again")
        assert prefix_breaks(it.requests) == []
        approve(it)
        assert "1 tools of MCP servers are others" in await it.agent.prompt("/unipi:mcp-reload")
        await it.agent.prompt("and now")
    assert place.names_of(it.requests[1]) == ["mcp__s__echo"]
    assert place.names_of(it.requests[2]) == ["mcp__s__echo", "mcp__s__more"]
    assert [(b.cause, b.owner) for b in it.boundaries] == [("first", "host"), ("tools", "mcp")]


def approve(it) -> None:
    from unipi_mcp import definitions
    from unipi_mcp.session import registry_of

    registry = registry_of(it.agent.contexts.of("mcp"))
    for server in registry.plan.enabled:
        definitions.accept(registry.plan.folder, server)


async def settled(it, text: str) -> None:
    """Wait until a notice says this."""
    with anyio.fail_after(5):
        while text not in told(it):
            await anyio.sleep(0.01)


async def test_a_resumed_session_goes_on_with_its_bytes_though_the_server_is_new_to_it(
    place,
) -> None:
    place.servers(s=place.scripted(tools=["echo"]))
    path = place.folder / "s.jsonl"
    sim = Simulator([Say("one"), use("echo", text="x"), Say("three")], profile="anthropic")
    async with place.open(None, sim=sim, session=Session.create(path, cwd=place.project)) as it:
        await it.agent.prompt("go")
    place.servers(s=place.scripted(tools=["echo"]), t=place.scripted(tools=["late"]))
    async with place.open(None, sim=sim, session=Session.open(path)) as it:
        await it.agent.prompt("again")
        assert it.boundaries == []
        assert [place.text_of(r) for r in place.results(it)] == ["echo: x"]
    assert prefix_breaks(sim.requests) == []


async def test_every_kind_of_content_is_shown_or_named(place) -> None:
    place.servers(s=place.scripted(tools=["kinds"]))
    async with place.open([use("kinds"), Say("done")]) as it:
        await it.agent.prompt("go")
        (result,) = place.results(it)
    text = place.text_of(result)
    assert [b for b in result.content if isinstance(b, Image)] == [Image("aGVsbG8=", "image/png")]
    for shown in (
        "words",
        "[image image/tiff, 6 bytes: not shown]",
        "[audio audio/wav, 6 bytes: not shown]",
        "[resource a.txt at file:///a.txt: A file]",
        "inside b",
        "[resource file:///c, x/y, 6 bytes: not shown]",
    ):
        assert shown in text
    assert '"n"' not in text  # structured content stands for the text, where there is none


async def test_an_error_of_a_tool_is_one_and_a_large_result_is_bounded_and_kept(place) -> None:
    place.servers(s=place.scripted(tools=["fails", "big"]))
    script = [use("fails"), use("big", size=3_000_000), Say("done")]
    async with place.open(script) as it:
        await it.agent.prompt("go")
        failed, big = place.results(it)
    assert (failed.is_error, place.text_of(failed)) == (True, "it went wrong")
    assert len(place.text_of(big).encode()) <= 65_536
    assert "shown are the first" in place.text_of(big)


async def test_a_server_that_dies_at_work_says_so_and_the_next_call_finds_it_started_again(
    place,
) -> None:
    place.servers(s=place.scripted(tools=["crash", "echo"]))
    script = [use("crash"), use("echo", text="back"), Say("done")]
    async with place.open(script) as it:
        await it.agent.prompt("go")
        crashed, echoed = place.results(it)
    assert crashed.is_error
    assert "whether that was done is not known; it last said: the sky fell" in place.text_of(
        crashed
    )
    assert place.text_of(echoed) == "echo: back"


async def test_a_call_that_only_reads_is_made_again_once(place) -> None:
    mark = place.folder / "mark"
    tool = {"name": "crash_once", "annotations": {"readOnlyHint": True}}
    place.servers(s=place.scripted(tools=[tool], mark=str(mark)))
    async with place.open([use("crash_once", text="x"), Say("done")]) as it:
        await it.agent.prompt("go")
        (result,) = place.results(it)
    assert place.text_of(result) == "crash_once: x"


async def test_progress_is_shown_and_a_cancellation_reaches_the_server(place) -> None:
    notes = place.folder / "notes"
    place.servers(s=place.scripted(tools=["slow"], notes=str(notes)))
    seen = []
    async with place.open([use("slow"), Say("never")]) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, "go")
            with anyio.fail_after(5):
                while not seen:
                    seen = [e for e in it.events if type(e).__name__ == "ToolExecutionUpdateEvent"]
                    await anyio.sleep(0.01)
            it.agent.abort()
        with anyio.fail_after(5):
            while "cancelled" not in notes.read_text():
                await anyio.sleep(0.01)
    assert "on it (1 of 3)" in str(seen[0])


async def test_a_call_has_a_time_of_its_own(place) -> None:
    place.servers(s=place.scripted(tools=["slow"]) | {"callSeconds": 0.2})
    async with place.open([use("slow"), Say("done")]) as it:
        await it.agent.prompt("go")
        (result,) = place.results(it)
    assert "did not answer slow within 0.2 seconds" in place.text_of(result)


async def test_what_is_no_json_on_its_output_is_passed_over(place) -> None:
    place.servers(s=place.scripted(tools=["garbage"], fault="noise"))
    async with place.open([use("garbage", text="x"), Say("done")]) as it:
        await it.agent.prompt("go")
        (result,) = place.results(it)
    assert place.text_of(result) == "garbage: x"


async def test_a_server_gets_what_its_entry_names_and_nothing_else_of_the_host_s(
    place, monkeypatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted")
    monkeypatch.setenv("TOKEN", "for-the-server")
    place.servers(s=place.scripted(tools=["pid"]) | {"env": {"SECRET": "${TOKEN}"}})
    async with place.open([use("pid"), Say("done")]) as it:
        await it.agent.prompt("go")
        _, secret, key = place.text_of(place.results(it)[0]).split()
    assert (secret, key) == ("for-the-server", "-")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "stubborn"])
async def test_no_server_outlives_its_session(place, fault: str) -> None:
    place.servers(s=place.scripted(tools=["pid"], fault=fault))
    async with place.open([use("pid"), Say("done")]) as it:
        await it.agent.prompt("go")
        pid = int(place.text_of(place.results(it)[0]).split()[0])
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_instructions_of_a_known_server_stand_in_the_head_and_of_a_new_one_at_the_tail(
    place,
) -> None:
    place.servers(s=place.scripted(tools=["echo"], instructions="Ask before you write."))
    async with place.open([Say("one"), Say("two")]) as it:
        await it.agent.prompt("go")
        await it.agent.prompt("on")
    bodies = [json.loads(request.body) for request in it.requests]
    assert "Ask before you write." not in json.dumps(bodies[0]["system"])
    assert json.dumps(bodies[1]["messages"]).count("Ask before you write.") == 1
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    body = json.loads(it.requests[0].body)
    assert json.dumps(body["system"]).count("Ask before you write.") == 1
    assert "Ask before" not in json.dumps(body["messages"])


async def test_five_hundred_tools_on_ten_servers_stand_behind_two(place) -> None:
    place.servers(**{f"s{n}": place.scripted(many=50) | {"mode": "on_demand"} for n in range(10)})
    script = [
        Answer((Call("mcp_search_tools", {"query": "s7 tool_31 thing"}),)),
        Answer((Call("mcp_call_tool", {"name": "mcp__s7__tool_31", "arguments": {"text": "x"}}),)),
        Say("done"),
    ]
    async with place.open(script) as it:
        await it.agent.prompt("go")
        found, called = place.results(it)
    assert place.names_of(it.requests[0]) == ["mcp_call_tool", "mcp_search_tools"]
    assert '"name": "mcp__s7__tool_31"' in place.text_of(found)
    assert place.text_of(called) == "tool_31: x"
    head = len(json.dumps(place.tools_of(it.requests[0])[-2:]))
    assert head < 0.02 * 500 * len(place.text_of(found).split("\n")[0])
    assert [boundary.cause for boundary in it.boundaries] == ["first"]


async def test_a_large_catalogue_is_found_on_demand_and_the_user_is_told(place) -> None:
    place.servers(s=place.scripted(many=200))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    assert place.names_of(it.requests[0]) == ["mcp_call_tool", "mcp_search_tools"]
    assert "the 200 tools of 's'" in told(it)
    assert '"mode": "listed"' in told(it)


async def test_pages_are_followed_and_tools_that_demand_tasks_left_out(place) -> None:
    tools = ["a", "b", {"name": "t", "execution": {"taskSupport": "required"}}, "c"]
    place.servers(s=place.scripted(tools=tools, page=1))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
    assert place.names_of(it.requests[0]) == ["mcp__s__a", "mcp__s__b", "mcp__s__c"]


async def test_the_status_says_how_each_server_is(place) -> None:
    place.servers(a=place.scripted(tools=["echo"]), b=place.scripted(fault="dies"))
    async with place.open([Say("one")]) as it:
        await it.agent.prompt("go")
        said = await it.agent.prompt("/unipi:mcp-status")
    first, second = said.split("\n")
    assert first == "a: ready, 1 tools listed"
    assert second.startswith("b: failed (the MCP server 'b' cannot be started: ")
    assert second.endswith("not offered in this session")
    assert "cannot open the database" in second


def test_where_no_server_is_configured_nothing_of_it_is_loaded(place) -> None:
    program = (
        "import sys, unipi_mcp\n"
        "from unipi.agent.host import PlainLoadContext\n"
        "from pathlib import Path\n"
        "assert list(unipi_mcp.register_tools(PlainLoadContext('mcp', Path.cwd()))) == []\n"
        "print(sorted(n for n in sys.modules if n == 'mcp' or n.startswith('unipi_mcp.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place.project,
        env={"UNIPI_HOME": str(place.home), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
