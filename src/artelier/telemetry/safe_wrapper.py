"""A broken watcher never hurts a run: whatever it raises ends here, and is said once.

This is the boundary to code that is not ours (samplers, processors, exporters), so it catches everything.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from artelier.errors import InvalidRequest
from artelier.ports.model import ModelReply, Usage
from artelier.ports.telemetry import (
    ModelFacts,
    ModelSpan,
    RunFacts,
    SilentSpan,
    Telemetry,
    ToolFacts,
    ToolSpan,
)

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
