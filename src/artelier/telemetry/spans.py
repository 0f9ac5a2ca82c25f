"""The adapter to OpenTelemetry: which span hangs below which.

A step's span hangs below the current span if that lies in its run, so that spans of the caller's own stand
between; else (another task, a run that is kept open) below the span of its run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter, MeterProvider
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from artelier.ids import VERSION
from artelier.ports.model import ModelReply, ModelRequest, Usage
from artelier.ports.telemetry import ModelFacts, ResponseFacts, RunFacts, ToolFacts
from artelier.telemetry import conventions

# --------------------------------------------------------------------------- calls
# Spans of single calls, with the metrics that they end in.

Attributes = dict[str, AttributeValue]

CALL = otel.create_key("artelier-call")
"""In a context: the call that its current span is of."""


class Instruments:
    """The instruments that measure, over all runs."""

    def __init__(self, meter: Meter) -> None:
        self.duration: Histogram = meter.create_histogram(
            conventions.DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=conventions.DURATION_BUCKETS_S,
        )
        self.first_chunk: Histogram = meter.create_histogram(
            conventions.FIRST_CHUNK,
            unit="s",
            description="Time to receive the first chunk of a response.",
            explicit_bucket_boundaries_advisory=conventions.DURATION_BUCKETS_S,
        )
        self.tool_duration: Histogram = meter.create_histogram(
            conventions.TOOL_DURATION,
            unit="s",
            description="Duration of tool executions.",
            explicit_bucket_boundaries_advisory=conventions.DURATION_BUCKETS_S,
        )
        self.tokens: Histogram = meter.create_histogram(
            conventions.TOKEN_USAGE,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=conventions.TOKEN_BUCKETS,
        )
        self.lag: Histogram = meter.create_histogram(
            conventions.LOOP_LAG,
            unit="s",
            description="How much later than asked a server's event loop does what is due.",
            explicit_bucket_boundaries_advisory=conventions.LAG_BUCKETS_S,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPlace:
    """The place of a call."""

    tracer: Tracer
    instruments: Instruments
    context: Context
    """What its span hangs in."""
    shared: Mapping[str, AttributeValue]
    """Attributes of its run."""
    open_calls: set[OpenTelemetryCallSpan]
    """Calls of its run that have no outcome yet."""


class OpenTelemetryCallSpan:
    """One span at a time, in its place."""

    kind = SpanKind.INTERNAL

    def __init__(self, name: str, *, place: SpanPlace, attributes: Attributes, measured: Attributes) -> None:
        self.place = place
        self._name = name
        self._attributes: Attributes = {**place.shared, **measured, **attributes}
        self._measured = measured
        """Attributes of its metrics too: few values each."""
        self._token: Token[Context] | None = None
        self._start()

    def _start(self) -> None:
        place = self.place
        self.is_ended = False
        self._cost = 0  # of its attempts that another one followed, in micro-dollars
        self._began_s = time.perf_counter()
        self.span: Span = place.tracer.start_span(
            self._name, context=place.context, kind=self.kind, attributes=self._attributes
        )
        self.context = otel.set_value(CALL, self, set_span_in_context(self.span, place.context))
        place.open_calls.add(self)

    def __enter__(self) -> object:
        self._token = otel.attach(self.context)
        return self

    def __exit__(self, *_: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            otel.detach(token)

    def retried(self, *, attempt: int, code: str, wait_s: float, cost_microusd: int = 0) -> None:
        told: Attributes = {
            conventions.ATTEMPT: attempt,
            conventions.ERROR_TYPE: conventions.short(code),
            conventions.WAIT_S: wait_s,
        }
        if cost_microusd:
            told[conventions.COST] = cost_microusd
            self._cost += cost_microusd
        self.span.add_event(conventions.EVENT_RETRIED, told)

    def failed(self, code: str, *, usage: Usage | None = None, cost_microusd: int = 0) -> None:
        if self.is_ended:
            return
        if usage is not None:
            self._used(usage)
        if cost := self._cost + cost_microusd:
            self.span.set_attribute(conventions.COST, cost)
        self._end(code)

    def left(self, status: str) -> None:
        if self.is_ended:
            return
        self.span.set_attribute(conventions.STATUS, status)
        self._end("")

    def _used(self, usage: Usage) -> None:
        self.span.set_attributes(
            {
                conventions.INPUT_TOKENS: usage.input_tokens,
                conventions.OUTPUT_TOKENS: usage.output_tokens,
                conventions.CACHE_READ_TOKENS: usage.cached_input_tokens,
                conventions.CACHE_WRITE_TOKENS: usage.cache_write_input_tokens,
            }
        )
        if usage.reasoning_tokens:
            self.span.set_attribute(conventions.REASONING_TOKENS, usage.reasoning_tokens)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            told: Attributes = {**self._measured, conventions.TOKEN_TYPE: kind}
            self.place.instruments.tokens.record(count, told, self.context)

    def _duration(self) -> Histogram:
        return self.place.instruments.duration

    def _end(self, code: str) -> None:
        self.is_ended = True
        self.place.open_calls.discard(self)
        told = self._measured
        if code:
            failed_with(self.span, code)
            told = {**told, conventions.ERROR_TYPE: conventions.short(code)}
        self._duration().record(time.perf_counter() - self._began_s, told, self.context)
        self.span.end()


def failed_with(span: Span, code: str) -> None:
    """Only the code: the message of an error may quote what was said."""
    span.set_attribute(conventions.ERROR_TYPE, conventions.short(code))
    span.set_status(Status(StatusCode.ERROR))


class ModelCallSpan(OpenTelemetryCallSpan):
    """`chat {model}`; one for each time the request is sent anew, not for retries."""

    kind = SpanKind.CLIENT

    def __init__(self, facts: ModelFacts, *, place: SpanPlace, shows_content: bool) -> None:
        provider, model = conventions.provider_and_model(facts.model)
        measured: Attributes = {
            conventions.OPERATION: conventions.CHAT,
            conventions.PROVIDER: provider,
            conventions.REQUEST_MODEL: model,
        }
        attributes = {
            conventions.STEP_KEY: conventions.short(facts.key),
            **_request_attributes(facts.request),
        }
        self._shows_content = shows_content
        if shows_content:
            messages, omitted = conventions.input_messages(facts.request)
            attributes[conventions.INPUT_MESSAGES] = messages
            attributes[conventions.OMITTED] = omitted
        super().__init__(f"{conventions.CHAT} {model}", place=place, attributes=attributes, measured=measured)

    def asked_again(self) -> None:
        if self.is_ended:
            self._start()

    def responded(self, facts: ResponseFacts) -> None:
        if self.is_ended:
            return
        told: Attributes = {}
        if facts.id:
            told[conventions.RESPONSE_ID] = conventions.short(facts.id)
        if facts.model:
            told[conventions.RESPONSE_MODEL] = conventions.short(facts.model)
        if facts.first_piece_s is not None:
            told[conventions.FIRST_CHUNK_S] = facts.first_piece_s
            self.place.instruments.first_chunk.record(facts.first_piece_s, self._measured, self.context)
        self.span.set_attributes(told)

    def completed(self, reply: ModelReply, /, *, cost_microusd: int, code: str = "") -> None:
        if self.is_ended:
            return
        self._used(reply.usage)
        reason = conventions.short(reply.finish_reason)
        cost = self._cost + cost_microusd
        self.span.set_attributes({conventions.FINISH_REASONS: (reason,), conventions.COST: cost})
        if self._shows_content:
            self.span.set_attribute(conventions.OUTPUT_MESSAGES, conventions.output_message(reply))
        self._end(code)


def _request_attributes(request: ModelRequest) -> Attributes:
    """The parameters of a request that are numbers."""
    told: Attributes = {}
    for parameter, name in (
        ("max_output_tokens", conventions.REQUEST_MAX_TOKENS),
        ("temperature", conventions.REQUEST_TEMPERATURE),
        ("top_p", conventions.REQUEST_TOP_P),
        ("seed", conventions.REQUEST_SEED),
    ):
        if isinstance(value := request.params.get(parameter), int | float):
            told[name] = value
    if request.output_schema is not None:
        told[conventions.OUTPUT_TYPE] = "json"
    return told


class ToolCallSpan(OpenTelemetryCallSpan):
    """`execute_tool {name}`; retries inside are events."""

    def __init__(self, facts: ToolFacts, *, place: SpanPlace, shows_content: bool) -> None:
        name = conventions.short(facts.name or conventions.OTHER)
        measured: Attributes = {conventions.OPERATION: conventions.EXECUTE_TOOL, conventions.TOOL_NAME: name}
        attributes: Attributes = {
            conventions.TOOL_TYPE: "function",
            conventions.STEP_KEY: conventions.short(facts.key),
        }
        if facts.call_id:
            attributes[conventions.TOOL_CALL_ID] = conventions.short(facts.call_id)
        self._shows_content = shows_content
        if shows_content:
            attributes[conventions.TOOL_ARGUMENTS] = conventions.value(facts.arguments)
        super().__init__(
            f"{conventions.EXECUTE_TOOL} {name}", place=place, attributes=attributes, measured=measured
        )

    def _duration(self) -> Histogram:
        return self.place.instruments.tool_duration

    def completed(self, result: bytes, /, *, code: str = "") -> None:
        if self.is_ended:
            return
        if self._shows_content:
            self.span.set_attribute(conventions.TOOL_RESULT, conventions.value(result))
        self._end(code)


RUN = otel.create_key("artelier-run")
"""In a context: the opening of a run that its current span lies in."""

EVENTS_MAX = 100
"""Replayed steps of a run that are named; the others are counted. The SDK keeps 128 events of a span."""


class _RunOpening:
    """One opening of a run, with its span."""

    def __init__(self, span: Span, parent: Context, shared: Attributes, *, conversation: str) -> None:
        self.span = span
        self.conversation = conversation
        """Id of the chat that it belongs to; empty for none."""
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
        conversation = facts.conversation or (above.conversation if above is not None else "")
        shared: Attributes = {
            conventions.CONVERSATION_ID: conversation or facts.run_id,
            conventions.TENANT: facts.tenant,
        }
        if conversation:  # of a chat, whose turns are runs
            shared[conventions.RUN] = facts.run_id
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
        opening = self._openings[run] = _RunOpening(span, parent, shared, conversation=conversation)
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


def _current_task() -> asyncio.Task[object] | None:
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
