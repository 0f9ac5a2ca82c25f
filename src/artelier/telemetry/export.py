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
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from opentelemetry import metrics, trace

from artelier.errors import InvalidConfig, InvalidRequest
from artelier.ids import VERSION
from artelier.ports.model import ModelReply, Usage
from artelier.ports.telemetry import (
    ModelFacts,
    ModelSpan,
    RespondedSpan,
    ResponseFacts,
    RunFacts,
    SilentSpan,
    Telemetry,
    ToolFacts,
    ToolSpan,
)
from artelier.telemetry.spans import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import TracerProvider


# --------------------------------------------------------------------------- safe wrapper
# A broken watcher never hurts a run: whatever it raises ends here, and is said once.
#
# This is the boundary to code that is not ours (samplers, processors, exporters), so it catches everything.

S = TypeVar("S", ModelSpan, ToolSpan)

_logger = logging.getLogger("artelier.telemetry")


class _Safely:
    """`with` this, and what is raised inside is logged, the first time; the message is not, it may quote."""

    def __init__(self) -> None:
        self._was_said = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if not self._was_said:
            self._was_said = True
            name = type(error).__name__
            _logger.warning("telemetry fails (%s); runs go on, this is said once", name)
        return True


class GuardedTelemetry:
    """Another watcher, whose errors stay its own."""

    def __init__(self, inner: Telemetry) -> None:
        self._inner = inner
        self._safely = _Safely()

    def run_opened(self, run: object, facts: RunFacts) -> None:
        with self._safely:
            self._inner.run_opened(run, facts)

    def run_closed(self, run: object, *, status: str, code: str = "") -> None:
        with self._safely:
            self._inner.run_closed(run, status=status, code=code)

    def step_replayed(self, run: object, *, operation: str, key: str, code: str = "") -> None:
        with self._safely:
            self._inner.step_replayed(run, operation=operation, key=key, code=code)

    def model_call(self, run: object, facts: ModelFacts) -> ModelSpan:
        with self._safely:
            return _GuardedModelSpan(self._inner.model_call(run, facts), self._safely)
        return SilentSpan()

    def tool_call(self, run: object, facts: ToolFacts) -> ToolSpan:
        with self._safely:
            return _GuardedToolSpan(self._inner.tool_call(run, facts), self._safely)
        return SilentSpan()


class _GuardedSpan(Generic[S]):
    def __init__(self, inner: S, safely: _Safely) -> None:
        self._inner: S = inner
        self._safely = safely

    def __enter__(self) -> object:
        with self._safely:
            self._inner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        with self._safely:
            self._inner.__exit__(None, None, None)

    def retried(self, *, attempt: int, code: str, wait_s: float, cost_microusd: int = 0) -> None:
        with self._safely:
            self._inner.retried(attempt=attempt, code=code, wait_s=wait_s, cost_microusd=cost_microusd)

    def failed(self, code: str, *, usage: Usage | None = None, cost_microusd: int = 0) -> None:
        with self._safely:
            self._inner.failed(code, usage=usage, cost_microusd=cost_microusd)

    def left(self, status: str) -> None:
        with self._safely:
            self._inner.left(status)


class _GuardedModelSpan(_GuardedSpan[ModelSpan]):
    def responded(self, facts: ResponseFacts) -> None:
        with self._safely:
            if isinstance(self._inner, RespondedSpan):
                self._inner.responded(facts)

    def asked_again(self) -> None:
        with self._safely:
            self._inner.asked_again()

    def completed(self, reply: ModelReply, /, *, cost_microusd: int, code: str = "") -> None:
        with self._safely:
            self._inner.completed(reply, cost_microusd=cost_microusd, code=code)


class _GuardedToolSpan(_GuardedSpan[ToolSpan]):
    def completed(self, result: bytes, /, *, code: str = "") -> None:
        with self._safely:
            self._inner.completed(result, code=code)


# --------------------------------------------------------------------------- configuration
# The values for `telemetry=` of `Kernel.open`. Imports opentelemetry only where it is wanted.


CONTENT = "ARTELIER_OTEL_CONTENT"
"""The variable that opts in to message content where no code says it."""


def telemetry_of(given: object, *, environ: Mapping[str, str]) -> Telemetry | None:
    """The watcher that was asked for, guarded; None for None and False.

    `given`: True for the process's own providers; a pair of a TracerProvider and a MeterProvider, or the
    first alone; or a `Telemetry`. Errors: `InvalidRequest`.
    """
    if given is None or given is False:
        return None
    if isinstance(given, GuardedTelemetry):
        return given
    if isinstance(given, Telemetry):
        return GuardedTelemetry(given)

    content = environ.get(CONTENT, "").strip().lower() in ("1", "true", "yes", "on")
    if given is True:
        return GuardedTelemetry(OpenTelemetry(content=content))
    tracers, meters = _providers(given)
    return GuardedTelemetry(OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=content))


def _providers(given: object) -> tuple[TracerProvider, MeterProvider | None]:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    pair = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given, None)
    if len(pair) == 2:
        tracers, meters = pair
        if isinstance(tracers, TracerProvider) and isinstance(meters, MeterProvider | None):
            return tracers, meters
    raise InvalidRequest(
        "telemetry",
        expected="True, a TracerProvider, a pair of a TracerProvider and a MeterProvider, or a Telemetry",
        got=", ".join(type(item).__name__ for item in pair)[:200],
    )


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
