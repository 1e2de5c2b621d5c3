"""The grep, find and ls tools (field reports F46, F54)."""

import os
import random
import subprocess
import time

import anyio
import pytest

from unipi.tools import ls, search
from unipi.tools.bound import Artifacts, bound_output
from unipi.tools.text import ToolError
from unipi.tools.walk import compile_glob


class Ctx:
    """As much of a context as the tools use."""

    def __init__(self, cwd):
        self.cwd = cwd
        self.settings = {}
        self.artifacts = Artifacts(cwd.parent / "artifacts", b"key")

    def bound_output(self, raw, *, label="output"):
        return bound_output(raw, label=label, artifacts=self.artifacts)


class Call:
    def __init__(self, **given):
        self.id, self.name, self.input = "1", "tool", given

    async def update(self, partial):
        raise AssertionError("nothing to show")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
def ctx(tmp_path):
    (tmp_path / "work").mkdir()
    return Ctx(tmp_path / "work")


@pytest.fixture
def repository(ctx):
    git(ctx.cwd, "init", "-q")
    fill(
        ctx.cwd,
        {
            ".gitignore": "build/\n*.log\n",
            ".hidden": "needle\n",
            "src/a.py": "x = 1\n# Needle here\ny = 2\n",
            "src/deep/b.py": "needle = 1\n",
            "build/out.py": "needle\n",
            "note.log": "needle\n",
        },
    )
    return ctx


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def fill(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


async def grep(ctx, pattern, **more):
    return await search.grep(Call(pattern=pattern, **more), ctx)


async def find(ctx, pattern, **more):
    return await search.find(Call(pattern=pattern, **more), ctx)


# grep


async def test_matches_are_listed_by_path_and_line(repository):
    assert await grep(repository, "needle") == ".hidden:1: needle\nsrc/deep/b.py:1: needle = 1"


async def test_capitals_can_be_taken_as_small_letters(repository):
    found = await grep(repository, "needle", ignoreCase=True, path="src")
    assert found == "src/a.py:2: # Needle here\nsrc/deep/b.py:1: needle = 1"


async def test_what_git_ignores_is_searched_only_when_named(repository):
    assert await grep(repository, "needle", path="build") == "build/out.py:1: needle"
    assert await grep(repository, "needle", path="note.log") == "note.log:1: needle"


async def test_outside_a_repository_all_files_but_those_of_git_are_searched(ctx):
    fill(ctx.cwd, {"a/.git/config": "needle", "a/.gitignore": "b", "a/b": "needle"})
    assert await grep(ctx, "needle") == "a/b:1: needle"


async def test_a_repository_inside_a_repository_is_searched_by_its_own_rules(repository):
    inner = repository.cwd / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    fill(inner, {".gitignore": "no.txt\n", "yes.txt": "needle\n", "no.txt": "needle\n"})
    assert "inner/yes.txt:1: needle" in await grep(repository, "needle")
    assert "no.txt" not in await grep(repository, "needle")


async def test_a_tracked_file_that_was_deleted_is_no_error(repository):
    git(repository.cwd, "add", ".")
    (repository.cwd / "src/a.py").unlink()
    assert "src/a.py" not in await grep(repository, "e", ignoreCase=True)


async def test_a_program_named_by_the_repository_is_not_run(repository):
    proof = repository.cwd.parent / "proof"
    git(repository.cwd, "config", "core.fsmonitor", f"touch {proof}")
    await grep(repository, "needle")
    assert not proof.exists()


async def test_a_glob_narrows_the_files(repository):
    for glob in ("*.py", "src/**/*.py", "**/b.py", "!.*"):
        assert await grep(repository, "needle", glob=glob) == "src/deep/b.py:1: needle = 1"


async def test_context_lines_are_marked_and_groups_are_apart(ctx):
    fill(ctx.cwd, {"a": "".join(f"{c}\n" for c in "abXcXdefghXi")})
    assert await grep(ctx, "X", context=1) == (
        "a-2- b\na:3: X\na-4- c\na:5: X\na-6- d\n--\na-10- h\na:11: X\na-12- i"
    )


async def test_a_literal_pattern_is_no_expression(ctx):
    fill(ctx.cwd, {"a": "a.c\nabc\n"})
    assert await grep(ctx, "a.c") == "a:1: a.c\na:2: abc"
    assert await grep(ctx, "a.c", literal=True) == "a:1: a.c"
    assert await grep(ctx, "A.C", literal=True, ignoreCase=True) == "a:1: a.c"


async def test_the_limit_is_said_only_when_there_is_more(ctx):
    fill(ctx.cwd, {"a": "x\n" * 3, "b": "x\n" * 3})
    assert await grep(ctx, "x", limit=6) == "\n".join(
        f"{f}:{n}: x" for f in "ab" for n in (1, 2, 3)
    )
    assert (await grep(ctx, "x", limit=4)).endswith(
        "b:1: x\n\n[Shown are the first 4 matches; raise limit or narrow the search for more.]"
    )
    fill(ctx.cwd, {"c": "x\n" * 200})
    assert (await grep(ctx, "x")).count(": x") == 100


async def test_a_long_line_is_cut_and_long_output_ends_at_a_line(ctx):
    fill(ctx.cwd, {"a": ("x" * 600 + "\n") * 300})
    found = await grep(ctx, "x", limit=300)
    assert found.startswith(f"a:1: {'x' * 500} [... line cut]\na:2: ")
    assert len(found.encode()) < 51_400
    assert found.endswith(
        "x [... line cut]\n\n[Shown are the first 51200 bytes; narrow the search for more.]"
    )


async def test_binary_files_and_links_are_passed_over(ctx):
    (ctx.cwd / "bin").write_bytes(b"needle\0needle")
    fill(ctx.cwd.parent, {"outside.txt": "needle"})
    (ctx.cwd / "link").symlink_to("../outside.txt")
    (ctx.cwd / "up").symlink_to("..")
    os.mkfifo(ctx.cwd / "pipe")
    assert await grep(ctx, "needle") == "No matches."


async def test_broken_bytes_in_names_and_lines_are_shown_as_replacement_characters(ctx):
    (ctx.cwd / os.fsdecode(b"b\xffd.txt")).write_bytes(b"needle \xed\xa0\x80 \xfe\n")
    assert await grep(ctx, "needle") == "b\ufffdd.txt:1: needle \ufffd \ufffd"
    assert await find(ctx, "*.txt") == "b\ufffdd.txt"
    assert await ls.ls(Call(), ctx) == "b\ufffdd.txt"


async def test_a_place_outside_is_shown_by_its_absolute_path(ctx):
    fill(ctx.cwd.parent, {"else/a": "x\n"})
    assert await grep(ctx, "x", path="../else") == f"{ctx.cwd.parent}/else/a:1: x"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pattern": "a("}, "pattern is not well-formed: missing"),
        ({"pattern": "a", "glob": "{a"}, "not well-formed"),
        ({"pattern": "a", "path": "gone"}, "gone: no such file or folder"),
        ({"pattern": "a", "limit": 0}, "limit must be at least 1"),
    ],
)
async def test_a_wrong_argument_is_an_error_with_its_reason(ctx, given, message):
    fill(ctx.cwd, {"a": "x"})
    with pytest.raises(ToolError, match=message):
        await search.grep(Call(**given), ctx)


