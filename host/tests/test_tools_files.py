"""The read, write and edit tools."""

import base64
import os
import stat
import struct
import zlib

import anyio
import pytest
from hypothesis import given, strategies as st

from unipi.tools import edit, paths, read, write
from unipi.tools.bound import Artifacts, bound_output
from unipi.tools.diff import unified
from unipi.tools.match import Edit, find_spans
from unipi.tools.text import ToolError
from unipi_hookspecs import Image, Model, Text


class Ctx:
    """As much of a context as the tools use."""

    def __init__(self, cwd):
        self.cwd = cwd
        self.settings = {}
        self.model = None
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


def lines(first, last):
    return "".join(f"line {i}\n" for i in range(first, last + 1))


def png(width, height):
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + chunk


# read


async def test_a_short_file_is_shown_as_it_is(ctx):
    (ctx.cwd / "a.txt").write_bytes("one\r\ntwö\n".encode())
    assert await read.read(Call(path="a.txt"), ctx) == "one\r\ntwö\n"


@pytest.mark.parametrize("form", ["@a b.txt", "./x/../a b.txt", "a\u00a0b.txt", "{cwd}/a b.txt"])
async def test_a_path_is_understood_in_its_usual_forms(ctx, form):
    (ctx.cwd / "a b.txt").write_text("here")
    assert await read.read(Call(path=form.format(cwd=ctx.cwd)), ctx) == "here"


async def test_a_tilde_is_the_home_folder(ctx, monkeypatch):
    monkeypatch.setenv("HOME", str(ctx.cwd))
    (ctx.cwd / "a.txt").write_text("here")
    assert await read.read(Call(path="~/a.txt"), ctx) == "here"


async def test_a_folder_whose_name_begins_with_an_at_sign_is_found(ctx):
    (ctx.cwd / "@types").mkdir()
    (ctx.cwd / "@types" / "a.ts").write_text("here")
    assert await read.read(Call(path="@types/a.ts"), ctx) == "here"
    assert (
        await write.write(Call(path="@types/b.ts", content="x"), ctx)
        == "Wrote 1 bytes to @types/b.ts"
    )


async def test_a_long_file_is_cut_after_2000_lines_with_the_next_offset(ctx):
    (ctx.cwd / "a.txt").write_text(lines(1, 5_000))
    shown = await read.read(Call(path="a.txt"), ctx)
    assert shown == f"{lines(1, 2_000)}\n[Lines 1 to 2000 of 5000. Go on with offset=2001.]"
    shown = await read.read(Call(path="a.txt", offset=4_001), ctx)
    assert shown == lines(4_001, 5_000)


async def test_wide_lines_are_cut_whole_at_51200_bytes(ctx):
    (ctx.cwd / "a.txt").write_text(("é" * 499 + "\n") * 100)
    shown = await read.read(Call(path="a.txt"), ctx)
    text, notice = shown.rsplit("\n\n", 1)
    assert text.count("\n") + 1 == 51_200 // 999
    assert notice == "[Lines 1 to 51 of 100. Go on with offset=52.]"


async def test_offset_and_limit_choose_lines(ctx):
    (ctx.cwd / "a.txt").write_text(lines(1, 10))
    shown = await read.read(Call(path="a.txt", offset=3, limit=2), ctx)
    assert shown == f"{lines(3, 4)}\n[6 more lines. Go on with offset=5.]"
    assert await read.read(Call(path="a.txt", offset=9.0, limit=2), ctx) == lines(9, 10)


async def test_an_offset_past_the_end_is_an_error(ctx):
    (ctx.cwd / "a.txt").write_text(lines(1, 10))
    with pytest.raises(ToolError, match=r"offset 11 is past the end: a.txt has 10 lines"):
        await read.read(Call(path="a.txt", offset=11), ctx)


async def test_a_first_line_that_is_too_long_is_a_notice_with_a_way_out(ctx):
    (ctx.cwd / "a.txt").write_text("short\n" + "x" * 200_000 + "\nend\n")
    shown = await read.read(Call(path="a.txt", offset=2), ctx)
    assert shown.startswith("[Line 2 of a.txt is 200001 bytes long")
    assert "sed -n '2p'" in shown
    assert "xxxx" not in shown


