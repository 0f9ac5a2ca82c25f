"""What a collector would see: the SDK's own exporters in memory, and questions to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Watch:
    """Providers of a test's own; hand `pair` to `Kernel.open(telemetry=...)`."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.pair = (self.tracers, self.meters)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Those that have ended, in that order."""
        return self._exporter.get_finished_spans()

    def forget(self) -> None:
        self._exporter.clear()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        found = self.named(name)
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]

    def parent_of(self, span: ReadableSpan) -> ReadableSpan | None:
        """None for a root. Every parent must have been exported."""
        if span.parent is None:
            return None
        found = [s for s in self.spans if _id(s) == span.parent.span_id]
        assert len(found) == 1, f"the parent of {span.name} was never exported"
        return found[0]

    def path(self, span: ReadableSpan) -> list[str]:
        """Names from the root down to a span."""
        above = self.parent_of(span)
        return [*(self.path(above) if above is not None else []), span.name]

    def points(self, metric: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]

    def everything(self) -> str:
        """All that left the process, as text."""
        spans = "\n".join(span.to_json() for span in self.spans)
        data = self._reader.get_metrics_data()
        return spans + (data.to_json() if data is not None else "")


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def failure(span: ReadableSpan) -> str | None:
    """The stable code of what went wrong; the status must agree."""
    code = facts(span).get("error.type")
    assert span.status.is_ok == (code is None)
    assert span.status.description is None
    return code


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id
