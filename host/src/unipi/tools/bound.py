"""What any tool shows the model is bounded here (design §4.5)."""

from __future__ import annotations

from attrs import frozen

from unipi_hookspecs import Bounded

from .artifacts import ARTIFACT_LIMIT, ArtifactError, Artifacts
from .cut import head_end, tail_start
from .text import LINE_LIMIT, count_lines, decode, raw_bytes, repair

VISIBLE_LIMIT = 65_536
"""UTF-8 bytes of one result that the model sees at most, the note included."""

_LABEL_LENGTH = 64


@frozen
class _About:
    """What a note tells: sizes in bytes, and the artifact's path or why there is none."""

    label: str
    size: int
    received: int
    lines: int
    path: str | None
    reason: str


def bound_output(
    raw: str | bytes, *, label: str, artifacts: Artifacts | None, limit: int = VISIBLE_LIMIT
) -> Bounded:
    """Cut `raw` to `limit` bytes of UTF-8, and keep the whole of it in `artifacts`.

    Broken bytes and lone surrogates become U+FFFD; the artifact has the bytes as they were. Output
    within the limit is returned whole and nothing is kept. The text depends on the arguments
    alone, so that the same output reads the same. `limit` is clamped to 0..65,536.
    """
    limit = max(0, min(limit, VISIBLE_LIMIT))
    data = raw if isinstance(raw, bytes) else raw_bytes(raw)
    text = decode(raw) if isinstance(raw, bytes) else repair(raw)
    shown = text.encode()
    if len(shown) <= limit:
        return Bounded(text, len(data))
    label = _one_line(label)
    path, reason = _keep(data, label, artifacts)
    readable = path and repair(path)
    about = _About(label, len(shown), len(data), count_lines(text), readable, reason)
    return Bounded(_cut(shown, limit, about), len(data), truncated=True, artifact=path)


def _one_line(label: str) -> str:
    clean = "".join(c if c.isprintable() else " " for c in repair(label))
    return " ".join(clean.split())[:_LABEL_LENGTH] or "output"


def _keep(data: bytes, label: str, artifacts: Artifacts | None) -> tuple[str | None, str]:
    if len(data) > ARTIFACT_LIMIT:
        return None, "it is over 16 MiB"
    if artifacts is None:
        return None, "there is no folder for it"
    try:
        return artifacts.store(data, label), ""
    except ArtifactError as error:
        return None, str(error)


def _cut(shown: bytes, limit: int, about: _About) -> str:
    total = len(shown)
    # The first note that leaves a quarter of the limit to the output itself. With the total in
    # every place no number can come out longer, so `reserve` is what a note takes at most.
    for note in (_full_note, _short_note, _mark):
        reserve = sum(len(part.encode()) for part in note(about, total, total, about.lines))
        if reserve * 4 <= limit * 3:
            break
    else:
        return shown[: head_end(shown, limit)].decode()
    budget = limit - reserve
    head = head_end(shown, budget - budget // 2)
    start = tail_start(shown, total - budget // 2)
    line = shown.count(b"\n", 0, head) + 1
    gap, footer = note(about, head, total - start, line)
    return f"{shown[:head].decode()}{gap}{shown[start:].decode()}{footer}"


def _full_note(about: _About, head: int, tail: int, line: int) -> tuple[str, str]:
    if about.path is None:
        rest = f"The full output was not kept: {about.reason}."
    else:
        rest = (
            f"Full output: {about.path} - read on with the read tool at offset={line}, "
            f"limit={LINE_LIMIT}."
        )
    total, received = about.size, about.received
    sizes = f"{total} bytes" if received == total else f"{total} bytes ({received} as received)"
    shown = f"shown are the first {head} and the last {tail} bytes"
    footer = f"\n[{about.label}: {sizes} in {about.lines} lines; {shown}. {rest}]"
    return _short_note(about, head, tail, line)[0], footer


def _short_note(about: _About, head: int, tail: int, _line: int) -> tuple[str, str]:
    return f"\n[... {about.size - head - tail} bytes cut ...]\n", ""


def _mark(_about: _About, _head: int, _tail: int, _line: int) -> tuple[str, str]:
    return "…", ""


__all__ = ["ARTIFACT_LIMIT", "VISIBLE_LIMIT", "ArtifactError", "Artifacts", "bound_output"]
