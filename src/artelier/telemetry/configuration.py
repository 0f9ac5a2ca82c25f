"""The values for `telemetry=` of `Kernel.open`. Imports opentelemetry only where it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.errors import InvalidRequest
from artelier.ports.telemetry import Telemetry
from artelier.telemetry.safe_wrapper import GuardedTelemetry

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
    from artelier.telemetry.spans import OpenTelemetry

    content = environ.get(CONTENT, "").strip().lower() in ("1", "true", "yes", "on")
    if given is True:
        return GuardedTelemetry(OpenTelemetry(content=content))
    tracers, meters = _providers(given)
    return GuardedTelemetry(OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=content))


def _providers(given: object) -> tuple[Any, Any]:
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
