"""The built-in models, registered through the hook that every provider plugin uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi_hookspecs import ProviderSpec, hookimpl

from .models import MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence


@hookimpl
def register_providers() -> Sequence[ProviderSpec]:
    """One spec a provider, in the table's order."""
    names = dict.fromkeys(model.provider for model in MODELS.values())
    return [
        ProviderSpec(name, [model for model in MODELS.values() if model.provider == name])
        for name in names
    ]
