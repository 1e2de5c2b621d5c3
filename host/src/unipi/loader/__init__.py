"""Find plugins, check them, put them in one order, register them (design sections 3 and 3.1)."""

from .load import load_plugins as load_plugins
from .order import explain as explain, utf16_key as utf16_key
from .tools import ToolOffer as ToolOffer, collect_tools as collect_tools
from .values import (
    LoadedPlugin as LoadedPlugin,
    LoadError as LoadError,
    LoadOptions as LoadOptions,
    LoadResult as LoadResult,
    MissingRequired as MissingRequired,
    PluginState as PluginState,
    Problem as Problem,
)

__all__ = [
    "LoadError",
    "LoadOptions",
    "LoadResult",
    "LoadedPlugin",
    "MissingRequired",
    "PluginState",
    "Problem",
    "ToolOffer",
    "collect_tools",
    "explain",
    "load_plugins",
    "utf16_key",
]
