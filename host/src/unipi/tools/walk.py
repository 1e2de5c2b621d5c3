"""Which files a search looks at: in a fixed order, by the ignore rules of git.

Standard library only: the search child imports this module without site-packages. Paths are bytes,
relative to the folder that is searched, so that neither locale nor broken names matter.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess

from .text import decode, utf16_key

_GIT = (
    "git",
    # A repository's own configuration could name a program to run for this.
    "-c",
    "core.fsmonitor=false",
    "ls-files",
    "-z",
    "--cached",
    "--others",
    "--exclude-standard",
)
_DEPTH = 32  # repositories inside repositories


def list_files(root: bytes) -> list[bytes]:
    """Files and symbolic links below `root`, in code-unit order of their paths.

    In a git repository, those that git tracks or would add; elsewhere, and in a folder that git
    ignores altogether, all but what is in `.git`.
    """
    return sorted(set(_files(root, _DEPTH)), key=order)


def order(path: bytes) -> tuple[bytes, bytes]:
    """The sort key: UTF-16 code units of the readable path, then its bytes."""
    return utf16_key(decode(path)), path


def parents(files: list[bytes]) -> set[bytes]:
    """The folders, below the root, that hold the files."""
    found = set()
    for path in files:
        while (cut := path.rfind(b"/")) > 0 and (path := path[:cut]) not in found:
            found.add(path)
    return found


def compile_glob(glob: str) -> re.Pattern[str]:
    """The expression of a glob: `*`, `?`, `[…]`, `{a,b}`, and `**` for any folders.

    It is matched against a whole path, or, when the glob has no `/`, its last part. Raises
    re.error for one that is not well-formed.
    """
    body = _expression(glob.removeprefix("./").removeprefix("/"))
    return re.compile(body if "/" in glob else f"(?:.*/)?{body}", re.DOTALL)


def join(folder: bytes, path: bytes) -> bytes:
    """`path` below `folder`, which may be empty."""
    return folder + b"/" + path if folder and path else folder or path


def _files(root: bytes, depth: int) -> list[bytes]:
    listed = _git_files(root) if depth else None
    if not listed:
        return _walk(root)
    found = []
    for path in listed:
        kind = _kind(join(root, path))
        if kind == stat.S_IFDIR:  # a repository inside this one
            folder = path.rstrip(b"/")
            inside = _files(join(root, folder), depth - 1)
            found += [folder + b"/" + rest for rest in inside]
        elif kind in {stat.S_IFREG, stat.S_IFLNK}:
            found.append(path)
    return found


def _git_files(root: bytes) -> list[bytes] | None:
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, no shell
            _GIT, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:
        return None
    if done.returncode:
        return None
    return [path for path in done.stdout.split(b"\0") if path]


def _kind(path: bytes) -> int:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:  # tracked, but deleted
        return 0


def _walk(root: bytes) -> list[bytes]:
    found = []
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(join(root, folder)) as entries:
                for entry in entries:
                    path = join(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != b".git":
                            folders.append(path)
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        found.append(path)
        except OSError:  # not ours to read
            continue
    return found


_TOKEN = re.compile(
    r"(?P<deep>\*\*/)|(?P<any>\*\*)|(?P<star>\*)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]"
    r"|(?P<open>\{)|(?P<close>\})|(?P<comma>,)|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_FIXED = {
    "deep": "(?:.*/)?",
    "any": ".*",
    "star": "[^/]*",
    "one": "[^/]",
    "open": "(?:",
    "close": ")",
}


def _expression(glob: str) -> str:
    out, depth = [], 0
    for token in _TOKEN.finditer(glob):
        kind = token.lastgroup or "plain"
        depth += (kind == "open") - (kind == "close")
        if kind in _FIXED:
            out.append(_FIXED[kind])
        elif kind == "set":
            inner = token["set"].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            out.append(f"(?!/)[{'^' if token['not'] else ''}{inner}]")
        elif kind == "comma":
            out.append("|" if depth else ",")
        else:
            out.append(re.escape(token["escaped"] or token["plain"]))
    return "".join(out)
