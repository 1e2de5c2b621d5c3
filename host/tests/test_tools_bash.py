"""The bash tool, and the tools as a plugin (field reports F40, F46, F49, F53, F83)."""

import json
import re
from itertools import pairwise
from pathlib import Path

import anyio
import jsonschema
import pytest

from unipi.tools import bash, plugin
from unipi.tools.bound import VISIBLE_LIMIT, Artifacts, bound_output
from unipi.tools.text import ToolError


class Ctx:
    """As much of a context as the tools use."""

    def __init__(self, cwd):
        self.cwd = cwd
        self.settings = {}
        self.artifacts = Artifacts(cwd.parent / "artifacts", b"key")

    def bound_output(self, raw, *, label="output"):
        return bound_output(raw, label=label, artifacts=self.artifacts)


class Call:
    def __init__(self, **given):
        self.id, self.name, self.input = "1", "bash", given
        self.updates = []
        self.updated = anyio.Event()

    async def update(self, partial):
        self.updates.append((anyio.current_time(), partial))
        self.updated.set()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
def ctx(tmp_path):
    (tmp_path / "work").mkdir()
    return Ctx(tmp_path / "work")


async def run(ctx, command, **more):
    return await bash.bash(Call(command=command, **more), ctx)


async def test_both_streams_are_shown_in_order(ctx):
    assert await run(ctx, "echo a; echo b >&2; echo c") == "a\nb\nc"


async def test_it_is_bash_in_the_working_folder(ctx):
    assert await run(ctx, "[[ -d . ]] && pwd") == str(ctx.cwd)


async def test_a_lone_surrogate_in_a_command_is_repaired(ctx):
    assert await run(ctx, "echo 'a\ud800b'") == "a\ufffdb"


async def test_silence_is_said(ctx):
    assert await run(ctx, "true") == "(no output)"


async def test_a_failing_command_is_an_error_with_its_output(ctx):
    with pytest.raises(ToolError) as caught:
        await run(ctx, "echo before; exit 3")
    assert str(caught.value) == "before\n\nCommand exited with code 3"
    with pytest.raises(ToolError, match="exited with code 137"):
        await run(ctx, "kill -9 $$")


async def test_a_time_out_is_an_error_with_the_output_so_far(ctx):
    with pytest.raises(ToolError) as caught:
        await run(ctx, "echo before; sleep 600", timeout=0.2)
    assert str(caught.value) == "before\n\nCommand timed out after 0.2 seconds"


@pytest.mark.parametrize("timeout", [0, -1, "5", True])
async def test_a_time_out_must_be_above_zero(ctx, timeout):
    with pytest.raises(ToolError, match="timeout must be"):
        await run(ctx, "true", timeout=timeout)


async def test_what_goes_on_in_the_background_is_said(ctx):
    shown = await run(ctx, "sleep 2 & echo ok")
    assert shown == "ok\n\n[Background processes that the command started are still running.]"


async def test_output_within_the_bound_is_whole_even_over_the_line_limit(ctx):
    shown = await run(ctx, "seq 3000")
    assert shown == "\n".join(map(str, range(1, 3_001)))
    assert not ctx.artifacts.dir.exists()


async def test_of_long_output_the_end_is_shown_and_the_whole_is_kept(ctx):
    shown = await run(ctx, "seq 20000")
    body, note = shown.rsplit("\n\n", 1)
    assert body == "\n".join(map(str, range(18_001, 20_001)))
    path = re.search(r"Full output: (\S+)", note)[1]
    assert Path(path).read_text() == "".join(f"{i}\n" for i in range(1, 20_001))
    assert "the last 12000 bytes in 2000 lines, of 108894 bytes in 20000 lines" in note
    assert await run(ctx, "seq 20000") == shown


async def test_one_endless_line_shows_its_end(ctx):
    shown = await run(ctx, "head -c 200000 /dev/zero | tr '\\0' x; echo -n end")
    assert shown.startswith("x" * 51_197 + "end\n\n[Shown are the last 51200 bytes in 1 lines")


