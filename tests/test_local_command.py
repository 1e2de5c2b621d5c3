"""`unipi local` with the real engine: a prompt of its own, and a server for others."""

from __future__ import annotations

import contextlib
import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from unipi.sim.engine import engine_available
from unipi.sim.tiny_model import Action, write_model

_MISSING = engine_available()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed"),
]


@pytest.fixture
def gguf(cli) -> Path:
    path = cli.folder / "tiny one.gguf"
    write_model(path, [Action("say it", "It is said.")])
    return path


def servers_of(gguf: Path) -> list[Path]:
    """The running processes that have the file on their command line, where that can be known."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it may end while it is looked at
            found += [path] if str(gguf).encode() in path.read_bytes() else []
    return found


def test_a_prompt_runs_on_the_model_and_the_server_ends_with_it(cli, gguf) -> None:
    done = cli.run("local", str(gguf), "-p", "Please say it.", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert "It is said." in done.stdout
    assert servers_of(gguf) == []
    (session,) = (cli.home / "sessions").glob("*/*.jsonl")
    assert '"model":"tiny-one"' in session.read_text()


def test_a_served_model_answers_a_run_as_the_printed_file_says_until_it_is_stopped(
    cli, gguf
) -> None:
    server = cli.start("local", str(gguf), "--port", "0", "--context", "65536")
    try:
        first = server.stdout.readline()
        assert servers_of(gguf)  # or the other test would find none for a reason of its own
        assert first.startswith("tiny-one is served at http://127.0.0.1:")
        assert "--model local/tiny-one" in server.stdout.readline()
        text = ""
        while not text.endswith("\n}\n"):
            text += server.stdout.readline()
        (cli.home / "models.json").write_text(text)
        done = cli.run("run", "--model", "local/tiny-one", "-p", "Please say it.")
        assert (done.returncode, done.stdout) == (0, "It is said.\n")
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=20)
        assert (server.returncode, err) == (0, "")
    finally:
        server.kill()
        server.wait()
    url = first.split()[4]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/v1/models", timeout=2)


def test_a_file_that_is_no_model_is_told_without_a_traceback(cli) -> None:
    path = cli.folder / "text.gguf"
    path.write_bytes(b"text")
    for more in ([], ["-p", "Say it."]):
        done = cli.run("local", str(path), "--port", "0", *more)
        assert done.returncode == 1
        assert "could not load" in done.stderr
        assert "Traceback" not in done.stderr
