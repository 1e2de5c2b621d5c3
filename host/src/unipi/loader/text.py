"""Text from outside, made fit for one line of a message."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything that could steer a terminal, or that JSON cannot carry, blanked."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def one_line(value: object, limit: int = 200) -> str:
    """The text on one line, without control characters, at most `limit` characters.

    An exception whose own `__str__` fails is named by its type.
    """
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - the text comes from a plugin's class
        text = f"<{type(value).__name__}>"
    text = " ".join(printable(text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cause(error: BaseException) -> str:
    """An exception as `Type: text`, with the file and line it comes from when there is one."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {one_line(error.msg)} ({error.filename}:{error.lineno})"
    text = one_line(error)
    shown = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    outside = [
        f for f in frames if not f.filename.startswith("<frozen") and "importlib" not in f.filename
    ]
    if outside and outside[-1].filename != __file__:
        shown += f" ({outside[-1].filename}:{outside[-1].lineno})"
    return shown