async def test_a_pattern_that_never_ends_is_ended_and_the_host_goes_on(ctx, monkeypatch):
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.3)
    fill(ctx.cwd, {"a": "a" * 40 + "b\n"})
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.sleep(0.02)
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        started = time.monotonic()
        with pytest.raises(ToolError, match=r"took over 0.3 seconds"):
            await grep(ctx, "(a+)+$")
        tasks.cancel_scope.cancel()
    assert time.monotonic() - started < 1
    assert ticks >= 5


async def test_a_cancelled_search_ends_at_once(ctx):
    fill(ctx.cwd, {"a": "a" * 40 + "b\n"})
    started = time.monotonic()
    with anyio.move_on_after(0.2):
        await grep(ctx, "(a+)+$")
    assert time.monotonic() - started < 1


# find


async def test_names_match_at_any_depth_and_folders_end_in_a_slash(repository):
    assert await find(repository, "*.py") == "src/a.py\nsrc/deep/b.py"
    assert await find(repository, "d*") == "src/deep/"
    assert await find(repository, "src/*") == "src/a.py\nsrc/deep/"
    assert await find(repository, "*", path="src/deep") == "src/deep/b.py"
    assert await find(repository, "*.log") == "Nothing found."


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_results_are_limited(ctx):
    fill(ctx.cwd, {f"{i:04}": "" for i in range(1_001)})
    assert (await find(ctx, "*")).count("\n0") == 999
    assert (await find(ctx, "*", limit=2)).startswith(
        "0000\n0001\n\n[Shown are the first 2 results"
    )


