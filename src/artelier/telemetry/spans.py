"""The adapter to OpenTelemetry: which span hangs below which. Read next: `calls.py`.

A step's span hangs below the current span if that lies in its run, so that spans of the caller's own stand
between; else (another task, a run that is kept open) below the span of its run.
"""

from __future__ import annotations

import asyncio
from contextvars import Token
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, TracerProvider, set_span_in_context

from artelier.ids import VERSION
from artelier.ports.telemetry import ModelFacts, RunFacts, ToolFacts
from artelier.telemetry import conventions
from artelier.telemetry.calls import (
    CALL,
    Attributes,
    Instruments,
    ModelCallSpan,
    OpenTelemetryCallSpan,
    SpanPlace,
    ToolCallSpan,
    failed_with,
)

RUN = otel.create_key("artelier-run")
"""In a context: the opening of a run that its current span lies in."""

EVENTS_MAX = 100
"""Replayed steps of a run that are named; the others are counted. The SDK keeps 128 events of a span."""


class _RunOpening:
    """One opening of a run, with its span."""

    def __init__(self, span: Span, parent: Context, shared: Attributes) -> None:
        self.span = span
        self.shared = shared
        """Attributes that its calls have too."""
        self.context = otel.set_value(RUN, self, set_span_in_context(span, parent))
        self.calls: set[OpenTelemetryCallSpan] = set()
        """Those without an outcome yet."""
        self.replayed = 0
        self.is_closed = False
        self.task: asyncio.Task[Any] | None = None
        self.token: Token[Context] | None = None
        """Makes it current in `task`."""


class OpenTelemetry:
    """Runs as spans and metrics of OpenTelemetry.

    Without providers it takes the process's own, which do nothing unless the host has set them.
    `content=True` adds messages, arguments and results, bounded in size; they may hold anything.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer(conventions.SCOPE, VERSION, tracer_provider)
        self._instruments = Instruments(metrics.get_meter(conventions.SCOPE, VERSION, meter_provider))
        self._content = content
        self._openings: WeakKeyDictionary[object, _RunOpening] = WeakKeyDictionary()

    def loop_lagged(self, seconds: float) -> None:
        self._instruments.lag.record(seconds)

    def run_opened(self, run: object, facts: RunFacts) -> None:
        parent = otel.get_current()
        above = self._openings.get(facts.parent) if facts.parent is not None else None
        if above is not None and otel.get_value(RUN, parent) is not above:
            parent = above.context
        shared: Attributes = {conventions.CONVERSATION_ID: facts.run_id, conventions.TENANT: facts.tenant}
        agent = conventions.short(facts.agent)
        if agent:
            shared[conventions.AGENT_NAME] = agent
        attributes: Attributes = {**shared, conventions.OPERATION: conventions.INVOKE_AGENT}
        if facts.loop:
            attributes[conventions.LOOP] = conventions.short(facts.loop)
        if facts.is_resumed:
            attributes[conventions.RESUMED] = True
        if facts.is_replayed:
            attributes[conventions.REPLAYED] = True
        name = f"{conventions.INVOKE_AGENT} {agent}" if agent else conventions.INVOKE_AGENT
        span = self._tracer.start_span(name, context=parent, kind=SpanKind.INTERNAL, attributes=attributes)
        opening = self._openings[run] = _RunOpening(span, parent, shared)
        if not facts.is_detached:
            opening.task = _current_task()
            opening.token = otel.attach(opening.context)

    def run_closed(self, run: object, *, status: str, code: str = "") -> None:
        opening = self._openings.pop(run, None)
        if opening is None:
            return
        opening.is_closed = True
        _leave()
        for call in tuple(opening.calls):
            call.failed("unfinished")  # a call without an outcome ends with its run
        span = opening.span
        span.set_attribute(conventions.STATUS, status)
        if opening.replayed:
            span.set_attribute(conventions.STEPS_REPLAYED, opening.replayed)
        if code:
            failed_with(span, code)
        span.end()

    def step_replayed(self, run: object, *, operation: str, key: str, code: str = "") -> None:
        opening = self._openings.get(run)
        if opening is None:
            return
        opening.replayed += 1
        if opening.replayed > EVENTS_MAX:
            return
        told: Attributes = {
            conventions.OPERATION: operation,
            conventions.STEP_KEY: conventions.short(key),
            conventions.REPLAYED: True,
        }
        if code:
            told[conventions.ERROR_TYPE] = conventions.short(code)
        opening.span.add_event(conventions.EVENT_REPLAYED, told)

    def model_call(self, run: object, facts: ModelFacts) -> ModelCallSpan:
        return ModelCallSpan(facts, shows_content=self._content, place=self._place(run))

    def tool_call(self, run: object, facts: ToolFacts) -> ToolCallSpan:
        return ToolCallSpan(facts, shows_content=self._content, place=self._place(run))

    def _place(self, run: object) -> SpanPlace:
        """Return where a call belongs that begins now."""
        context, opening = otel.get_current(), self._openings.get(run)
        call = otel.get_value(CALL, context)
        if isinstance(call, OpenTelemetryCallSpan) and call.is_ended:
            context = call.place.context  # it was interrupted, and this is the same call once more
        if opening is not None and otel.get_value(RUN, context) is not opening:
            context = opening.context
        return SpanPlace(
            tracer=self._tracer,
            instruments=self._instruments,
            context=context,
            shared=opening.shared if opening is not None else {},
            open_calls=opening.calls if opening is not None else set(),
        )


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _leave() -> None:
    """Take closed runs out of the current context, if it was this task that they were opened in."""
    task = _current_task()
    while isinstance(top := otel.get_value(RUN), _RunOpening):
        if not top.is_closed or top.token is None or top.task is not task:
            return
        token, top.token = top.token, None
        otel.detach(token)
