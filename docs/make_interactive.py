"""Prints the picture of docs/interactive.md: `python docs/make_interactive.py`.

A real prompt in a real terminal (tmux), before a model that the simulator plays. Needs tmux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from unipi.sim import Call, Say, Simulator, Think, run_simulator
from unipi.sim.script import Answer

ORDER = """def total(lines):
    return sum(line.price for line in lines)
"""
FOUND = (
    "`total` adds prices and leaves quantities out, so two cups cost as much as one.\n"
    "It has to be `line.price * line.quantity`."
)
SCRIPT = [
    Answer(
        (
            Think("Where is the total made?"),
            Say("I look for it."),
            Call("read", {"path": "order.py"}),
        )
    ),
    Answer((Say(FOUND),)),
    Answer(
        (
            Call(
                "edit",
                {
                    "path": "order.py",
                    "oldText": "line.price ",
                    "newText": "line.price * line.quantity ",
                },
            ),
        )
    ),
    Answer((Say("Done. The sum now minds how many there are."),)),
]


def tmux(server: str, *words: str) -> str:
    command = ["tmux", "-L", server, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def seen(server: str, text: str) -> str:
    """The screen, once a text stands on it."""
    for _ in range(100):
        screen = tmux(server, "capture-pane", "-p")
        if text in screen:
            return screen
        time.sleep(0.1)
    raise SystemExit(f"{text!r} did not come:\n{screen}")


def picture(folder: Path, url: str) -> str:
    """What stands on the screen after two prompts and the start of a command."""
    home, project = folder / "home", folder / "shop"
    home.mkdir()
    project.mkdir()
    (project / "order.py").write_text(ORDER, encoding="utf-8")
    provider = {"api": "anthropic-messages", "base_url": url, "api_key_env": "SIM_KEY"}
    models = {"providers": {"sim": provider}, "models": {"sim/one": {}}}
    (home / "models.json").write_text(json.dumps(models), encoding="utf-8")
    (home / "settings.json").write_text('{"default_model": "sim/one"}', encoding="utf-8")
    server = f"unipi-{os.getpid()}"
    environment = [f"-eUNIPI_HOME={home}", "-eSIM_KEY=x"]
    size = ["-x", "96", "-y", "20"]
    tmux(
        server,
        "new-session",
        "-d",
        *size,
        *environment,
        "-c",
        str(project),
        sys.executable,
        "-m",
        "unipi",
    )
    try:
        seen(server, "no epoch yet")
        tmux(server, "send-keys", "why is the sum of two cups wrong?", "Enter")
        seen(server, "line.quantity`")
        tmux(server, "send-keys", "mend it", "Enter")
        seen(server, "how many there are")
        tmux(server, "send-keys", "/comp")
        return seen(server, "/compact ")
    finally:
        tmux(server, "kill-server")


def main() -> None:
    sim = Simulator(SCRIPT, profile="anthropic")
    with tempfile.TemporaryDirectory() as name, run_simulator(sim) as url:
        sys.stdout.write(picture(Path(name), url).rstrip() + "\n")


if __name__ == "__main__":
    main()
