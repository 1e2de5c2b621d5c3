"""Figures for OpenTelemetry and Prometheus, read back from the real SDKs."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import BaseServer
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import unipi_diagnostics as plugin
from unipi.testing import lab
from unipi_diagnostics.exporters import Exporters, Labels
from unipi_diagnostics.otel import OtelExporter, connect
from unipi_diagnostics.prometheus import PrometheusExporter
from unipi_hookspecs import (
    Boundary,
    Cost,
    EpochBoundaryEvent,
    ProviderResponseEndEvent,
    RequestInfo,
    SessionStartEvent,
    Usage,
)

SECRET = "sk-planted-in-an-error-1234567890"
INFO = RequestInfo("r1", 0, "turn", "mistral", "openai-chat-completions", "big", 3)


def answer(usage=None, *, stop_reason="stop", info=INFO, error=None):
    return ProviderResponseEndEvent(info, usage, stop_reason, "resp-1", error, 1_500.0)


def usage(**fields):
    given = {"input": 10, "output": 5, "cache_read": 100, "cache_write": 20}
    return Usage(**{**given, **fields})


def boundary(**fields):
    given = {"number": 2, "cause": "tools", "owner": "careless", "avoidable": True}
    return Boundary(**{**given, "tokens_lost": 700, "price": 0.25, **fields})


class Sdk:
    """An application's SDK that keeps what it is given in memory."""

    def __init__(self):
        self.memory, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.memory))
        self.exporter = OtelExporter(tracers, MeterProvider([self.reader]), owned=True)

    @property
    def span(self):
        (span,) = self.memory.get_finished_spans()
        return span

    def points(self):
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def values(self):
        return {
            name: points[0].value
            for name, points in self.points().items()
            if "duration" not in name
        }


@pytest.fixture
def sdk():
    made = Sdk()
    yield made
    made.exporter.close()


@pytest.fixture(autouse=True)
def quick_end(monkeypatch):
    """A server looks every half second whether it shall end; here there are many of them."""
    monkeypatch.setattr(BaseServer.serve_forever, "__defaults__", (0.01,))


@pytest.fixture
def prometheus():
    exporter = PrometheusExporter(0)
    yield exporter
    exporter.close()


def scraped(exporter):
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=5) as response:
        lines = response.read().decode().splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"
    }


# OpenTelemetry.


def test_an_answer_is_a_client_span_with_usage_by_the_genai_conventions(sdk):
    sdk.exporter.response(answer(usage()), "session-1")
    span = sdk.span
    assert (span.name, span.kind) == ("chat big", SpanKind.CLIENT)
    assert span.end_time - span.start_time == 1_500_000_000
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "big",
        "gen_ai.usage.input_tokens": 130,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.cache_write.input_tokens": 20,
        "gen_ai.conversation.id": "session-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "unipi.purpose": "turn",
        "unipi.api": "openai-chat-completions",
        "unipi.epoch": 3,
        "unipi.attempt": 0,
    }


def test_tokens_are_counted_with_the_cache_s_share_beside_the_whole(sdk):
    sdk.exporter.response(answer(usage()), "s")
    sdk.exporter.response(answer(usage()), "s")
    name = "gen_ai.client.inference.usage"
    assert sdk.values() == {
        f"{name}.input_tokens": 260,
        f"{name}.output_tokens": 10,
        f"{name}.cache_read.input_tokens": 200,
        f"{name}.cache_write.input_tokens": 40,
    }


def test_what_a_provider_does_not_report_is_not_told_as_zero(sdk):
    sdk.exporter.response(answer(usage(cache_read=None, cache_write=None)), "s")
    assert not [name for name in sdk.values() if "cache" in name]
    assert not [name for name in sdk.span.attributes if "cache" in name]


def test_a_duration_is_in_seconds(sdk):
    sdk.exporter.response(answer(), "s")
    (point,) = sdk.points()["gen_ai.client.operation.duration"]
    assert (point.count, point.sum) == (1, 1.5)


def test_a_failed_answer_is_an_error_without_its_words(sdk):
    sdk.exporter.response(answer(stop_reason="error", error=f"key {SECRET}"), "s")
    assert sdk.span.status.status_code == StatusCode.ERROR
    assert sdk.span.attributes["error.type"] == "error"
    assert SECRET not in sdk.span.to_json()


def test_boundaries_are_counted_by_cause_and_owner(sdk):
    sdk.exporter.boundary(boundary(cause="first"))
    sdk.exporter.boundary(boundary())
    assert sdk.values() == {"unipi.cache.boundaries": 1, "unipi.cache.boundary.lost_tokens": 700}
    (point,) = sdk.points()["unipi.cache.boundaries"]
    assert dict(point.attributes) == {
        "unipi.boundary.cause": "tools",
        "unipi.boundary.owner": "careless",
        "unipi.boundary.avoidable": True,
    }


def test_without_an_sdk_of_the_application_otlp_goes_where_its_variables_say(monkeypatch):
    received = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received[self.path] = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        exporter = connect()
        exporter.response(answer(usage(), stop_reason="error", error=SECRET), "session-1")
        exporter.boundary(boundary(detail=SECRET))
        exporter.close()
        server.shutdown()
        thread.join()
    assert set(received) == {"/v1/traces", "/v1/metrics"}
    assert b"gen_ai.usage.cache_read.input_tokens" in received["/v1/traces"]
    assert b"careless" in received["/v1/metrics"]
    assert not [path for path, body in received.items() if SECRET.encode() in body]


# Prometheus.