async def test_reading_on_covers_a_file_larger_than_a_block_without_gap_or_overlap(ctx):
    text = "".join(f"{i:>700}\n" for i in range(3_000))
    (ctx.cwd / "a.txt").write_text(text)
    seen, offset = "", 1
    while offset:
        shown = await read.read(Call(path="a.txt", offset=offset, limit=400), ctx)
        body, _, notice = shown.partition("\n\n[")
        seen += body + ("\n" if notice else "")
        offset = int(notice.split("offset=")[1].split(".")[0]) if notice else 0
    assert seen == text


async def test_an_empty_file_is_said_to_be_empty(ctx):
    (ctx.cwd / "a.txt").touch()
    assert await read.read(Call(path="a.txt"), ctx) == "[The file is empty.]"


async def test_a_picture_is_shown_as_a_picture(ctx):
    data = png(3, 4)
    (ctx.cwd / "a.txt").write_bytes(data)
    output = await read.read(Call(path="a.txt"), ctx)
    assert output.content == [
        Text(f"[A picture: image/png, {len(data)} bytes]"),
        Image(base64.b64encode(data).decode(), "image/png"),
    ]


async def test_a_model_that_takes_no_pictures_gets_a_note(ctx):
    (ctx.cwd / "a.png").write_bytes(png(3, 4))
    ctx.model = Model(provider="p", id="m", api="x", base_url="")
    assert await read.read(Call(path="a.png"), ctx) == (
        "[a.png is a picture, not shown: p/m takes none.]"
    )


@pytest.mark.parametrize("data", [png(9_000, 2), png(2, 2) + bytes(4_000_000)])
async def test_a_picture_that_a_provider_would_refuse_is_a_note(ctx, data):
    (ctx.cwd / "a.png").write_bytes(data)
    assert (await read.read(Call(path="a.png"), ctx)).startswith("[A picture (image/png")


@pytest.mark.parametrize(
    ("data", "side"),
    [
        (b"GIF89a" + struct.pack("<HH", 10, 20), 20),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 7), 30),
        (b"RIFF....WEBPVP8X" + bytes(8) + (99).to_bytes(3, "little") + bytes(3), 100),
        (b"RIFF....WEBPVP8 " + bytes(10) + struct.pack("<HH", 5, 6), 6),
        (b"RIFF....WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 8 | 11 << 14), 12),
        (b"GIF89a", None),
    ],
)
def test_the_size_of_a_picture_is_told_by_its_head(data, side):
    from unipi.tools.images import longest_side, mime_type

    assert longest_side(data, mime_type(data)) == side


async def test_a_binary_file_is_a_note(ctx):
    (ctx.cwd / "a.bin").write_bytes(b"\x7fELF\x00\x01")
    assert (await read.read(Call(path="a.bin"), ctx)).startswith("[A binary file of 6 bytes")


async def test_broken_bytes_are_shown_as_replacement_characters(ctx):
    (ctx.cwd / "a.txt").write_bytes(b"\xef\xbb\xbfa\xed\xa0\x80b\xffc\n")
    assert await read.read(Call(path="a.txt"), ctx) == "a\ufffdb\ufffdc\n"


async def test_what_cannot_be_read_is_an_error_that_names_it(ctx):
    os.mkfifo(ctx.cwd / "pipe")
    for path, message in [
        ("gone.txt", "gone.txt: No such file"),
        (".", "folder"),
        ("pipe", "no regular file"),
        ("", "not a path"),
        ("a\0b", "not a path"),
        ("~nobody-of-that-name/x", "not a path"),
        ("a\ud800", "not a path|No such file"),
    ]:
        with pytest.raises(ToolError, match=message):
            await read.read(Call(path=path), ctx)


# write


async def test_writing_makes_folders_and_counts_bytes(ctx):
    said = await write.write(Call(path="a/b/c.txt", content="é\n"), ctx)
    assert said == "Wrote 3 bytes to a/b/c.txt"
    assert (ctx.cwd / "a/b/c.txt").read_bytes() == "é\n".encode()


async def test_writing_replaces_whole_and_keeps_the_mode(ctx):
    target = ctx.cwd / "run.sh"
    target.write_text("old content, longer")
    target.chmod(0o751)
    await write.write(Call(path="run.sh", content="new"), ctx)
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o751
    assert list(ctx.cwd.iterdir()) == [target]


async def test_a_new_file_gets_the_mode_that_the_umask_leaves(ctx):
    old = os.umask(0o027)
    try:
        await write.write(Call(path="a.txt", content="x"), ctx)
    finally:
        os.umask(old)
    assert stat.S_IMODE((ctx.cwd / "a.txt").stat().st_mode) == 0o640