async def test_find_needs_a_folder(ctx):
    fill(ctx.cwd, {"a": ""})
    with pytest.raises(ToolError, match="a is no folder"):
        await find(ctx, "*", path="a")


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc"]),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("/x/*", ["x/a"], ["x/a/b", "y/x/a"]),
        ("x/**", ["x/a", "x/a/b"], ["y/x/a"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[]]", ["]"], ["x"]),
        ("*.{js,t[sx]}", ["a.js", "a.tx"], ["a.jsx"]),
        ("a,b", ["a,b"], ["a"]),
        (r"\*", ["*"], ["x"]),
        ("a.b+c", ["a.b+c"], ["axbbc"]),
    ],
)
def test_globs(glob, yes, no):
    match = compile_glob(glob).fullmatch
    assert [path for path in [*yes, *no] if match(path)] == yes


# ls


async def test_a_folder_is_listed_in_code_unit_order(ctx):
    names = ["b", "B", "a", ".dot", "é", "Z", "\uff61", "\U0001f600"]
    fill(ctx.cwd, dict.fromkeys(names, "") | {"dir/x": ""})
    (ctx.cwd / "link").symlink_to("dir")
    assert (await ls.ls(Call(), ctx)).split("\n") == [
        ".dot", "B", "Z", "a", "b", "dir/", "link/", "é", "\U0001f600", "\uff61",
    ]  # fmt: skip


async def test_a_listing_is_limited_and_says_so(ctx):
    fill(ctx.cwd, {f"{i:04}": "" for i in range(501)})
    shown = await ls.ls(Call(path="."), ctx)
    assert shown.endswith("0499\n\n[Shown are 500 of 501 entries; raise limit for more.]")
    assert await ls.ls(Call(limit=501), ctx) == "\n".join(f"{i:04}" for i in range(501))


async def test_a_listing_of_long_names_is_bounded(ctx):
    fill(ctx.cwd, {f"{i:0200}": "" for i in range(400)})
    shown = await ls.ls(Call(), ctx)
    assert shown.endswith("[Shown are 254 of 400 entries; the limit is 51200 bytes.]")


async def test_an_empty_folder_and_no_folder(ctx):
    assert await ls.ls(Call(), ctx) == "[The folder is empty.]"
    with pytest.raises(ToolError, match="gone: No such file"):
        await ls.ls(Call(path="gone"), ctx)


# order


@pytest.mark.slow
@pytest.mark.parametrize("versioned", [False, True], ids=["plain folder", "git repository"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_ten_searches_of_300_files_say_the_same_in_every_locale(
    tmp_path, versioned, monkeypatch
):
    kinds = ["n{}", "N{}", "é{}", "\uff61{}", "\U0001f600{}", "d{}/x", "d{}.y"]
    names = [kinds[i % 7].format(i // 14) + ("" if i % 2 else "'") for i in range(300)]
    said = []
    for turn, locale in enumerate(("C", "de_DE.UTF-8", "tr_TR", "C.UTF-8")):
        monkeypatch.setenv("LC_ALL", locale)
        ctx = Ctx(tmp_path / str(turn) / "work")
        random.Random(turn).shuffle(names)
        fill(ctx.cwd, dict.fromkeys(names, "one hit\n" * 2))
        for name in names[:50]:
            os.utime(ctx.cwd / name, (1, 1))
        if versioned:
            git(ctx.cwd, "init", "-q")
        results = {}

        async def once(ctx=ctx, results=results):
            for key, run in (
                ("grep", lambda: grep(ctx, "hit", limit=1_000)),
                ("find", lambda: find(ctx, "*")),
                ("ls", lambda: ls.ls(Call(), ctx)),
            ):
                results.setdefault(key, []).append(await run())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(once)
        said += [tuple(values) for values in zip(*results.values(), strict=True)]
    assert len(said) == 12
    assert len(set(said)) == 1
    rows = said[0][0].split("\n")
    assert len(rows) == 600
    paths = [row.split(":")[0] for row in rows]
    assert paths == sorted(paths, key=lambda path: path.encode("utf-16-be"))
