"""Loggers that cost nothing until they speak: structlog is imported at the first line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unipi.redaction import scrub

if TYPE_CHECKING:
    from unipi_hookspecs import Logger

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LazyLogger:
    """A logger bound to a plugin's name, silent below `threshold` ("warning" by default)."""

    def __init__(self, plugin: str, threshold: str = "warning") -> None:
        self._plugin = plugin
        self._threshold = _LEVELS[threshold]
        self._target: Logger | None = None

    def debug(self, event: str, /, **values: object) -> None:
        self._emit("debug", event, values)

    def info(self, event: str, /, **values: object) -> None:
        self._emit("info", event, values)

    def warning(self, event: str, /, **values: object) -> None:
        self._emit("warning", event, values)

    def error(self, event: str, /, **values: object) -> None:
        self._emit("error", event, values)

    def _emit(self, level: str, event: str, values: dict[str, object]) -> None:
        if _LEVELS[level] < self._threshold:
            return
        if self._target is None:
            self._target = _bound(self._plugin)
        getattr(self._target, level)(event, **values)


def _bound(plugin: str) -> Logger:
    import sys

    import structlog

    logger: Logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.KeyValueRenderer(key_order=["level", "plugin", "event"]),
            lambda _logger, _name, line: scrub(str(line)),
        ],
        plugin=plugin,
    )
    return logger
