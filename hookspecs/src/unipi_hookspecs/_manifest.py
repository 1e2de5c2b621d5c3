"""What a plugin says about itself before its hooks are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Attribute, field, frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._content import JSON

API_VERSION = 1
"""The hook API of this distribution; a manifest with a higher `api` is incompatible."""


def _check_name(_: object, __: Attribute[str], value: str) -> None:
    if not value or len(value) > 128 or not value.isprintable() or any(c.isspace() for c in value):
        raise ValueError(f"plugin name {value!r} must be 1 to 128 printable characters, no spaces")


def _names(value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a sequence of plugin names, got the string {value!r}")
    return tuple(value)


@shown
@frozen(repr=False)
class Manifest:
    """A plugin's name, the hook API it was written for, and its place in the order.

    `host` is a version range such as `>=0.1,<1`. `before` and `after` name other plugins; `after`
    needs its target to be there, `before` does not. `requires` names plugins it cannot do without.
    """

    name: str = field(validator=_check_name)
    api: int = API_VERSION
    host: str | None = None
    before: Sequence[str] = field(default=(), converter=_names)
    after: Sequence[str] = field(default=(), converter=_names)
    requires: Sequence[str] = field(default=(), converter=_names)
    settings_schema: Mapping[str, JSON] | None = None
    description: str = ""
