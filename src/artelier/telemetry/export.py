"""Sending spans and metrics from a process of our own, the command line.

OpenTelemetry's own variables hold (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, and so on).
A host that has set providers keeps them. In a library nothing here is called.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace

from artelier.errors import InvalidConfig
from artelier.ids import VERSION
from artelier.ports.telemetry import Telemetry
from artelier.telemetry.safe_wrapper import GuardedTelemetry
from artelier.telemetry.spans import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

_logger = logging.getLogger("artelier.telemetry")

FLUSH_S = 5.0
"""What a process waits at its end for a collector that does not answer."""

_EXPORTERS = {"otlp": "otlp_proto_http"}
"""What the SDK's plugins call an exporter, where it is not the word of the variable."""


@contextmanager
def exporting(*, environ: Mapping[str, str], content: bool = False) -> Generator[Telemetry]:
    """A watcher whose spans and metrics are sent while the block runs, and the last of them at its end.

    Errors: `InvalidConfig` if the SDK or an exporter is not installed.
    """
    ends: list[Callable[[], object]] = []
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        ends += _set_up(environ)
    try:
        yield GuardedTelemetry(OpenTelemetry(content=content))
    finally:
        _within(FLUSH_S, ends)


def _set_up(environ: Mapping[str, str]) -> list[Callable[[], object]]:
    """Set the process's providers; how to end them. The host's own tools and clients then join."""
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise _missing("the OpenTelemetry SDK") from None
    resource = _resource(environ)
    exporters = [
        _exporter(signal, environ) for signal in ("traces", "metrics")
    ]  # before anything is set: both are there, or nothing is changed
    spans, measured = exporters
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if spans is not None:
        tracers.add_span_processor(BatchSpanProcessor(spans))
    readers = [] if measured is None else [PeriodicExportingMetricReader(measured)]
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(meters)
    return [tracers.shutdown, meters.shutdown]


def _resource(environ: Mapping[str, str]) -> Resource:
    from opentelemetry.sdk.resources import Resource

    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if named else {"service.name": "artelier", "service.version": VERSION})


def _exporter(signal: str, environ: Mapping[str, str]) -> Any:
    """The exporter that `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER` names; None for `none`."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = environ.get(variable, "").strip() or "otlp"
    if name == "none":
        return None
    plugin = _EXPORTERS.get(name, name)
    found = tuple(entry_points(group=f"opentelemetry_{signal}_exporter", name=plugin))
    if not found:
        raise _missing(f"the exporter {name[:80]!r} ({variable})")
    try:
        kind: Callable[..., Any] = found[0].load()
    except ImportError:
        raise _missing(f"the exporter {name[:80]!r} ({variable})") from None
    return kind(out=sys.stderr) if name == "console" else kind()


def _missing(what: str) -> InvalidConfig:
    return InvalidConfig(
        f"telemetry is on, and {what} is not installed",
        hint="pip install 'artelier[otel]', or turn it off: ARTELIER_OTEL=0.",
    )


def _within(seconds: float, ends: list[Callable[[], object]]) -> None:
    """Flush and stop, at the same time, in threads that may be left behind."""
    threads = [threading.Thread(target=_end, args=(end,), daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds / len(threads))
    if any(thread.is_alive() for thread in threads):
        _logger.warning("the last spans or metrics were not sent: no answer in %s s", seconds)


def _end(end: Callable[[], object]) -> None:
    try:
        end()
    except Exception as error:  # of an exporter: the work is done, and nobody waits for this
        _logger.warning("telemetry could not be ended (%s)", type(error).__name__)
