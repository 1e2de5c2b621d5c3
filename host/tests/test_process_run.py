"""Child processes (field reports F40, F46, F53, F83)."""

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from unipi.tools import process
from unipi.tools.process import capture_process, child_env, run_process


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def sh(command, **options):
    return await run_process(["sh", "-c", command], **options)


def alive(pid):
    """Whether a process runs; a zombie that nobody reaps does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def gone(*pids):
    with anyio.fail_after(2):
        while any(alive(pid) for pid in pids):
            await anyio.sleep(0.01)


async def file_with(path, lines):
    """The numbers in a file, once it has that many lines."""
    with anyio.fail_after(5):
        while not path.exists() or path.read_text().count("\n") < lines:
            await anyio.sleep(0.01)
    return [int(line) for line in path.read_text().split()]


@pytest.fixture
def reaper():
    """Ends, by number, what a test left in the background."""
    pids = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


async def test_streams_and_exit_code_are_reported(tmp_path):
    done = await sh("pwd; echo problem >&2; exit 7", cwd=tmp_path)
    assert (done.exit_code, done.stdout, done.stderr) == (7, f"{tmp_path}\n", "problem\n")
    assert (done.timed_out, done.survivors, done.cancelled) == (False, False, False)


async def test_standard_input_is_given_or_empty():
    assert (await sh("cat", stdin=b"x" * 300_000)).stdout == "x" * 300_000
    assert (await sh("cat")).stdout == ""
    assert (await sh("exit 0", stdin=b"x" * 300_000)).exit_code == 0


async def test_broken_bytes_become_replacement_characters():
    done = await sh(r"printf '\355\240\200|\377|\000|'")
    assert done.stdout == "\ufffd|\ufffd|\0|"


async def test_a_full_stderr_before_any_stdout_does_not_block():
    done = await sh("head -c 200000 /dev/zero >&2; echo out")
    assert (done.stdout, len(done.stderr)) == ("out\n", 200_000)


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 & echo $!; echo ok",
        "sleep 600 >/dev/null & echo $!; echo ok",
        "(setsid sleep 600 & echo $!) ; echo ok",
    ],
    ids=["both pipes", "stderr alone", "daemon"],
)
async def test_a_background_child_does_not_hold_the_command(command, timeout, reaper):
    started = time.monotonic()
    done = await sh(command, timeout=timeout)
    reaper.append(int(done.stdout.split()[0]))
    assert time.monotonic() - started < 1
    assert done.stdout.endswith("ok\n")
    assert done.survivors
    assert done.exit_code == 0
    assert alive(reaper[0])


async def test_a_background_child_without_our_pipes_is_no_survivor(reaper):
    done = await sh("sleep 600 >/dev/null 2>&1 & echo $!")
    reaper.append(int(done.stdout))
    assert not done.survivors


async def test_a_background_child_that_goes_on_writing_does_not_hold_the_command(reaper):
    done = await sh("(while :; do echo more; sleep 0.01; done) & echo $!; echo ok")
    reaper.append(int(next(line for line in done.stdout.split() if line.isdigit())))
    assert done.survivors
    assert "ok\n" in done.stdout


async def test_a_child_that_ignores_sigterm_is_gone_after_the_grace():
    started = time.monotonic()
    done = await sh("trap '' TERM; echo $$; while :; do sleep 600; done", timeout=0.2, grace=0.2)
    assert time.monotonic() - started < 1
    assert done.timed_out
    assert done.exit_code is None
    await gone(int(done.stdout))


async def test_a_time_out_ends_the_whole_group_and_keeps_the_output():
    done = await sh("sleep 600 & echo $!; sleep 600 & echo $!; wait", timeout=0.2)
    assert done.timed_out
    await gone(*map(int, done.stdout.split()))


async def test_a_child_may_say_goodbye():
    done = await sh(
        "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.01; done", timeout=0.2
    )
    assert done.stdout == "hi\nbye\n"


async def test_cancellation_ends_the_whole_group(tmp_path):
    pids = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sh, f"sleep 600 & echo $! >{tmp_path}/p; echo $$ >>{tmp_path}/p; wait")
        pids = await file_with(tmp_path / "p", 2)
        tasks.cancel_scope.cancel()
    await gone(*pids)


async def test_cancellation_ends_a_child_that_ignores_sigterm(tmp_path):
    async def run():
        command = f"trap '' TERM; echo $$ >{tmp_path}/p; while :; do sleep 600; done"
        await sh(command, grace=0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        (pid,) = await file_with(tmp_path / "p", 1)
        started = time.monotonic()
        tasks.cancel_scope.cancel()
    assert time.monotonic() - started < 1
    await gone(pid)


async def test_cancellation_after_the_commands_end_ends_what_it_left(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_IDLE", 5.0)
    monkeypatch.setattr(process, "_SETTLE", 5.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sh, f"sleep 600 & echo $! >{tmp_path}/p")
        (pid,) = await file_with(tmp_path / "p", 1)
        await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    await gone(pid)


async def test_a_child_sees_the_base_list_and_what_is_given_and_no_secret(monkeypatch):
    monkeypatch.setenv("MADE_UP_SECRET", "swordfish")
    monkeypatch.setenv("LC_TIME", "C")
    for given in (None, {"ONE": "1"}):
        done = await run_process(
            [sys.executable, "-c", "import os; print(dict(os.environ))"], env=given
        )
        assert "swordfish" not in done.stdout
        assert "'LC_TIME': 'C'" in done.stdout
        assert ("'ONE': '1'" in done.stdout) == (given is not None)
        assert "'PATH'" in done.stdout


def test_a_given_variable_wins_over_the_base_list():
    assert child_env({"PATH": "/x"})["PATH"] == "/x"
    assert "PATH" not in child_env(base=())


async def test_what_arrives_is_told_as_it_arrives():
    seen = []
    first = anyio.Event()

    def tell(chunk):
        seen.append(chunk)
        first.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: sh("echo early; sleep 600", on_output=tell))
        with anyio.fail_after(5):
            await first.wait()
        tasks.cancel_scope.cancel()
    assert b"".join(seen) == b"early\n"


async def test_memory_is_bounded_and_what_was_dropped_is_counted(monkeypatch):
    monkeypatch.setattr(process, "CAPTURE_LIMIT", 1_000)
    done = await capture_process(
        ["sh", "-c", "head -c 300000 /dev/zero; echo end"], env=child_env(), merge=True
    )
    assert done.stdout.total == 300_004
    assert done.stdout.dropped == 300_004 - 1_000 - 65_536
    data = done.stdout.data()
    assert data.endswith(b"end\n")
    assert f"[... {done.stdout.dropped} bytes not kept ...]".encode() in data
    assert len(data) < 67_000


async def test_merged_streams_keep_their_order():
    command = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    done = await capture_process(["sh", "-c", command], env=child_env(), merge=True)
    assert done.stdout.data() == b"o1\ne1\no2\ne2\no3\ne3\n"


async def test_what_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await run_process(["no-such-program"])
    with pytest.raises(NotADirectoryError, match="nowhere"):
        await sh("true", cwd=tmp_path / "nowhere")
    with pytest.raises(TypeError, match="sequence"):
        await run_process("ls -l")


async def test_no_file_descriptor_is_left_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        await sh("echo x")
        with pytest.raises(FileNotFoundError):
            await run_process(["no-such-program"])
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
