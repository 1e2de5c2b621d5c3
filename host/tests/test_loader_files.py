"""Plugins that are files: `-e`, the project's folder, the user's folder, and reload."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from unipi.loader import LoadedPlugin, LoadOptions, LoadResult, load_plugins

GOOD = "from unipi_hookspecs import hookimpl\n@hookimpl\ndef turn_end(event, ctx): ...\n"


def load(**options: object) -> LoadResult:
    return load_plugins(LoadOptions(entry_points=False, **options))  # type: ignore[arg-type]  # test shorthand


def write(path: Path, source: str = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


def one(result: LoadResult, name: str) -> LoadedPlugin:
    [found] = [item for item in result.plugins if item.name == name]
    return found


def names(result: LoadResult) -> list[str]:
    return [item.name for item in result.active]


def test_a_file_and_a_package_folder_load_and_leave_the_path_alone(tmp_path: Path) -> None:
    write(tmp_path / "single.py")
    write(tmp_path / "pack" / "__init__.py", "from .hooks import turn_end\n")
    write(tmp_path / "pack" / "hooks.py")
    path = list(sys.path)
    result = load(paths=(tmp_path / "single.py", tmp_path / "pack"))
    assert names(result) == ["pack", "single"]
    assert sys.path == path
    assert "single" not in sys.modules
    assert not list(tmp_path.rglob("__pycache__"))


def test_two_files_of_one_stem_are_two_modules_and_the_first_given_keeps_the_name(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a" / "same.py")
    write(tmp_path / "b" / "same.py")
    result = load(paths=(tmp_path / "a" / "same.py", tmp_path / "b" / "same.py"))
    assert [(Path(i.source).parent.name, i.state) for i in result.plugins] == [
        ("a", "active"),
        ("b", "blocked"),
    ]


def test_one_path_given_twice_or_through_a_link_loads_once(tmp_path: Path) -> None:
    file = write(tmp_path / "once.py")
    (tmp_path / "link.py").symlink_to(file)
    result = load(paths=(file, tmp_path / "x" / ".." / "once.py", tmp_path / "link.py"))
    assert names(result) == ["once"]
    assert not result.problems


BAD_PATHS = {
    "none.py": "there is no such file",
    "text.txt": "it is not a .py file",
    "empty": "no __init__.py",
    "project": "python -m pip install -e",
}


@pytest.mark.parametrize("given", BAD_PATHS)
def test_a_path_that_is_no_plugin_says_what_to_give_instead(tmp_path: Path, given: str) -> None:
    write(tmp_path / "text.txt")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "project" / "pyproject.toml", "")
    write(tmp_path / "fine.py")
    result = load(paths=(tmp_path / given, tmp_path / "fine.py"))
    [problem] = result.problems
    assert BAD_PATHS[given] in problem.message
    assert str(tmp_path / given) in problem.message
    assert names(result) == ["fine"]


def test_imports_of_neighbours_and_of_itself_say_how_to_write_them(tmp_path: Path) -> None:
    write(tmp_path / "near.py", f"import beside_me\n{GOOD}")
    write(tmp_path / "beside_me.py")
    write(tmp_path / "selfish" / "__init__.py", f"from selfish.sub import x\n{GOOD}")
    result = load(paths=(tmp_path / "near.py", tmp_path / "selfish"))
    assert "a file beside it; make both a package folder" in str(one(result, "near").reason)
    assert "use relative imports" in str(one(result, "selfish").reason)


def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(root / ".unipi" / "plugins" / "local.py")
    write(root / ".unipi" / "plugins" / "pack" / "__init__.py")
    write(root / ".unipi" / "plugins" / "_helper.py", "raise RuntimeError")
    return root


def test_a_trusted_project_brings_its_plugins(tmp_path: Path) -> None:
    result = load(project_dir=project(tmp_path), project_trusted=True)
    assert names(result) == ["local", "pack"]


def test_of_an_untrusted_project_nothing_is_imported_and_it_is_said_what_was_there(
    tmp_path: Path,
) -> None:
    root = project(tmp_path)
    write(root / ".unipi" / "plugins" / "evil.py", "raise SystemExit(1)")
    result = load(project_dir=root, strict=True)
    assert [(i.name, i.state) for i in result.plugins] == [
        ("evil", "skipped"),
        ("local", "skipped"),
        ("pack", "skipped"),
    ]
    [problem] = result.problems
    assert "evil, local, pack" in problem.message


def test_a_project_file_that_leads_out_of_the_project_is_skipped(tmp_path: Path) -> None:
    root = project(tmp_path)
    outside = write(tmp_path / "outside.py", "raise SystemExit(1)")
    (root / ".unipi" / "plugins" / "sneaky.py").symlink_to(outside)
    result = load(project_dir=root, project_trusted=True)
    assert one(result, "sneaky").state == "skipped"
    assert str(outside) in str(one(result, "sneaky").reason)
    assert names(result) == ["local", "pack"]


def test_a_plugin_folder_that_is_itself_a_link_out_is_skipped_whole(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "x.py")
    root = tmp_path / "root"
    (root / ".unipi").mkdir(parents=True)
    (root / ".unipi" / "plugins").symlink_to(tmp_path / "elsewhere")
    assert one(load(project_dir=root, project_trusted=True), "x").state == "skipped"


def test_by_hand_beats_project_and_project_beats_user(tmp_path: Path) -> None:
    write(tmp_path / "project" / ".unipi" / "plugins" / "p.py")
    write(tmp_path / "user" / "plugins" / "p.py")
    write(tmp_path / "hand" / "p.py")
    folders = {"project_dir": tmp_path / "project", "user_dir": tmp_path / "user"}
    result = load(paths=(tmp_path / "hand" / "p.py",), project_trusted=True, **folders)
    assert "hand" in result.active[0].source
    assert all("-e before installed" in p.message for p in result.problems)
    assert "project" in load(project_trusted=True, **folders).active[0].source


NAMES = ["00_", "0a", "a", "b", "B", "Z", "é", "z", "｡", "😀"]


@pytest.mark.parametrize("seed", range(3))
def test_order_is_that_of_utf16_code_units_however_the_files_were_created(
    tmp_path: Path, seed: int
) -> None:
    shuffled = random.Random(seed).sample(NAMES, len(NAMES))
    for name in shuffled:
        write(tmp_path / "plugins" / f"{name}.py")
    assert names(load(user_dir=tmp_path)) == [
        "00_", "0a", "B", "Z", "a", "b", "z", "é", "😀", "｡",
    ]  # fmt: skip


def test_a_name_is_the_same_whether_the_file_system_composes_it_or_not(tmp_path: Path) -> None:
    write(tmp_path / "plugins" / "e\u0301.py")
    assert names(load(user_dir=tmp_path)) == ["\u00e9"]


def test_a_file_whose_name_no_manifest_would_take_is_refused_in_words(tmp_path: Path) -> None:
    result = load(paths=(write(tmp_path / "two words.py"),))
    [problem] = result.problems
    assert problem.kind == "manifest"
    assert "no spaces" in problem.message


def calls(result: LoadResult, name: str = "counter") -> object:
    counts: list[object] = []
    result.manager.hook.turn_end(event=counts, ctx=None)
    return counts


def counter(version: int) -> str:
    return f"from unipi_hookspecs import hookimpl\n@hookimpl\ndef turn_end(event): event.append({version})\n"


def test_each_reload_runs_the_new_file_once(tmp_path: Path) -> None:
    file = tmp_path / "counter.py"
    for version in range(1, 5):
        write(file, counter(version))
        assert calls(load(paths=(file,))) == [version]
    assert len([name for name in sys.modules if "counter" in name and "unipi_plugin" in name]) == 1


def test_a_reload_reads_every_module_of_a_package_anew(tmp_path: Path) -> None:
    write(tmp_path / "pkg" / "__init__.py", "from .inner import turn_end\n")
    for version in (1, 2):
        write(tmp_path / "pkg" / "inner.py", counter(version))
        assert calls(load(paths=(tmp_path / "pkg",))) == [version]


def test_a_reload_that_fails_leaves_the_earlier_result_and_its_modules_in_use(
    tmp_path: Path,
) -> None:
    late = "from unipi_hookspecs import hookimpl\n@hookimpl\ndef turn_end(event):\n    from .inner import n\n    event.append(n)\n"
    write(tmp_path / "pkg" / "__init__.py", late)
    write(tmp_path / "pkg" / "inner.py", "n = 1\n")
    before = load(paths=(tmp_path / "pkg",))
    write(tmp_path / "pkg" / "__init__.py", "def broken(:\n")
    after = load(paths=(tmp_path / "pkg",))
    assert one(after, "pkg").state == "failed"
    assert f"{tmp_path / 'pkg' / '__init__.py'}:1" in str(one(after, "pkg").reason)
    assert not after.active
    assert calls(before) == [1]
