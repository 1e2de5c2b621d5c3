"""How the values of this package show themselves.

attrs compiles a `__repr__` for each class; with some seventy of them that is a third of what
importing them costs, and a plugin's author pays it in every start. One function does for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from attrs import fields

if TYPE_CHECKING:
    from attrs import AttrsInstance

C = TypeVar("C", bound=type)


def shown(cls: C) -> C:
    """Give a class of attrs a `__repr__` that names its fields, but those with `repr=False`."""
    cls.__repr__ = _show  # type: ignore[method-assign, assignment]  # what attrs does, once for all
    return cls


def _show(self: AttrsInstance) -> str:
    kind = type(self)
    parts = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(kind) if f.repr)
    return f"{kind.__qualname__}({', '.join(parts)})"
