"""Ids of tool calls: a result answers its call by this id, so none is empty or stands twice in a prompt."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from artelier.kernel.prompt.request_identity import MeasuredRequest
from artelier.ports.model import ModelReply, ToolCall


def with_call_ids(reply: ModelReply, *, run_id: str, key: str, asked: MeasuredRequest) -> ModelReply:
    """Return the reply with an id of its own for each call.

    `asked` is what the model was sent. An id stays as the port gave it unless it is empty or taken;
    the new one is made of the run, the step and the call's place, so that it is the same in any process.
    """
    ids = {call.id for call in reply.tool_calls if call.id.strip()}
    if len(ids) == len(reply.tool_calls) and not any(map(asked.may_hold, ids)):
        return reply
    taken = {call.id for message in asked.request.messages for call in message.tool_calls}
    calls: list[ToolCall] = []
    for place, call in enumerate(reply.tool_calls):
        if not call.id.strip() or call.id in taken:
            call = msgspec.structs.replace(call, id=_made_id(run_id, key, place))
        taken.add(call.id)
        calls.append(call)
    if tuple(calls) == reply.tool_calls:
        return reply
    return msgspec.structs.replace(reply, tool_calls=tuple(calls))


def _made_id(run_id: str, key: str, place: int) -> str:
    """Return an id whose characters and length every provider accepts."""
    digest = sha256(f"{len(run_id)}:{run_id}{key}\0{place}".encode()).hexdigest()
    return f"call_{digest[:24]}"
