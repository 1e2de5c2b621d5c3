"""A home of its own for each test, servers of a few lines, and a host that they run in."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from unipi.testing import lab
from unipi_hookspecs import ToolResultMessage

SCRIPTED = str(Path(__file__).parent / "servers" / "scripted.py")


class Place:
    """A project and a user's home; `servers` writes the user's file."""

    script = SCRIPTED

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.project = folder, folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()

    def servers(self, **entries) -> None:
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": entries}))

    @asynccontextmanager
    async def open(self, script, **options):
        """A lab in the project, with the plugin."""
        pytest.importorskip("mcp", reason="the SDK `mcp` is not installed here")
        import unipi_mcp

        plugins = [("mcp", unipi_mcp), *options.pop("plugins", ())]
        async with lab(self.project, script, plugins=plugins, **options) as it:
            yield it

    @staticmethod
    def scripted(**about) -> dict[str, object]:
        """An entry that starts the server of a few lines."""
        return {"command": sys.executable, "args": ["-I", "-S", SCRIPTED, json.dumps(about)]}

    @staticmethod
    def results(it) -> list[ToolResultMessage]:
        """Every result of the session."""
        return [m for m in it.agent.session.messages() if isinstance(m, ToolResultMessage)]

    @staticmethod
    def text_of(result: ToolResultMessage) -> str:
        return "".join(block.text for block in result.content if block.type == "text")

    @staticmethod
    def tools_of(request) -> list[dict[str, object]]:
        """The tool list of a sent request, as it stood in the body."""
        return [t.get("function", t) for t in json.loads(request.body).get("tools", [])]

    @classmethod
    def names_of(cls, request) -> list[str]:
        names = [tool["name"] for tool in cls.tools_of(request)]
        return [name for name in names if name.startswith("mcp_")]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    yield Place(tmp_path)
    session = sys.modules.get("unipi_mcp.session")
    if session is not None:
        session._plans.clear()