def test_prometheus_reads_tokens_costs_and_boundaries_on_loopback(prometheus):
    cost = Cost(0.1, 0.1, 0.1, 0.2)
    prometheus.response(answer(usage(cost=cost)), "s")
    prometheus.boundary(boundary())
    prometheus.boundary(boundary(cause="first"))
    figures = scraped(prometheus)
    route = 'model="big",provider="mistral",purpose="turn"'
    by = '{avoidable="true",cause="tools",owner="careless"}'
    assert figures[f'unipi_tokens_total{{kind="prompt",{route}}}'] == 130
    assert figures[f'unipi_tokens_total{{kind="cache_read",{route}}}'] == 100
    assert figures[f'unipi_tokens_total{{kind="cache_write",{route}}}'] == 20
    assert figures[f"unipi_cost_usd_total{{{route}}}"] == pytest.approx(0.5)
    assert figures[f"unipi_request_seconds_sum{{{route}}}"] == 1.5
    assert figures[f"unipi_boundaries_total{by}"] == 1
    assert figures[f"unipi_boundary_lost_tokens_total{by}"] == 700
    assert figures[f"unipi_boundary_cost_usd_total{by}"] == 0.25


def test_it_listens_on_loopback_alone(prometheus):
    assert prometheus._server.server_address[0] == "127.0.0.1"


def test_a_failed_answer_is_counted_by_its_outcome_without_its_words(prometheus):
    prometheus.response(answer(stop_reason="aborted", error=SECRET), "s")
    figures = scraped(prometheus)
    assert [n for n in figures if n.startswith("unipi_requests_total") and 'outcome="aborted"' in n]
    assert SECRET not in str(figures)


# Names as labels.


@pytest.mark.parametrize("name", ["two words", "a\nb", "x" * 97, "", 'quote"', "é"])
def test_what_is_no_plain_name_is_other(name):
    assert Labels()("cause", name) == "other"


def test_a_plugin_that_makes_up_causes_costs_no_more_than_200_of_them():
    label = Labels()
    assert len({label("cause", f"cause-{n}") for n in range(1_000)}) == 201
    assert label("cause", "cause-7") == "cause-7"
    assert label("owner", "cause-999") == "cause-999"


# Switching them on.


@pytest.fixture
def told(monkeypatch):
    """The plugin with no exporter on, and the warnings that it logs."""
    monkeypatch.setattr(plugin, "_exporters", None)
    lines = []
    log = SimpleNamespace(warning=lambda event, **values: lines.append((event, values)))
    yield SimpleNamespace(lines=lines, log=log)
    if plugin._exporters is not None:
        plugin._exporters.close()


def context(told, **settings):
    session = SimpleNamespace(id="s")
    return SimpleNamespace(session=session, settings=settings, log=told.log, cache_state=None)


def test_nothing_is_imported_while_they_are_off():
    code = (
        "import sys, types, unipi_diagnostics as p\n"
        "ctx = types.SimpleNamespace(session=types.SimpleNamespace(id='s'), settings={})\n"
        "assert p.session_start(None, ctx) is None\n"
        "print([m for m in sys.modules if 'exporters' in m or 'prometheus' in m or 'opentel' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_the_plugin_s_settings_switch_prometheus_on_once_for_all_sessions(told):
    ctx = context(told, prometheus={"port": 0})
    await plugin.session_start(SessionStartEvent("startup"), ctx)
    assert plugin.session_start(SessionStartEvent("new"), ctx) is None
    plugin.provider_response_end(answer(usage()), ctx)
    plugin.epoch_boundary(EpochBoundaryEvent(boundary()), ctx)
    figures = scraped(plugin._exporters._on["prometheus"])
    assert sum(v for n, v in figures.items() if n.startswith("unipi_requests_total")) == 1
    assert sum(v for n, v in figures.items() if n.startswith("unipi_boundaries_total")) == 1
    assert told.lines == []


@pytest.mark.parametrize(
    "value", [{"host": "0.0.0.0"}, {"port": 70_000}, {"port": True}, "9464", 3]
)
async def test_a_wrong_setting_is_told_and_the_session_goes_on(told, value):
    await plugin.session_start(SessionStartEvent("startup"), context(told, prometheus=value))
    ((event, values),) = told.lines
    assert "settings.json" in event
    assert "9464" in values["error"]


async def test_a_port_that_is_taken_is_told_and_the_session_goes_on(told, prometheus):
    ctx = context(told, prometheus={"port": prometheus.port})
    await plugin.session_start(SessionStartEvent("startup"), ctx)
    ((event, values),) = told.lines
    assert "could not be started" in event
    assert values["exporter"] == "prometheus"


async def test_an_exporter_that_is_not_installed_names_the_extra(told, monkeypatch):
    monkeypatch.delitem(sys.modules, "unipi_diagnostics.prometheus")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    await Exporters().switch_on(context(told, prometheus=True))
    ((event, _),) = told.lines
    assert "unipi-diagnostics[otel]" in event


async def test_in_a_host_each_answer_of_a_session_is_counted_once(told, tmp_path):
    from attrs import evolve

    from unipi.sim import Say
    from unipi.testing.lab import host

    prepared = host(tmp_path, [("diagnostics", plugin)])
    prepared = evolve(prepared, settings={"diagnostics": {"prometheus": {"port": 0}}})
    async with lab(tmp_path, [[Say("one")], [Say("two")]], prepared=prepared) as it:
        await it.agent.prompt("first")
        await it.agent.prompt("second")
        figures = scraped(plugin._exporters._on["prometheus"])
    assert sum(v for n, v in figures.items() if n.startswith("unipi_requests_total")) == 2
    read = sum(v for n, v in figures.items() if "tokens_total" in n and "cache_read" in n)
    assert read == sum(request.cached_tokens for request in it.requests)
