"""What holds for the whole repository, whatever is built in it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import unipi_hookspecs

ROOT = Path(__file__).resolve().parents[1]
MEMBERS = [ROOT / "hookspecs", ROOT / "host", *sorted((ROOT / "extensions").glob("*/"))]
MEMBERS = [member for member in MEMBERS if (member / "pyproject.toml").is_file()]
SKIPPED = {".git", ".venv", ".venvs", "__pycache__", "build", "dist"}

# Written so that no rule finds itself, and so that no registry is named here either.
REGISTRY = re.compile(r"\b(?:py[p]i|python[h]osted|npm[j]s|crat[e]s|debi[a]n)\.(?:org|com|io)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root)/")

HEAVY = {"anyio", "asyncio", "httpx2", "jsonschema", "rich", "sqlite3", "ssl", "structlog", "trio"}


def texts():
    """Path and text of every file of the repository that is text; scratch files are not of it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:  # a source archive: no repository around it
        paths = list(ROOT.rglob("*"))
    for path in paths:
        if path.is_file() and not SKIPPED & set(path.relative_to(ROOT).parts):
            data = path.read_bytes()
            if b"\0" not in data[:1024]:
                yield path.relative_to(ROOT), data.decode("utf-8", "replace")


def project(member):
    return tomllib.loads((member / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60
    )


@pytest.mark.parametrize(
    ("rule", "what"),
    [(REGISTRY, "the host of a package registry"), (MACHINE_PATH, "a path of one machine")],
    ids=["registry", "path"],
)
def test_no_file_names(rule, what):
    found = [f"{path}: {m[0]}" for path, text in texts() if (m := rule.search(text))]
    assert not found, f"{what} is named in {found[:5]}"


def test_no_file_has_conflict_marks_or_ends_without_a_line_break():
    for path, text in texts():
        assert not re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE), path
        assert not text or text.endswith("\n") or path.suffix == ".jsonl", path


def test_the_workspace_has_one_version():
    stated = {str(m.relative_to(ROOT)): project(m)["version"] for m in MEMBERS}
    for member in MEMBERS:
        for init in (member / "src").glob("*/__init__.py"):
            found = re.search(r'^__version__ = "(.+)"$', init.read_text("utf-8"), re.MULTILINE)
            assert found, f"{init.relative_to(ROOT)} has no __version__"
            stated[str(init.relative_to(ROOT))] = found[1]
    assert set(stated.values()) == {unipi_hookspecs.__version__}, stated


def test_a_member_accepts_the_versions_of_the_members_it_depends_on():
    ours = {project(m)["name"]: project(m)["version"] for m in MEMBERS}
    for member in MEMBERS:
        for line in project(member)["dependencies"]:
            requirement = Requirement(line)
            if requirement.name in ours:
                assert requirement.specifier.contains(ours[requirement.name]), line


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_member_is_typed_licensed_and_described(member):
    assert (member / "README.md").read_text(encoding="utf-8").strip()
    assert project(member)["license"] == "MIT"
    assert project(member)["requires-python"] == ">=3.11"
    (package,) = (member / "src").iterdir()
    assert (package / "py.typed").is_file()


def pins(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^([A-Za-z0-9._-]+)==(\S+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["requirements-dev.txt", "requirements-local.txt"])
def test_every_requirement_is_pinned_with_hashes_and_without_addresses(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    assert len(pins(name)) == len(re.findall(r"^\S", text, re.MULTILINE)) > 10
    assert all("--hash=sha256:" in rest for _, _, rest in pins(name))


@pytest.mark.parametrize(
    ("name", "local"), [("requirements-dev.txt", False), ("requirements-local.txt", True)]
)
def test_the_pins_satisfy_what_the_members_ask_for(name, local):
    root = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if local:
        wanted = project(ROOT / "host")["optional-dependencies"]["local"]
    else:
        wanted = [*root["dependency-groups"]["dev"]]
        wanted += [line for member in MEMBERS for line in project(member)["dependencies"]]
    pinned = {}
    for package, version, _ in pins(name):
        pinned.setdefault(package, []).append(version)
    for line in wanted:
        requirement = Requirement(line)
        if requirement.name.startswith("unipi"):
            continue
        versions = pinned.get(requirement.name.lower().replace("_", "-"))
        assert versions, f"{line} is not pinned in {name}: run make lock"
        assert all(requirement.specifier.contains(v) for v in versions), f"{line}: run make lock"


def imported_for_types():
    """The names that hookspecs' `__init__` imports under TYPE_CHECKING, by module."""
    tree = ast.parse(Path(unipi_hookspecs.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and "TYPE" in ast.dump(n.test))
    return {
        node.module: tuple(sorted(alias.name for alias in node.names))
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }


def test_what_hookspecs_offers_is_what_type_checkers_see():
    lazily = {module: tuple(sorted(names)) for module, names in unipi_hookspecs._WHERE.items()}
    assert lazily == imported_for_types()
    named = {name for names in lazily.values() for name in names}
    assert set(unipi_hookspecs.__all__) == named | {"hookimpl"}


def test_every_name_that_hookspecs_offers_is_there():
    for name in unipi_hookspecs.__all__:
        assert getattr(unipi_hookspecs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unipi_hookspecs.nothing  # noqa: B018 - the look-up is the test


@pytest.mark.parametrize(
    ("before", "timed"),
    [
        ("", "import unipi_hookspecs"),
        # A plugin's own line, set apart from what attrs and pluggy take in any program.
        ("import attrs, pluggy", "from unipi_hookspecs import Block, Manifest, Tool, hookimpl"),
    ],
)
def test_hookspecs_is_imported_in_under_40_ms(before, timed):
    """The best of several processes, so that a busy machine does not decide."""
    code = f"{before}\nfrom time import perf_counter as n\ns = n()\n{timed}\nprint(n() - s)"
    assert min(float(python("-c", code).stdout) for _ in range(5)) < 0.040


def test_hookspecs_imports_nothing_heavy():
    code = (
        "import sys, unipi_hookspecs as u; [getattr(u, n) for n in u.__all__]; print(*sys.modules)"
    )
    assert not HEAVY & set(python("-c", code).stdout.split())


def test_the_version_is_answered_before_anything_heavy_is_imported():
    done = python("-X", "importtime", "-m", "unipi", "--version")
    assert done.stdout == f"unipi {unipi_hookspecs.__version__}\n"
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "unipi" in imported
    assert not (HEAVY | {"attrs", "click", "mcp", "pluggy"}) & imported
