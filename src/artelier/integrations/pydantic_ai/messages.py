"""Requests and responses of PydanticAI in our terms, and back.

What has no form here is refused by name: a part that is left out in silence changes what a model is asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as AgentRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from artelier.artifacts.media.inspection import KeptMedium, inspect_medium, keep_medium
from artelier.errors import InvalidRequest
from artelier.kernel.run.context import RunCore
from artelier.models.params import parse_arguments
from artelier.ports.model import (
    REASONING,
    TOOL_REF,
    ChatMessage,
    ModelReply,
    Part,
    ToolCall,
    ToolSchema,
    data_of,
    reasoning_part,
    tool_ref_part,
)

_PARAMS: Mapping[str, str] = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop_sequences": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "thinking": "thinking",
    "service_tier": "service_tier",
    "openai_text_verbosity": "verbosity",
    "extra_body": "extra",
    "tool_choice": "tool_choice",
    "timeout": "timeout_s",
}
"""A setting of PydanticAI to our parameter."""

_OURS = frozenset(("cache", "max_retries", "framing_announcement"))
"""Settings about what the kernel does by its own rules, or what PydanticAI has done by the time it asks."""

_FINISH: Mapping[str, Any] = {
    "stop": "stop",
    "length": "length",
    "cut": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRequest:
    """A request of an agent, as a model step takes it."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...]
    output_schema: dict[str, Any] | None
    params: dict[str, Any]
    media: tuple[KeptMedium, ...]


@dataclass(slots=True)
class MediaShelf:
    """The media that the requests of a run have shown, each inspected once."""

    kept: dict[str, KeptMedium] = field(default_factory=dict[str, KeptMedium])

    async def keep(self, core: RunCore, content: BinaryContent) -> KeptMedium:
        """Return a medium with its name. Errors: those of `inspect_medium`."""
        digest = hashlib.sha256(content.data).hexdigest()
        if (found := self.kept.get(digest)) is None:
            facts = await inspect_medium(content.data, media_type=content.media_type)
            escape = core.services.escape_placeholders
            found = await keep_medium(core.tenant.id, core.key, facts, escape=escape)
            self.kept[digest] = found
        return found


def unmapped(kind: str, name: str, *, expected: str) -> InvalidRequest:
    """Return the error for what has no form in a run."""
    return InvalidRequest(
        f"this {kind} of PydanticAI has no form in a durable run", expected=expected, got=name[:200]
    )


