"""Figures for a Prometheus that comes to fetch them, on loopback alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server

from .exporters import Labels

if TYPE_CHECKING:
    from unipi_hookspecs import Boundary, ProviderResponseEndEvent

HOST: Final = "127.0.0.1"
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)


class PrometheusExporter:
    """Serves `/metrics` on a port of 127.0.0.1 until it is closed; port 0 takes a free one.

    Raises OSError when the port cannot be had.
    """

    def __init__(self, port: int) -> None:
        self.registry = CollectorRegistry()
        self._label = Labels()
        route = ("provider", "model", "purpose")
        broken = ("cause", "owner", "avoidable")
        self._requests = self._counter(
            "unipi_requests", "Answers of providers.", (*route, "outcome")
        )
        self._tokens = self._counter(
            "unipi_tokens",
            "Tokens: prompt (all of it), cache_read and cache_write (of these), output.",
            (*route, "kind"),
        )
        self._cost = self._counter(
            "unipi_cost_usd", "What answers cost, where prices are known.", route
        )
        self._seconds = Histogram(
            "unipi_request_seconds",
            "From request to the end of the answer.",
            route,
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._boundaries = self._counter("unipi_boundaries", "Cache epochs that ended.", broken)
        self._lost = self._counter(
            "unipi_boundary_lost_tokens", "Tokens to be read again for them.", broken
        )
        self._price = self._counter(
            "unipi_boundary_cost_usd", "What that costs, where prices are known.", broken
        )
        self._server, self._thread = start_http_server(port, addr=HOST, registry=self.registry)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_port)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def response(self, event: ProviderResponseEndEvent, session_id: str) -> None:
        """Count one answer, failed ones included; sessions are not told apart."""
        info, usage = event.info, event.usage
        route = (
            self._label("provider", info.provider),
            self._label("model", info.model),
            info.purpose,
        )
        self._requests.labels(*route, event.stop_reason).inc()
        self._seconds.labels(*route).observe(event.duration_ms / 1000)
        if usage is None:
            return
        counts = {
            "prompt": usage.prompt,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "output": usage.output,
        }
        for kind, count in counts.items():
            if count is not None:  # what a provider does not say is not zero
                self._tokens.labels(*route, kind).inc(count)
        if usage.cost is not None:
            self._cost.labels(*route).inc(usage.cost.total)

    def boundary(self, boundary: Boundary) -> None:
        """Count a boundary; the first request of a session is none."""
        if boundary.cause == "first":
            return
        broken = (
            self._label("cause", boundary.cause),
            self._label("owner", boundary.owner),
            "true" if boundary.avoidable else "false",
        )
        self._boundaries.labels(*broken).inc()
        self._lost.labels(*broken).inc(max(boundary.tokens_lost, 0))
        if boundary.price is not None:
            self._price.labels(*broken).inc(max(boundary.price, 0.0))

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
