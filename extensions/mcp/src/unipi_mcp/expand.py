"""Variables in a server's entry: `${NAME}`, `${NAME:-default}` and `${env:NAME}`.

They are replaced once, with nothing nested: what a variable holds is never read for variables
again. `$NAME` without braces stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE: Final = re.compile(
    r"\$\{(?:(?P<input>input:[^}]*)|(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?)\}"
)


class UnsetError(ValueError):
    """A variable that is not set and has no default. The text holds names, never values."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its variables replaced; a default counts where one is unset or empty.

    Raises `UnsetError`: a server that was sent the literal would fail in a way that nobody reads.
    """

    def value(found: re.Match[str]) -> str:
        if found["input"] is not None:
            raise UnsetError("`${input:…}` is VS Code's; name an environment variable instead")
        name, default = found["name"], found["default"]
        held = environ.get(name)
        if held is None and default is None:
            raise UnsetError(f"the environment variable {name} is not set and has no default")
        return default if not held and default is not None else held or ""

    return _VARIABLE.sub(value, text)


def is_literal(text: str) -> bool:
    """Whether a value that ought to be secret is written out and not named by a variable."""
    return bool(text) and _VARIABLE.search(text) is None
