"""OpenTelemetry: spans and metrics of runs, under the conventional GenAI names. Off unless asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.telemetry.export import GuardedTelemetry, exporting, telemetry_of
    from artelier.telemetry.spans import OpenTelemetry

__all__ = ["GuardedTelemetry", "OpenTelemetry", "exporting", "telemetry_of"]

_HOMES = {
    "GuardedTelemetry": "export",
    "OpenTelemetry": "spans",
    "exporting": "export",
    "telemetry_of": "export",
}

# Lazy, because `spans` and `export` import opentelemetry.
__getattr__ = load_on_use(__name__, _HOMES)
