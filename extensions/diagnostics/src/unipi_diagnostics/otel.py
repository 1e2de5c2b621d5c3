"""Spans and metrics by OpenTelemetry's conventions for generative AI.

Names are those of open-telemetry/semantic-conventions-genai as of December 2026 (status: development):
token counters `gen_ai.client.inference.usage.*`, whose cache counters are part of `input_tokens`, and
span attributes `gen_ai.usage.*`. What no convention covers is named `unipi.*`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import SpanKind, Status, StatusCode

from .exporters import Labels

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from unipi_hookspecs import Boundary, ProviderResponseEndEvent, Usage

SCOPE: Final = "unipi_diagnostics"
_TIMEOUT = 5.0
"""Seconds that a collector may take, at the end of the process too."""

# Where the convention's well-known name of a provider differs from ours.
_PROVIDERS = {"mistral": "mistral_ai", "xai": "x_ai", "moonshot": "moonshot_ai"}

# Bounds that the convention advises for durations, in seconds.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

_COUNTERS = {
    "input_tokens": "Prompt tokens, cached ones included.",
    "output_tokens": "Tokens of answers, reasoning included.",
    "cache_read.input_tokens": "Prompt tokens read from the provider's cache.",
    "cache_write.input_tokens": "Prompt tokens written to the provider's cache.",
}


class OtelExporter:
    """One span an answer, counters of tokens, and counters of boundaries by cause and owner."""

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, *, owned: bool = False
    ) -> None:
        """Take the providers of an application's SDK; `owned` ones are shut down on `close`."""
        self._label = Labels()
        self._providers = (tracers, meters) if owned else ()
        self._tracer = tracers.get_tracer(SCOPE)
        meter = meters.get_meter(SCOPE)
        self._tokens = {
            name: meter.create_counter(f"gen_ai.client.inference.usage.{name}", "{token}", text)
            for name, text in _COUNTERS.items()
        }
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "From request to the end of the answer.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._boundaries = meter.create_counter(
            "unipi.cache.boundaries", "{boundary}", "Cache epochs that ended."
        )
        self._lost = meter.create_counter(
            "unipi.cache.boundary.lost_tokens", "{token}", "Tokens to be read again for them."
        )

    def response(self, event: ProviderResponseEndEvent, session_id: str) -> None:
        """Tell of one answer, failed ones included."""
        info = event.info
        shared = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._label(
                "provider", _PROVIDERS.get(info.provider, info.provider)
            ),
            "gen_ai.request.model": self._label("model", info.model),
        }
        outcome = {"error.type": event.stop_reason} if _failed(event) else {}
        self._duration.record(event.duration_ms / 1000, {**shared, **outcome})
        used = _usage(event.usage)
        for name, count in used.items():
            self._tokens[name].add(count, {**shared, "gen_ai.token.modality": "unknown"})
        self._span(event, session_id, {**shared, **outcome}, used)

    def _span(
        self,
        event: ProviderResponseEndEvent,
        session_id: str,
        shared: dict[str, str],
        used: dict[str, int],
    ) -> None:
        info, end = event.info, time.time_ns()
        span = self._tracer.start_span(
            f"chat {shared['gen_ai.request.model']}",
            kind=SpanKind.CLIENT,
            start_time=end - int(event.duration_ms * 1e6),
            attributes={
                **shared,
                **{f"gen_ai.usage.{name}": count for name, count in used.items()},
                "gen_ai.conversation.id": session_id,
                "gen_ai.response.finish_reasons": (event.stop_reason,),
                "unipi.purpose": info.purpose,
                "unipi.api": self._label("api", info.api),
                "unipi.epoch": info.epoch,
                "unipi.attempt": info.attempt,
            },
        )
        if _failed(event):
            # Without a description: an error's text may quote what was sent.
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=end)

    def boundary(self, boundary: Boundary) -> None:
        """Count a boundary; the first request of a session is none."""
        if boundary.cause == "first":
            return
        attributes: dict[str, str | bool] = {
            "unipi.boundary.cause": self._label("cause", boundary.cause),
            "unipi.boundary.owner": self._label("owner", boundary.owner),
            "unipi.boundary.avoidable": boundary.avoidable,
        }
        self._boundaries.add(1, attributes)
        self._lost.add(max(boundary.tokens_lost, 0), attributes)

    def close(self) -> None:
        """Shut down the providers that are ours; what is left is sent."""
        for provider in self._providers:
            shut = getattr(provider, "shutdown", None)
            if shut is not None:
                shut()


def connect() -> OtelExporter:
    """An exporter over the application's SDK where it has set one up, else over one of our own.

    Ours sends OTLP over HTTP as the `OTEL_EXPORTER_OTLP_*` variables say (by default to
    http://localhost:4318), and what is left when the process ends. Raises ImportError without the
    SDK or its OTLP exporter.
    """
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeters
    from opentelemetry.sdk.trace import TracerProvider as SdkTracers

    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    if isinstance(tracers, SdkTracers) and isinstance(meters, SdkMeters):
        return OtelExporter(tracers, meters)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "unipi"})
    own = SdkTracers(resource=resource)
    own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_TIMEOUT)))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=_TIMEOUT))
    return OtelExporter(own, SdkMeters([reader], resource=resource), owned=True)


def _failed(event: ProviderResponseEndEvent) -> bool:
    return event.stop_reason in ("error", "aborted")


def _usage(usage: Usage | None) -> dict[str, int]:
    """Reported counts alone: what a provider does not say is not zero."""
    if usage is None:
        return {}
    counts = {
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "cache_read.input_tokens": usage.cache_read,
        "cache_write.input_tokens": usage.cache_write,
    }
    return {name: count for name, count in counts.items() if count is not None}
