"""Names of spans, attributes and metrics: the GenAI conventions of OpenTelemetry, and a few of our own.

Source: https://github.com/open-telemetry/semantic-conventions-genai, as of November 2026. They are kept here
because their package counts them as experimental and moves them; only this file follows.
"""

from __future__ import annotations

from typing import Final

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
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
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
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"

LOOP_LAG: Final = "artelier.server.loop_lag"

DURATION_BUCKETS_S: Final = tuple(0.01 * 2**n for n in range(14))
LAG_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
TOKEN_BUCKETS: Final = tuple(4**n for n in range(14))
"""Boundaries that the conventions advise."""

OTHER: Final = "_OTHER"
"""The conventional word for a value that is none of the known ones."""

TEXT_CHARS_MAX: Final = 200
"""Of any attribute that is no content."""

_PROVIDERS: Final = {"google": "gcp.gemini", "mistral": "mistral_ai"}
"""Where the conventional name of a provider is not ours."""


def short(text: str) -> str:
    """Text as an attribute: bounded, and valid UTF-8."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode()


def provider_and_model(name: str) -> tuple[str, str]:
    """The conventional provider, and the model's name without it, of a canonical name."""
    provider, colon, model = name.partition(":")
    if colon:
        return short(_PROVIDERS.get(provider, provider)), short(model)
    return SCOPE, short(name)  # a built-in: offline, scripted, recorded
