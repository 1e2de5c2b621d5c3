"""docs/hooks.md is what the specifications say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from unipi_hookspecs import POLICIES

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def make_hooks():
    spec = importlib.util.spec_from_file_location("make_hooks", DOCS / "make_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(make_hooks):
    written = (DOCS / "hooks.md").read_text(encoding="utf-8")
    assert written == make_hooks.page(), "run python docs/make_hooks.py"


@pytest.mark.parametrize("name", POLICIES)
def test_a_hook_is_documented_with_its_signature(name):
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert f"```text\n{name}(" in section
    assert ") -> " in section


def test_a_stale_page_is_an_error_that_names_the_way_out(make_hooks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_hooks, "PAGE", tmp_path / "hooks.md")
    assert make_hooks.main(["--check"]) == 1
    assert "run python docs/make_hooks.py" in capsys.readouterr().err
    assert make_hooks.main([]) == 0
    assert make_hooks.main(["--check"]) == 0
