"""Where session files are, and which there are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from .entries import message_from_fields
from .errors import SessionError
from .lines import decode, read_header
from .times import from_iso, now_ms, to_iso, uuid7

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unipi_hookspecs import JSON

_NAME_LIMIT = 240
"""Bytes of a folder name, below the 255 that file systems allow."""

_LOOK_AHEAD = 64
"""Lines in which the first words of the user are looked for."""

_INFO = b'"type":"session_info"'


@frozen
class SessionInfo:
    """What a list of sessions shows of one. Times are ISO; `size` is in bytes.

    `side` says that a helper or a side thread wrote it: `--continue` passes it over. `parent` is
    the session file that it was forked from or made for.
    """

    path: Path
    id: str
    cwd: str
    created: str
    modified: str
    size: int
    version: int
    name: str | None = None
    first: str = ""
    parent: str | None = None
    side: bool = False


def sessions_root() -> Path:
    """The folder of all sessions: `$UNIPI_HOME/sessions`, else below the user's state folder."""
    home = os.environ.get("UNIPI_HOME")
    if home:
        return Path(home) / "sessions"
    import platformdirs

    return platformdirs.user_state_path("unipi") / "sessions"


def session_dir(cwd: Path) -> Path:
    """The folder of the sessions of a working folder, named as Pi does (`--path-to-it--`).

    A name that would be too long for a file system ends in a digest instead.
    """
    text = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", str(cwd.absolute())))
    encoded = os.fsencode(text)
    if len(encoded) > _NAME_LIMIT:
        import hashlib

        digest = hashlib.sha256(encoded).hexdigest()[:16]
        text = f"{encoded[: _NAME_LIMIT - 20].decode('utf-8', 'ignore')}-{digest}"
    return sessions_root() / f"--{text}--"


def new_session_path(cwd: Path, id: str | None = None) -> tuple[Path, str]:  # noqa: A002 - Pi's word
    """A path for a session that starts now, and the id that its name holds."""
    new = id or uuid7()
    when = re.sub(r"[:.]", "-", to_iso(now_ms()))
    return session_dir(cwd) / f"{when}_{new}.jsonl", new


def find_latest(cwd: Path) -> Path | None:
    """The user's session in a working folder that was written last, or None.

    Sessions of helpers and side threads do not count; forks do.
    """
    own = [info for info in list_sessions(cwd) if not info.side]
    return own[0].path if own else None


def find_session(reference: str, cwd: Path) -> Path:
    """The session file that a path, an id or the start of an id names.

    Raises SessionError when there is none, or more than one.
    """
    path = Path(reference)
    if path.exists() or path.suffix == ".jsonl" or os.sep in reference:
        if not path.is_file():
            raise SessionError(f"{path}: no such session file")
        return path
    found = [info for info in list_sessions(cwd) if info.id.startswith(reference)]
    found = found or [info for info in list_sessions(None) if info.id.startswith(reference)]
    if not found:
        raise SessionError(
            f"{reference}: no session file and no session id; `unipi sessions list` shows them"
        )
    if len({info.id for info in found}) > 1:
        ids = ", ".join(sorted({info.id for info in found}))
        raise SessionError(f"{reference} is the start of more than one session id: {ids}")
    return found[0].path


def list_sessions(cwd: Path | None = None) -> list[SessionInfo]:
    """The sessions of a working folder, or all of them, the one written last first.

    Files that are no sessions, or vanish meanwhile, are passed over.
    """
    folders = [session_dir(cwd)] if cwd is not None else _folders()
    wanted = str(cwd.absolute()) if cwd is not None else None
    found: list[tuple[int, SessionInfo]] = []
    for folder in folders:
        for path in folder.glob("*.jsonl"):
            try:
                modified = path.stat().st_mtime_ns
                info = read_info(path)
            except (SessionError, OSError):
                continue
            # Two working folders can share a folder here: `a/b` and `a-b` read the same.
            if wanted is None or info.cwd in (wanted, ""):
                found.append((modified, info))
    found.sort(key=lambda pair: (pair[0], pair[1].path.name), reverse=True)
    return [info for _, info in found]


def _folders() -> list[Path]:
    try:
        return sorted(path for path in sessions_root().iterdir() if path.is_dir())
    except OSError:
        return []


def read_info(path: Path) -> SessionInfo:
    """What can be said of a session file without reading all of it.

    Raises SessionError when it is no session, OSError when it cannot be read.
    """
    with path.open("rb") as file:
        header, _, _ = read_header(path, file)
        head = [line for _, line in zip(range(_LOOK_AHEAD), file, strict=False)]
        status = os.fstat(file.fileno())
        name = _last_name(file.fileno(), status.st_size)
    if header is None:
        raise SessionError(f"{path} is empty")
    entries = list(_entries(head))
    version = header.get("version")
    parent = header.get("parentSession")
    return SessionInfo(
        path=path,
        id=str(header["id"]),
        cwd=str(header.get("cwd") or ""),
        created=str(header.get("timestamp") or ""),
        modified=to_iso(status.st_mtime_ns // 1_000_000),
        size=status.st_size,
        version=version if isinstance(version, int) else 1,
        name=name,
        first=_first_words(entries),
        parent=parent if isinstance(parent, str) else None,
        side=_is_side(header, entries),
    )


def _is_side(header: Mapping[str, JSON], entries: list[dict[str, JSON]]) -> bool:
    """Whether somebody else than the user started the session.

    A fork has a parent too. Ours say so; Pi's begin with entries older than their header.
    """
    if not isinstance(header.get("parentSession"), str) or "forkedFrom" in header:
        return False
    first = from_iso(entries[0].get("timestamp")) if entries else 0
    return not 0 < first < from_iso(header.get("timestamp"))


def _entries(lines: list[bytes]) -> Iterator[dict[str, JSON]]:
    for line in lines:
        try:
            yield decode(line)[0]
        except ValueError:
            continue


def _first_words(entries: list[dict[str, JSON]]) -> str:
    for fields in entries:
        message = message_from_fields(fields)
        if message is not None and message.role == "user":
            content = message.content
            if not isinstance(content, str):
                content = " ".join(block.text for block in content if block.type == "text")
            return " ".join(content[:400].split())[:100]
    return ""


def _last_name(fd: int, size: int) -> str | None:
    """The name that was given last, searched from the end without reading the lines before."""
    if size == 0:
        return None
    import mmap

    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        at = data.rfind(_INFO)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            try:
                fields, _ = decode(data[start : end if end >= 0 else size])
            except ValueError:
                fields = {}
            if fields.get("type") == "session_info":
                name = fields.get("name")
                return (name.strip() or None) if isinstance(name, str) else None
            at = data.rfind(_INFO, 0, at)
    return None
