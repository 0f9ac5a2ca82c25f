"""Spans of single calls, with the metrics that they end in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from artelier.ports.model import ModelReply, ModelRequest, Usage
from artelier.ports.telemetry import ModelFacts, ToolFacts
from artelier.telemetry import conventions

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
