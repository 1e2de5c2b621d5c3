"""The key of the model in use: asked for once, and once more where it has run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.providers import SecretError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from unipi.providers import Secret
    from unipi_hookspecs import Model


class Keys:
    """Remembers the key of the last model that it was asked for."""

    def __init__(self, find: Callable[[Model], Awaitable[Secret | None]]) -> None:
        self._find = find
        self._held: tuple[str, Secret | None] | None = None

    async def of(self, model: Model) -> Secret | None:
        """The key of a model's provider, or None where it needs none. Raises SecretError."""
        if self._held is None or self._held[0] != model.name:
            self._held = (model.name, await self._find(model))
        return self._held[1]

    async def renew(self, model: Model) -> bool:
        """Ask the key's source again; whether it gave another key than the one in use."""
        held, self._held = self._held, None
        try:
            fresh = await self.of(model)
        except SecretError:
            self._held = held
            return False
        before = held[1] if held is not None else None
        return fresh is not None and (before is None or fresh.reveal() != before.reveal())