async def map_request(
    core: RunCore,
    shelf: MediaShelf,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> MappedRequest:
    """Return what a model step takes for a request of an agent.

    Errors: `InvalidRequest` that names the part, tool or setting that cannot be mapped.
    """
    _check_parameters(parameters)
    reader = _MessageReader(core, shelf)
    for message in messages:
        if isinstance(message, AgentRequest):
            await reader.read_request(message)
        else:
            reader.messages.append(_assistant_message(message))
    found = reader.with_instructions(_instructions_of(messages, parameters))
    tools = [*parameters.declared_function_tools, *parameters.output_tools]
    output = parameters.output_object if parameters.output_mode == "native" else None
    params = _params_of(settings, parameters)
    if tools and not parameters.allow_text_output and output is None and not params.get("thinking"):
        params.setdefault("tool_choice", "required")
    return MappedRequest(
        messages=found,
        tools=tuple(_tool_schema(one) for one in tools),
        output_schema=None if output is None else dict(output.json_schema),
        params=params,
        media=tuple(reader.media.values()),
    )


def _check_parameters(parameters: ModelRequestParameters) -> None:
    if parameters.native_tools:
        names = ", ".join(sorted(tool.kind for tool in parameters.native_tools))
        raise unmapped("provider's own tool", names, expected="function tools, MCP tools and output tools")
    if parameters.allow_image_output:
        raise unmapped("output type", "an image as output", expected="text, tool or native output")


def _tool_schema(one: ToolDefinition) -> ToolSchema:
    return ToolSchema(
        name=one.name, description=one.description or "", parameters=dict(one.parameters_json_schema)
    )


def _params_of(settings: ModelSettings | None, parameters: ModelRequestParameters) -> dict[str, Any]:
    given = cast("dict[str, Any]", dict(settings or {}))
    if parameters.thinking is not None:
        given["thinking"] = parameters.thinking
    params: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in _OURS:
            continue
        if name not in _PARAMS:
            raise unmapped(
                "model setting", name, expected=f"one of: {', '.join(_PARAMS)}; or extra_body for the rest"
            )
        if name == "timeout" and not isinstance(value, int | float):
            raise unmapped("model setting", f"timeout={value!r}", expected="timeout as seconds")
        if name == "tool_choice" and value not in ("auto", "none", "required"):
            raise unmapped("model setting", f"tool_choice={value!r}", expected="'auto', 'none' or 'required'")
        params[_PARAMS[name]] = value
    return params


def _instructions_of(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> str:
    """Return the instructions of this request: those that the agent has resolved, else the newest."""
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts if part.content.strip())
    newest = (one.instructions for one in reversed(messages) if isinstance(one, AgentRequest))
    return next((text for text in newest if text), "")


class _MessageReader:
    """Reads requests of an agent into messages."""

    def __init__(self, core: RunCore, shelf: MediaShelf) -> None:
        self._core = core
        self._shelf = shelf
        self.messages: list[ChatMessage] = []
        self.media: dict[str, KeptMedium] = {}

    def with_instructions(self, text: str) -> tuple[ChatMessage, ...]:
        """Return the messages, with instructions behind the system prompts that they begin with."""
        if not text:
            return tuple(self.messages)
        place = next((at for at, one in enumerate(self.messages) if one.role != "system"), len(self.messages))
        told = ChatMessage(role="system", content=text)
        return (*self.messages[:place], told, *self.messages[place:])

    async def read_request(self, request: AgentRequest) -> None:
        behind: list[UserContent] = []
        for part in request.parts:
            if isinstance(part, SystemPromptPart):
                self.messages.append(ChatMessage(role="system", content=part.content))
            elif isinstance(part, UserPromptPart):
                self.messages.append(await self._user_message(part.content))
            elif isinstance(part, ToolReturnPart):
                text, files = part.model_response_str_and_user_content()
                behind += files
                self.messages.append(ChatMessage(role="tool", content=text, tool_call_id=part.tool_call_id))
            else:
                expected = "system prompts, user prompts and tool results"
                raise unmapped("message part", type(part).__name__, expected=expected)
        if behind:  # files of tool results stand behind all results
            self.messages.append(await self._user_message(behind))

    async def _user_message(self, content: str | Sequence[UserContent]) -> ChatMessage:
        if isinstance(content, str):
            return ChatMessage(role="user", content=content)
        pieces: list[Part] = []
        for item in content:
            if isinstance(item, str):
                pieces.append(Part(text=item))
            elif isinstance(item, TextContent):
                pieces.append(Part(text=item.content))
            elif isinstance(item, BinaryContent):
                kept = await self._shelf.keep(self._core, item)
                self.media[kept.medium.blob] = kept
                pieces.append(kept.medium.part)
            elif not isinstance(item, CachePoint):  # marks are set by the adapter, by its provider's rules
                expected = "text, or an image, a sound or a PDF as BinaryContent"
                raise unmapped("piece of a prompt", type(item).__name__, expected=expected)
        return ChatMessage(role="user", content=tuple(pieces))


def _assistant_message(response: ModelResponse) -> ChatMessage:
    """Return a response of the history: its parts in order where some of it is sealed or thought."""
    pieces: list[Part] = []
    calls: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, TextPart):
            pieces.append(Part(text=part.content))
        elif isinstance(part, ThinkingPart):
            pieces.append(
                reasoning_part(
                    part.content,
                    provider=part.provider_name or response.provider_name or "",
                    signature=part.signature,
                    id_=part.id,
                    details=part.provider_details,
                )
            )
        elif isinstance(part, ToolCallPart):
            provider = part.provider_name or response.provider_name or ""
            details = part.provider_details
            pieces.append(tool_ref_part(len(calls), provider=provider, id_=part.id, details=details))
            calls.append(_call_of(part))
        else:
            expected = "text, reasoning and calls of function tools"
            raise unmapped("response part", type(part).__name__, expected=expected)
    is_sealed = any(one.type == REASONING or data_of(one).get("details") for one in pieces)
    text = "".join(one.text or "" for one in pieces if one.type == "text")
    return ChatMessage(
        role="assistant", content=tuple(pieces) if is_sealed else text, tool_calls=tuple(calls)
    )


def _call_of(part: ToolCallPart) -> ToolCall:
    arguments = parse_arguments(part.args) if isinstance(part.args, str) else dict(part.args or {})
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def response_of(reply: ModelReply, *, model: str) -> ModelResponse:
    """Return a reply of a model step as a response of PydanticAI. `model`: its canonical name."""
    provider, _, name = model.partition(":")
    usage = reply.usage
    return ModelResponse(
        parts=_response_parts(reply),
        usage=RequestUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_input_tokens,
        ),
        model_name=name or model,
        provider_name=provider if name else None,
        finish_reason=_FINISH.get(reply.finish_reason),
    )


def _response_parts(reply: ModelReply) -> list[ModelResponsePart]:
    calls = [
        ToolCallPart(tool_name=call.name, args=_arguments(call), tool_call_id=call.id)
        for call in reply.tool_calls
    ]
    parts: list[ModelResponsePart] = []
    placed: set[int] = set()
    for piece in reply.parts:
        data = data_of(piece)
        if piece.type == REASONING and not data.get("changed"):
            parts.append(
                ThinkingPart(
                    content=str(data.get("text", "")),
                    id=data.get("id"),
                    signature=data.get("signature"),
                    provider_name=data.get("provider"),
                    provider_details=data.get("details"),
                )
            )
        elif piece.type == TOOL_REF and 0 <= (at := int(data.get("call", -1))) < len(calls):
            calls[at].id, calls[at].provider_details = data.get("id"), data.get("details")
            calls[at].provider_name = data.get("provider") if data.get("id") or data.get("details") else None
            parts.append(calls[at])
            placed.add(at)
        elif piece.type == "text" and piece.text:
            parts.append(TextPart(content=piece.text))
    if not reply.parts and reply.text:
        parts.append(TextPart(content=reply.text))
    return [*parts, *(call for at, call in enumerate(calls) if at not in placed)]


def _arguments(call: ToolCall) -> str | dict[str, Any]:
    arguments: object = call.arguments
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else str(arguments)
