"""Names of spans, attributes and metrics: the GenAI conventions of OpenTelemetry, and a few of our own.

Source: https://github.com/open-telemetry/semantic-conventions-genai, as of November 2026. They are kept here
because their package counts them as experimental and moves them; only this file follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall

SCOPE: Final = "artelier"
"""Name of our tracer and meter."""

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_SEED: Final = "gen_ai.request.seed"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FIRST_CHUNK_S: Final = "gen_ai.response.time_to_first_chunk"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOKEN_TYPE: Final = "gen_ai.token.type"
ERROR_TYPE: Final = "error.type"

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

TENANT: Final = "artelier.tenant"
RUN: Final = "artelier.run"
STEP_KEY: Final = "artelier.step.key"
LOOP: Final = "artelier.loop"
STATUS: Final = "artelier.status"
RESUMED: Final = "artelier.resumed"
REPLAYED: Final = "artelier.replayed"
STEPS_REPLAYED: Final = "artelier.steps_replayed"
COST: Final = "artelier.cost_microusd"
ATTEMPT: Final = "artelier.attempt"
WAIT_S: Final = "artelier.wait_s"
OMITTED: Final = "artelier.content.omitted_messages"

EVENT_REPLAYED: Final = "artelier.step.replayed"
EVENT_RETRIED: Final = "artelier.call.retried"

DURATION: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"

LOOP_LAG: Final = "artelier.server.loop_lag"

DURATION_BUCKETS_S: Final = tuple(0.01 * 2**n for n in range(14))
LAG_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
TOKEN_BUCKETS: Final = tuple(4**n for n in range(14))
"""Boundaries that the conventions advise."""

OTHER: Final = "_OTHER"
"""The conventional word for a value that is none of the known ones."""

NAME_CHARS_MAX: Final = 200
"""Of any attribute that is no content."""

_PROVIDERS: Final = {"google": "gcp.gemini", "mistral": "mistral_ai"}
"""Where the conventional name of a provider is not ours."""


def short(text: str) -> str:
    """Text as an attribute: bounded, and valid UTF-8."""
    return text[:NAME_CHARS_MAX].encode("utf-8", "replace").decode()


def provider_and_model(name: str) -> tuple[str, str]:
    """The conventional provider, and the model's name without it, of a canonical name."""
    provider, colon, model = name.partition(":")
    if colon:
        return short(_PROVIDERS.get(provider, provider)), short(model)
    return SCOPE, short(name)  # a built-in: offline, scripted, recorded


# --------------------------------------------------------------------------- content
# The content of calls, as attributes of bounded size. Called only for users who opted in.
# Shapes: JSON by the conventional schemas of `gen_ai.input.messages` and `gen_ai.output.messages`.


TEXT_CHARS_MAX = 4_000
"""Of one text, one value of arguments or one result. A guess: enough to see what went on."""

ATTRIBUTE_CHARS_MAX = 32_000
"""Of one attribute; collectors refuse spans of some hundred kilobytes."""

_encode = msgspec.json.Encoder(order="sorted", decimal_format="string", enc_hook=repr).encode


def input_messages(request: ModelRequest) -> tuple[str, int]:
    """The newest messages of a request that fit, in their order, and how many older ones are left out.

    Cost: O(what fits), however long the request is.
    """
    kept: list[str] = []
    room = ATTRIBUTE_CHARS_MAX - 2
    for message in reversed(request.messages):
        parts = list(_parts(message))
        text = _json({"role": message.role, "parts": parts})
        if len(text) + 1 > room:
            break
        room -= len(text) + 1
        kept.append(text)
    return f"[{','.join(reversed(kept))}]", len(request.messages) - len(kept)


def output_message(reply: ModelReply) -> str:
    """The reply, cut where it is too long."""
    parts = [*_text(reply.text), *_calls(reply.tool_calls)]
    message: dict[str, Any] = {"role": "assistant", "finish_reason": reply.finish_reason}
    while True:
        text = _json([{**message, "parts": parts}])
        if len(text) <= ATTRIBUTE_CHARS_MAX:
            return text
        del parts[len(parts) // 2 :]


def value(content: bytes | Any) -> str:
    """Arguments, or the JSON of a result, cut where it is too long."""
    return cut(content.decode("utf-8", "replace") if isinstance(content, bytes) else _json(content))


def cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}… (+{len(text) - TEXT_CHARS_MAX} characters)"


def _parts(message: ChatMessage) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        response = cut(message.text)
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
        return
    yield from _text(message.text)
    yield from _calls(message.tool_calls)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "content": cut(text)}] if text else []


def _calls(calls: tuple[ToolCall, ...]) -> Iterator[dict[str, Any]]:
    for call in calls:
        arguments = _json(call.arguments)
        fits = len(arguments) <= TEXT_CHARS_MAX
        yield {
            "type": "tool_call",
            "id": call.id,
            "name": call.name[:200],
            "arguments": call.arguments if fits else cut(arguments),
        }


def _json(content: object) -> str:
    try:
        return _encode(content).decode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return '"(no JSON)"'  # arguments of a refused call may be anything
