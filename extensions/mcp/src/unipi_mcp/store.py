"""JSON that is kept or digested: every number as it was, and files that only their owner reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from unipi_hookspecs import JSON


def encode(value: JSON, *, indent: int | None = None, ordered: bool = True) -> str:
    """JSON in ASCII, which carries lone surrogates too; `ordered` sorts the keys.

    The standard encoder, as others refuse integers of more than 64 bits or read them as floats.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, sort_keys=ordered, indent=indent, separators=separators, default=_dict)


def digest(value: JSON) -> str:
    """SHA-256 over a value, whatever the order of its keys; in hex."""
    return sha256(encode(value).encode()).hexdigest()


def write_private(path: Path, text: str) -> None:
    """Put `text` in place of `path` in one step, readable by its owner alone (0600).

    A folder that is made for it is of mode 0700. Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _dict(value: object) -> object:
    """Settings may come in a mapping that is no dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
