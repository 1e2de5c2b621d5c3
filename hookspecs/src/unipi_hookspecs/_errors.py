"""Errors that plugins meet.

PluginError
├── StaleContextError   the session of this context has ended
└── PrefixError         the host refused to let a plugin move the prefix
"""

from __future__ import annotations


class PluginError(Exception):
    """Base of the errors that the host raises into a plugin."""


class StaleContextError(PluginError):
    """A context was used after its session had ended."""


class PrefixError(PluginError):
    """A plugin asked for something that only a cache boundary can give."""