async def test_a_lone_surrogate_is_repaired_before_it_reaches_the_disk(ctx):
    await write.write(Call(path="a.txt", content="a\ud800b"), ctx)
    assert (ctx.cwd / "a.txt").read_text() == "a\ufffdb"


async def test_a_failing_write_leaves_the_old_file_and_no_other(ctx, monkeypatch):
    (ctx.cwd / "a.txt").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(ToolError, match=r"a.txt: No space left"):
        await write.write(Call(path="a.txt", content="new"), ctx)
    assert {p.name: p.read_text() for p in ctx.cwd.iterdir()} == {"a.txt": "old"}


async def test_a_link_inside_the_folder_is_written_through(ctx):
    (ctx.cwd / "real.txt").write_text("old")
    (ctx.cwd / "link.txt").symlink_to("real.txt")
    await write.write(Call(path="link.txt", content="new"), ctx)
    assert (ctx.cwd / "link.txt").is_symlink()
    assert (ctx.cwd / "real.txt").read_text() == "new"


@pytest.mark.parametrize(
    "given", ["../out.txt", "link/out.txt", "{cwd}/link/out.txt", "@../out.txt"]
)
async def test_neither_a_relative_path_nor_a_link_leads_out_of_the_folder(ctx, given):
    (ctx.cwd / "link").symlink_to(ctx.cwd.parent)
    with pytest.raises(ToolError, match="leads out of the working folder") as caught:
        await write.write(Call(path=given.format(cwd=ctx.cwd), content="x"), ctx)
    assert f"{ctx.cwd.parent}/out.txt" in str(caught.value)
    assert not (ctx.cwd.parent / "out.txt").exists()


async def test_an_absolute_path_outside_is_written(ctx):
    target = ctx.cwd.parent / "out.txt"
    assert (
        await write.write(Call(path=str(target), content="x"), ctx) == f"Wrote 1 bytes to {target}"
    )


async def test_only_regular_files_are_replaced(ctx):
    os.mkfifo(ctx.cwd / "pipe")
    (ctx.cwd / "folder").mkdir()
    for path, message in [("pipe", "no regular file"), ("folder", "is a folder")]:
        with pytest.raises(ToolError, match=message):
            await write.write(Call(path=path, content="x"), ctx)


# edit


async def change(ctx, before, *pairs, **more):
    (ctx.cwd / "a.py").write_bytes(before if isinstance(before, bytes) else before.encode())
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    output = await edit.edit(Call(path="a.py", edits=edits, **more), ctx)
    return (ctx.cwd / "a.py").read_bytes(), output


async def test_several_replacements_are_made_at_once(ctx):
    after, output = await change(
        ctx, "a = 1\nb = 2\nc = 3\n", ("c = 3", "c = 30"), ("a = 1", "a = 10")
    )
    assert after == b"a = 10\nb = 2\nc = 30\n"
    assert output.content == "Made 2 replacements in a.py"
    assert output.details == {
        "diff": "@@ -1,4 +1,4 @@\n-a = 1\n+a = 10\n b = 2\n-c = 3\n+c = 30\n ",
        "first_changed_line": 1,
    }


async def test_each_edit_matches_the_file_as_it_was(ctx):
    after, _ = await change(ctx, "one two\n", ("one", "two"), ("two", "one"))
    assert after == b"two one\n"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("x", "y")], "oldText of edit 1 is not in a.py"),
        ([("aba", "x"), ("b", "y")], "edit 2 matches 2 places"),
        ([("aa", "x")], "matches 2 places"),
        ([("abab", "x"), ("bab", "y")], "edits 1 and 2 of a.py overlap"),
        ([("", "y")], "oldText of edit 1 is empty"),
        ([("caa", "caa")], "leave a.py as it is"),
        ([], "edits is empty"),
    ],
)
async def test_an_edit_that_cannot_be_meant_changes_nothing(ctx, pairs, message):
    before = "abab caaa\n" if "aa" in str(pairs) else "abab\n"
    with pytest.raises(ToolError, match=message):
        await change(ctx, before, *pairs)
    assert (ctx.cwd / "a.py").read_text() == before


async def test_a_byte_order_mark_and_windows_line_ends_stay(ctx):
    before = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    after, _ = await change(ctx, before, ("one\ntwo\n", "1\n2\n2b\n"))
    assert after == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree\r\n"


