"""The page on providers names tests that exist, every dialect, and every kind of failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from unipi.providers.dialects import DIALECTS
from unipi.providers.errors import ErrorKind

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "providers.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))
SOURCES = "\n".join(
    path.read_text("utf-8")
    for folder in ("tests", "host/tests")
    for path in (ROOT / folder).glob("test_*.py")
)


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_is_there(name):
    assert re.search(rf"^(async )?def {name}\(", SOURCES, re.MULTILINE)


def test_each_rule_has_its_source_and_its_test():
    table = PAGE.partition("## Rules, sources, tests")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert all(len(row) == 4 and all(row) for row in rows)
    assert all("`test_" in row[3] for row in rows[1:])


@pytest.mark.parametrize("name", [*DIALECTS, *(k for k in get_args(ErrorKind) if k != "cancelled")])
def test_each_dialect_and_each_kind_of_failure_has_its_line(name):
    assert re.search(rf"^\|.*`{name}`", PAGE, re.MULTILINE)


def test_key_variables_are_those_of_the_table():
    for dialect in DIALECTS.values():
        assert dialect.api_key_env is None or f"`{dialect.api_key_env}`" in PAGE
