"""OpenTelemetry: spans and metrics of runs, under the conventional GenAI names. Off unless asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    # Lazy, because `spans` and `export` import opentelemetry.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
