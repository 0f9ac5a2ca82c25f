"""The content of a script for one call of a model, and its conversion to a `ModelReply`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from artelier.errors import InvalidRequest
from artelier.models.output import output_text, parse_output
from artelier.ports.model import ModelReply, ModelRequest, ToolCall, Usage

PlainStep: TypeAlias = ModelReply | str | Mapping[str, Any] | ToolCall | Sequence[ToolCall]
"""A step that is a reply already."""

Step: TypeAlias = PlainStep | BaseException | type[BaseException] | Callable[[ModelRequest], Any]
"""A `PlainStep`, an exception to raise, or a function (plain or async) of the request to a step."""

_NO_USAGE = ModelReply().usage
# msgspec shares one default instance, so a reply whose usage *is* this one was given none.

_EXPECTED = (
    "a ModelReply, a str, a dict, tool_call(...), a list of tool_call(...), an exception, "
    "or a function of the request that returns one of these"
)


def tool_call(name: str, args: Any = None, id: str | None = None) -> ToolCall:
    """A call of the tool `name`; without an id, it gets one that the request determines."""
    return ToolCall(id=id or "", name=name, arguments={} if args is None else args)


def reply_from(step: PlainStep) -> ModelReply:
    """The reply that a plain step means; tool calls may still lack an id, usage may be unset.

    Errors: `InvalidRequest` for anything else.
    """
    if isinstance(step, ModelReply):
        return step
    if isinstance(step, str):
        return ModelReply(text=step)
    if isinstance(step, Mapping):
        output: dict[str, Any] = dict(step)
        return ModelReply(text=output_text(output), output=output)
    if isinstance(step, ToolCall):
        return ModelReply(tool_calls=(step,), finish_reason="tool_calls")
    if isinstance(cast(object, step), list | tuple):
        calls = tuple(step)
        if calls and all(isinstance(cast(object, call), ToolCall) for call in calls):
            return ModelReply(tool_calls=calls, finish_reason="tool_calls")
    raise InvalidRequest("not a step of a script", expected=_EXPECTED, got=repr(step)[:200])


def complete_reply(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """`reply` as a provider would send it: ids on its tool calls, parsed output, counted usage.

    All that is filled in is a function of the request, so a resumed process gets the same bytes.
    """
    calls = tuple(
        call if call.id else msgspec.structs.replace(call, id=_call_id(request, index))
        for index, call in enumerate(reply.tool_calls)
    )
    output = reply.output
    if output is None and request.output_schema is not None and not calls:
        output = parse_output(reply.text)
    finish = "tool_calls" if calls and reply.finish_reason == "stop" else reply.finish_reason
    usage = counted_usage(reply, request) if reply.usage is _NO_USAGE else reply.usage
    return ModelReply(text=reply.text, tool_calls=calls, output=output, usage=usage, finish_reason=finish)


def counted_usage(reply: ModelReply, request: ModelRequest) -> Usage:
    """A token per four characters, rounded up, of the canonical request and of what was answered.

    Output is capped at `max_output_tokens`, since no provider bills beyond it.
    """
    output = _quarter(len(reply.text) + sum(_length(call) for call in reply.tool_calls))
    cap = request.params.get("max_output_tokens")
    if isinstance(cap, int):
        output = min(output, cap)
    return Usage(input_tokens=_quarter(len(request.canonical().decode())), output_tokens=output)


def _quarter(chars: int) -> int:
    return -(-chars // 4)


def _length(call: ToolCall) -> int:
    return len(call.name) + len(output_text(call.arguments))


def _call_id(request: ModelRequest, index: int) -> str:
    return f"call_{hashlib.sha256(request.canonical()).hexdigest()[:12]}_{index}"
