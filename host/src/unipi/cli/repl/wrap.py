"""Rows of a terminal out of text that comes in pieces."""

from __future__ import annotations

from unipi.cli._summary import printable


def safe(text: str) -> str:
    """Text from outside as it may stand on a terminal: no control character but newlines."""
    return printable(text.replace("\r\n", "\n").expandtabs(4))


def rows(text: str, width: int) -> tuple[list[str], str]:
    """The rows that are complete, and the rest, which may still grow.

    A line that is wider than `width` columns is cut at its last space, else where it is full, so that
    what is kept open is never more than a row. All of it is safe to show, but for a carriage return
    at the end of the rest, whose newline may still come.
    """
    *whole, rest = text.split("\n")
    done: list[str] = []
    for line in whole:
        parts, last = _cut(safe(line.rstrip("\r")), width)
        done += [*parts, last]
    open_end = "\r" if rest.endswith("\r") else ""
    parts, last = _cut(safe(rest.removesuffix("\r")), width)
    return [*done, *parts], last + open_end


def _cut(line: str, width: int) -> tuple[list[str], str]:
    from prompt_toolkit.utils import get_cwidth

    done: list[str] = []
    while len(line) * 2 > width and get_cwidth(line) > width:
        at, columns = 0, 0
        while at < len(line) and columns + get_cwidth(line[at]) <= width:
            columns += get_cwidth(line[at])
            at += 1
        space = line.rfind(" ", 1, at + 1)
        at = space if space > 0 else max(at, 1)
        done.append(line[:at])
        line = line[at + 1 :] if line[at : at + 1] == " " else line[at:]
    return done, line