async def test_lines_that_are_not_edited_keep_their_own_line_ends(ctx):
    after, _ = await change(ctx, b"a\nb\r\nc\nd\r\n", ("b", "b1\nb2"), ("c", "c1\nc2"))
    assert after == b"a\nb1\r\nb2\r\nc1\nc2\nd\r\n"


async def test_spaces_at_line_ends_and_typographic_quotes_may_differ(ctx):
    before = "x = \u201cquoted\u201d   \ny = 1\u00a0+ 2\t\nz\n"
    after, output = await change(ctx, before, ('x = "quoted"\ny = 1 + 2\n', "new\n"))
    assert after == b"new\nz\n"
    assert "1 matched with spaces" in output.content


async def test_an_exact_match_wins_over_a_loose_one(ctx):
    after, output = await change(ctx, "say 'x'\nsay \u2018x\u2019\n", ("say 'x'", "ok"))
    assert after == "ok\nsay \u2018x\u2019\n".encode()
    assert "matched" not in output.content


async def test_bytes_that_are_no_utf_8_are_left_alone(ctx):
    after, _ = await change(ctx, b"caf\xe9 = 1\nb = 2\n", ("b = 2", "b = 3"))
    assert after == b"caf\xe9 = 1\nb = 3\n"


async def test_the_old_form_of_a_single_edit_is_taken(ctx):
    (ctx.cwd / "a.py").write_text("one\n")
    await edit.edit(Call(path="a.py", oldText="one", newText="two"), ctx)
    assert (ctx.cwd / "a.py").read_text() == "two\n"


async def test_an_edit_of_a_missing_file_names_it(ctx):
    with pytest.raises(ToolError, match=r"gone.py: No such file"):
        await edit.edit(Call(path="gone.py", edits=[{"oldText": "a", "newText": "b"}]), ctx)


async def test_edits_of_one_file_at_the_same_time_all_arrive(ctx):
    (ctx.cwd / "a.py").write_text("".join(f"<{i}>\n" for i in range(20)))
    (ctx.cwd / "link.py").symlink_to("a.py")

    async def one(i):
        pair = {"oldText": f"<{i}>", "newText": f"[{i}]"}
        await edit.edit(Call(path="link.py" if i % 2 else "a.py", edits=[pair]), ctx)

    async with anyio.create_task_group() as tasks:
        for i in range(20):
            tasks.start_soon(one, i)
    assert (ctx.cwd / "a.py").read_text() == "".join(f"[{i}]\n" for i in range(20))


def test_no_lock_is_kept_for_a_file_that_nobody_edits():
    async def main():
        lock = paths.file_lock(paths.Path("/x"))
        assert paths.file_lock(paths.Path("/x")) is lock
        del lock
        assert not paths._locks.get()

    anyio.run(main)


PIECE = st.text("ab\n", min_size=1, max_size=4)


@given(st.lists(st.tuples(PIECE, PIECE, st.booleans()), min_size=1, max_size=12), st.booleans())
def test_a_diff_turns_the_old_text_into_the_new(pieces, windows):
    marked = [(f"<{i}{old}>", f"<{i}{new}>", hit) for i, (old, new, hit) in enumerate(pieces)]
    old = "".join(before for before, _, _ in marked)
    new = "".join(after if hit else before for before, after, hit in marked)
    source = old.replace("\n", "\r\n") if windows else old
    spans = find_spans(source, [Edit(b, a) for b, a, hit in marked if hit], "x")
    assert [source[s.start : s.end].replace("\r", "") for s in spans] == [
        b for b, _, hit in marked if hit
    ]
    if not windows:
        diff, _ = unified(old, spans)
        assert patched(old.split("\n"), diff) == new.split("\n")


def patched(lines, diff):
    """The lines that a unified diff makes of `lines`."""
    out, at = [], 0
    for row in diff.split("\n") if diff else []:
        if row.startswith("@@"):
            start, _, size = row.split()[2][1:].partition(",")
            first = int(row.split()[1][1:].split(",")[0]) - 1
            out += lines[at:first]
            at = first
            assert len(out) == int(start) - 1
            assert size
        elif row[0] == "+":
            out.append(row[1:])
        else:
            assert lines[at] == row[1:]
            out += [row[1:]] * (row[0] == " ")
            at += 1
    return out + lines[at:]
