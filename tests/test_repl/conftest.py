"""Somebody at a terminal, for the tests of the prompt."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unipi.session import Session, find_latest
from unipi.sim import Simulator, run_simulator
from unipi_hookspecs import Message, UserMessage

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")
_KEYS = {
    "alt-enter": "\x1b\r",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-o": "\x0f",
    "enter": "\r",
    "tab": "\t",
    "up": "\x1b[A",
}
_SECRET = "sk-test-0123456789abcdef0123456789abcdef"


class Typist:
    """Somebody at a terminal of 100 columns."""

    def __init__(self, folder: Path, home: Path, *args: str) -> None:
        self.secret = _SECRET
        self._fd, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = {
            "PATH": os.environ["PATH"],
            "UNIPI_HOME": str(home),
            "SIM_KEY": self.secret,
            "TERM": "xterm",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unipi", *args],
            cwd=folder,
            env=env,
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(side)
        self.raw = ""
        self._seen = 0

    def types(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def presses(self, key: str) -> None:
        self.types(_KEYS[key])

    def enters(self, text: str) -> None:
        """Type a line and send it."""
        self.types(text + _KEYS["enter"])

    @property
    def screen(self) -> str:
        """Everything that was written, in order, without what moves the cursor."""
        return _ESCAPES.sub("", self.raw)

    def sees(self, text: str) -> None:
        """Wait until something is on the screen behind what was seen last."""
        deadline = time.monotonic() + 10
        while (at := self.screen.find(text, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come:\n{self.screen[self._seen :]}")
        self._seen = at + len(text)

    def leaves(self) -> int:
        """Wait until the process has ended; returns its exit code."""
        deadline = time.monotonic() + 10
        while self._read(deadline):
            pass
        return self.process.wait(timeout=10)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
        try:
            data = os.read(self._fd, 65_536) if ready else b""
        except OSError:  # Linux says it like this that the other side is closed
            return False
        self.raw += data.decode("utf-8", "replace")
        for _ in range(data.count(b"\x1b[6n")):  # where is the cursor?
            os.write(self._fd, b"\x1b[1;1R")
        return bool(data)

    def hangs_up(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._fd >= 0:
            os.close(self._fd)


@pytest.fixture
def sit(cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Sit down at `unipi`, before a model that answers by a script."""
    monkeypatch.setenv("UNIPI_HOME", str(cli.home))
    typists: list[Typist] = []
    servers = []

    def down(*script: object, args: tuple[str, ...] = (), **settings: object):
        sim = Simulator(list(script), profile="anthropic")
        servers.append(run_simulator(sim))
        cli.serve_model(servers[-1].__enter__())
        cli.settings(default_model="sim/one", **settings)
        typist = Typist(cli.folder, cli.home, *args)
        typists.append(typist)
        typist.sees("session ")
        typist.sees("> " if "--plain" in args else "epoch")
        return typist, sim

    yield down
    for typist in typists:
        typist.close()
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def messages(cli, monkeypatch: pytest.MonkeyPatch):
    """What was said in the session that was written last, which must be valid."""
    monkeypatch.setenv("UNIPI_HOME", str(cli.home))

    def read() -> list[Message]:
        path = find_latest(cli.folder)
        assert path is not None
        with Session.open(path, read_only=True) as session:
            assert not session.open_calls()
            return session.messages()

    return read


@pytest.fixture
def prompts(messages):
    """What the user said in it."""
    return lambda: [m.content for m in messages() if isinstance(m, UserMessage)]
