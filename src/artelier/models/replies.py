"""A vendor's response as a `ModelReply`. Imported only after a call was made."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from artelier.models.output import output_text, parse_arguments, parse_output
from artelier.models.request_mapper import OUTPUT_TOOL, WRAPPED, Output
from artelier.ports.model import ModelReply, ModelRequest, ToolCall, Usage, sending
from artelier.tokens.estimate import estimate_tokens

_FINISH = {"stop": "stop", "length": "length", "content_filter": "content_filter", "tool_call": "tool_calls"}


def reply_of(response: ModelResponse, *, request: ModelRequest, output: Output | None) -> ModelReply:
    """Return what the model answered. Reasoning is left out; a refusal is text with `content_filter`.

    Structured output that does not parse is None, with the text as it came: the caller judges it. A reply
    that calls tools has no output, whatever else it says.
    """
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    answers = [call for call in calls if output is not None and call.tool_name == OUTPUT_TOOL]
    wishes = tuple(
        ToolCall(id=call.tool_call_id, name=call.tool_name, arguments=_arguments(call))
        for call in calls
        if call not in answers
    )
    value: Any = None
    if output is not None and not wishes:
        value = _arguments(answers[0]) if answers else parse_output(text)
        if output.is_wrapped and isinstance(value, dict):
            value = cast(dict[str, Any], value).get(WRAPPED)
            text = output_text(value) if value is not None else text
        elif answers:
            text = output_text(value)
    refusal = (response.provider_details or {}).get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    return ModelReply(
        text=text,
        tool_calls=wishes,
        output=value,
        usage=_usage_of(response.usage, text=text, calls=wishes, request=request),
        finish_reason=_finish_of(response.finish_reason, has_calls=bool(wishes)),
    )


def _arguments(call: ToolCallPart) -> Any:
    if isinstance(call.args, str):
        return parse_arguments(call.args)
    return dict(call.args) if call.args else {}


def _finish_of(reason: str | None, *, has_calls: bool) -> str:
    if has_calls and reason in (None, "stop", "tool_call"):
        return "tool_calls"
    if reason in (None, "tool_call"):
        return "stop"
    return _FINISH.get(reason, "other")


def _usage_of(usage: RequestUsage, *, text: str, calls: tuple[ToolCall, ...], request: ModelRequest) -> Usage:
    """Counts as the provider gave them; where it gave none, an estimate, since no call is free."""
    input_tokens = max(0, usage.input_tokens)
    output_tokens = max(0, usage.output_tokens)
    if input_tokens == 0:
        input_tokens = estimate_tokens(request.canonical())
    if output_tokens == 0 and (text or calls):
        output_tokens = estimate_tokens(text) + sum(estimate_tokens(call.canonical()) for call in calls)
    if (input_tokens, output_tokens) != (usage.input_tokens, usage.output_tokens):
        if (sent := sending.get()) is not None:
            sent.is_counted = True
    cached_tokens = min(max(0, usage.cache_read_tokens), input_tokens)
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=cached_tokens,
        output_tokens=output_tokens,
        cache_write_input_tokens=min(max(0, usage.cache_write_tokens), input_tokens - cached_tokens),
    )