async def test_over_16_mib_the_note_says_that_the_whole_was_not_kept(ctx):
    shown = await run(ctx, "head -c 17000000 /dev/zero | tr '\\0' '\\n'; echo end")
    assert shown.startswith("end\n") or "\nend\n" in shown
    assert (
        "of 17000004 bytes in 17000001 lines. The full output was not kept: it is over 16 MiB."
        in shown
    )
    assert len(shown.encode()) <= VISIBLE_LIMIT


async def test_a_failing_command_with_long_output_stays_within_the_bound(ctx):
    with pytest.raises(ToolError) as caught:
        await run(ctx, "head -c 65530 /dev/zero | tr '\\0' x; exit 1")
    assert len(str(caught.value).encode()) <= VISIBLE_LIMIT
    assert "Command exited with code 1" in str(caught.value)


async def test_broken_bytes_are_repaired_and_kept_raw_in_the_artifact(ctx):
    assert await run(ctx, r"printf 'a\355\240\200b\377c\000d'") == "a\ufffdb\ufffdc\0d"
    shown = await run(ctx, r"for i in $(seq 20000); do printf '\355\240\200\377'; done")
    path = re.search(r"Full output: (\S+)", shown)[1]
    assert Path(path).read_bytes() == b"\xed\xa0\x80\xff" * 20_000


async def test_a_secret_of_the_host_is_not_passed_on_unless_named(ctx, monkeypatch):
    monkeypatch.setenv("MADE_UP_SECRET", "swordfish")
    monkeypatch.setenv("WANTED", "yes")
    ctx.settings = {"pass_env": ["WANTED", "NOT_SET"]}
    shown = await run(ctx, "env")
    assert "swordfish" not in shown
    assert "WANTED=yes" in shown


async def test_output_is_shown_while_the_command_runs_at_most_every_100_ms(ctx):
    call = Call(command="for i in $(seq 30); do echo $i; sleep 0.01; done")
    await bash.bash(call, ctx)
    times = [time for time, _ in call.updates]
    assert len(times) >= 2
    assert all(b - a >= 0.099 for a, b in pairwise(times))
    assert call.updates[0][1].startswith("1\n")


async def test_a_cancelled_command_ends_and_cancellation_goes_on(ctx):
    call = Call(command="echo started; sleep 600")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bash.bash, call, ctx)
        with anyio.fail_after(5):
            await call.updated.wait()
        tasks.cancel_scope.cancel()
    assert [text for _, text in call.updates] == ["started\n"]


async def test_a_command_that_no_shell_takes_is_an_error(ctx):
    with pytest.raises(ToolError, match="NUL"):
        await run(ctx, "echo a\0b")
    ctx.cwd.rmdir()
    with pytest.raises(ToolError, match="could not be started: the working folder"):
        await run(ctx, "true")


def test_the_seven_tools_are_registered_with_closed_schemas():
    tools = plugin.register_tools()
    names = " ".join(sorted(tool.name for tool in tools))
    assert names == "bash edit find grep ls read write"
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
        assert tool.parameters["additionalProperties"] is False
        assert tool.execution_mode == "parallel"
        assert tool.description
        json.dumps(tool.parameters)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("read", {"path": "a", "offset": 1, "limit": 2}),
        ("write", {"path": "a", "content": ""}),
        ("edit", {"path": "a", "edits": [{"oldText": "a", "newText": "b"}]}),
        ("edit", {"path": "a", "oldText": "a", "newText": "b"}),
        ("bash", {"command": "ls", "timeout": 1.5}),
        ("grep", {"pattern": "a", "path": ".", "glob": "*", "ignoreCase": True, "literal": False, "context": 2, "limit": 5}),
        ("find", {"pattern": "*", "path": ".", "limit": 5}),
        ("ls", {"path": ".", "limit": 5}),
        ("ls", {}),
    ],
)  # fmt: skip
def test_the_arguments_of_pi_are_valid(name, given):
    schema = next(tool for tool in plugin.register_tools() if tool.name == name).parameters
    jsonschema.validate(given, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**given, "surprise": 1}, schema)
