"""Figures for OpenTelemetry and Prometheus: off by default, and nothing is imported until one is on.

The settings of the plugin switch them on:

    {"plugins": {"diagnostics": {"otel": true, "prometheus": {"port": 9464}}}}

What leaves the process are counts, seconds, prices and names: of providers, models, purposes, causes
and owners. No text of a prompt, an answer, an error or a header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON, Boundary, Context, Logger, ProviderResponseEndEvent

PORT: Final = 9464
"""The port that OpenTelemetry's specification gives Prometheus exporters by default."""

_LABEL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,96}\Z")
_MOST_LABELS = 200
"""Values of one label; a plugin that makes up names would cost its collector without end."""


class Exporter(Protocol):
    """Somebody who is told of each answer and each boundary."""

    def response(self, event: ProviderResponseEndEvent, session_id: str) -> None: ...
    def boundary(self, boundary: Boundary) -> None: ...
    def close(self) -> None:
        """Send what is left, and stop."""


class Labels:
    """Names as they may stand in a label: short, plain, and not without number."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def __call__(self, kind: str, value: str) -> str:
        """The value, or `other` for one that is no plain name or is one too many of its kind."""
        seen = self._seen.setdefault(kind, set())
        if value in seen:
            return value
        if not _LABEL.match(value) or len(seen) >= _MOST_LABELS:
            return "other"
        seen.add(value)
        return value


class Exporters:
    """Those of this process that are on, whatever number of sessions it has."""

    def __init__(self) -> None:
        self._on: dict[str, Exporter] = {}

    def wanted(self, settings: Mapping[str, JSON]) -> bool:
        """Whether settings switch one on that is not on yet."""
        return any(settings.get(name) and name not in self._on for name in ("otel", "prometheus"))

    async def switch_on(self, ctx: Context) -> None:
        """Switch on what the settings name. What cannot be is told, and the session goes on."""
        # In a thread: the SDKs take their time to import, and a port its own to open.
        import anyio.to_thread

        await anyio.to_thread.run_sync(self._start, ctx.settings, ctx.log)

    def _start(self, settings: Mapping[str, JSON], log: Logger) -> None:
        for name in ("otel", "prometheus"):
            value = settings.get(name)
            if not value or name in self._on:
                continue
            try:
                self._on[name] = _make(name, value)
            except ImportError as error:
                text = (
                    "an exporter is switched on and not installed: install unipi-diagnostics[otel]"
                )
                log.warning(text, exporter=name, missing=error.name)
            except (OSError, ValueError) as error:
                text = (
                    "an exporter could not be started; correct plugins.diagnostics in settings.json"
                )
                log.warning(text, exporter=name, error=str(error))

    def response(self, event: ProviderResponseEndEvent, session_id: str) -> None:
        for each in self._on.values():
            each.response(event, session_id)

    def boundary(self, boundary: Boundary) -> None:
        for each in self._on.values():
            each.boundary(boundary)

    def close(self) -> None:
        """Switch all off."""
        while self._on:
            self._on.popitem()[1].close()


def _make(name: str, value: JSON) -> Exporter:
    if name == "otel":
        if value is not True:
            raise ValueError("otel must be true or false; its OTEL_* variables say the rest")
        from .otel import connect

        return connect()
    from .prometheus import PrometheusExporter

    return PrometheusExporter(_port(value))


def _port(value: JSON) -> int:
    port = PORT if value is True else None
    if isinstance(value, dict) and set(value) <= {"port"}:
        port = value.get("port", PORT)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65_535:
        raise ValueError('prometheus must be true or {"port": 9464}')
    return port
