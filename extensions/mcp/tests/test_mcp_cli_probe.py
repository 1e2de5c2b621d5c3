"""`unipi mcp test`, with a real server of a few lines on the other end of a pipe."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from unipi.cli.extend import Host
from unipi_mcp.cli import mcp

pytest.importorskip("mcp", reason="the SDK `mcp` is not installed here")
pytest.importorskip("unipi_mcp.server", reason="the connections of unipi-mcp are not here")

SERVER = """
import json, sys
TOOLS = [
    {"name": "now", "description": "Tells the time.\\u200b", "inputSchema": {"type": "object"}},
    {"name": "lost", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}},
    {"name": "hushed", "inputSchema": {"type": "object"}},
]
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "tiny", "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        said = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] in ANSWERS:
            said["result"] = ANSWERS[asked["method"]]
        else:
            said["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(said), flush=True)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path / "home"


def configured(home, **entries):
    (home / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def run(*args, code=0):
    result = CliRunner().invoke(mcp, ["test", *args], obj=Host())
    assert result.exit_code == code, (result.output, result.exception)
    return result


def tiny(home, **more):
    return {"command": sys.executable, "args": [str(home.parent / "server.py")], **more}


@pytest.mark.slow
def test_a_server_is_started_listed_and_stopped_and_nothing_is_kept(home):
    configured(
        home, tiny=tiny(home, disabledTools=["hush*"]), off={"command": "x", "disabled": True}
    )
    (row,) = json.loads(run("--json").stdout)["servers"]
    assert (row["name"], row["ok"], row["error"]) == ("tiny", True, None)
    assert row["tools"] == [{"name": "mcp__tiny__now", "tool": "now"}]
    assert [out["tool"] for out in row["left_out"]] == ["lost"]
    assert row["notes"] == ["now holds characters that are not seen"]
    assert not (home / "state" / "mcp").exists()


@pytest.mark.slow
def test_one_that_fails_is_told_and_the_others_are_tested(home):
    gone = {"command": str(home / "not-there"), "startSeconds": 5}
    configured(home, tiny=tiny(home), gone=gone)
    rows = json.loads(run("--json", code=1).stdout)["servers"]
    assert [(row["name"], row["ok"]) for row in rows] == [("gone", False), ("tiny", True)]
    assert rows[0]["error"]


def test_a_name_that_is_not_there_and_a_server_that_is_off_exit_with_two(home):
    configured(home, off={"command": "${MISSING_ONE}", "disabled": True})
    run("nobody", code=2)
    run("off", code=2)
    assert "No server is enabled" in run().stdout
