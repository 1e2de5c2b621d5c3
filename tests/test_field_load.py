"""Field report F56 with a session: what is broken is named, and the work goes on."""

from __future__ import annotations

import json

import pytest

from unipi.sim import Say, Simulator, run_simulator

BROKEN = {
    "dep": "import missing_library_xyz\n",
    "syntax": "def broken(:\n",
    "exits": "raise SystemExit(3)\n",
    "hookless": "",
}
GOOD = """
@hookimpl
def input(event):
    return Transform(f"{event.text} (seen by good)")
"""


@pytest.mark.slow
def test_a_session_runs_beside_broken_plugins_and_names_each_once(cli) -> None:
    folder = cli.home / "plugins"
    folder.mkdir()
    for name, source in BROKEN.items():
        (folder / f"{name}.py").write_text(source)
    good = cli.plugin("good", GOOD)
    sim = Simulator([[Say("done")]], profile="anthropic")
    run = ("run", "--model", "sim/one", "--no-session", "--json", "-p", "go", "-e", good)
    with run_simulator(sim) as url:
        cli.serve_model(url)
        done = cli.run(*run)
        strict = cli.run(*run, "--strict-plugins")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    told = [e["text"] for e in events if e["type"] == "notice"]
    for name in BROKEN:
        (line,) = [text for text in told if f"{name!r}" in text or f"{name}.py" in text]
        assert line in strict.stderr.replace("\nunipi: ", "\n")
    assert "missing_library_xyz" in " ".join(told)
    assert b"go (seen by good)" in sim.requests[0].body
    assert "Traceback" not in done.stderr + strict.stderr
    assert strict.returncode == 1
    assert len(sim.requests) == 1
