"""The built-in tools, as a plugin: registered through the same hooks as anybody's."""

from __future__ import annotations

from unipi_hookspecs import Manifest, Setting, Tool, hookimpl

from .specs import PASS_ENV, TOOLS

manifest = Manifest(
    name="tools", description="The built-in tools: read, write, edit, bash, grep, find, ls."
)


@hookimpl
def register_tools() -> list[Tool]:
    """Offer the seven built-in tools."""
    return list(TOOLS)


@hookimpl
def register_settings() -> list[Setting]:
    """Describe the one setting."""
    return [
        Setting(
            PASS_ENV,
            "Names of variables of the host's environment that bash commands get besides the base "
            "list. Commands see no others, so that secrets stay with the host.",
            schema={"type": "array", "items": {"type": "string"}},
            default=[],
        )
    ]
