"""Requests in the terms of `pydantic-ai`, its responses as ours. Imported only when a provider is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as VendorRequest
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from artelier.errors import InvalidRequest
from artelier.models.params import output_text, parse_arguments, parse_output
from artelier.ports.media import MEDIA, has_media, medium_of
from artelier.ports.model import (
    REASONING,
    TOOL_REF,
    ChatMessage,
    ModelReply,
    ModelRequest,
    Part,
    ToolCall,
    Usage,
    data_of,
    is_of,
    reasoning_part,
    reasoning_text,
    sending,
    tool_ref_part,
)
from artelier.tokens.estimate import estimate_tokens
from artelier.tokens.prompt_cache import cache_rules, leading_systems, marked_messages, tail_of, without_tail

OUTPUT_TOOL = "final_result"
"""The tool through which a model without native structured output gives its output."""

WRAPPED = "value"
"""The key under which an output that is no object travels: providers take only objects."""

OutputMode = Literal["native", "tool", "prompted"]

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes as the id of a tool call: OpenAI allows 40 characters, Anthropic these."""

_NAME = re.compile(r"[^A-Za-z0-9_-]+")

# Models older than structured output, which the profiles of pydantic-ai do not tell apart.
_NO_NATIVE_OUTPUT = re.compile(r"gpt-3\.5|gpt-4(-|$)|o1-(mini|preview)|chatgpt-4o")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The way structured output is asked for, with a mark if it is wrapped into an object."""

    mode: OutputMode
    schema: dict[str, Any]
    is_wrapped: bool


SAMPLING = ("temperature", "top_p", "top_k")

THINKING_TOKENS_MIN = 1_024
"""The least that Anthropic takes as the budget of thinking."""


def settings_for(
    settings: Mapping[str, Any], model: Model[Any], *, takes_samplers: bool, min_p: float | None
) -> dict[str, Any]:
    """Return the settings that a model takes; the rest is left out, and shown as not sent.

    `takes_samplers`: its server takes `top_k` and `min_p` in the body of Chat Completions, which OpenAI's
    does not. A model takes no sampling while it reasons: the provider would refuse it, and steering asks
    every model for a temperature.
    """
    found = {name: value for name, value in settings.items() if name not in model.unsupported_settings}
    profile = cast("Mapping[str, Any]", model.profile)
    if takes_samplers:
        own = {"top_k": settings.get("top_k"), "min_p": min_p}
        more = {name: value for name, value in own.items() if value is not None}
        if more:
            found["extra_body"] = {**more, **cast("dict[str, Any]", found.get("extra_body", {}))}
    if model.system == "anthropic":
        found |= _thinking_within(found, profile)
    if _reasons(found, model):
        return {name: value for name, value in found.items() if name not in SAMPLING}
    return found


def _reasons(settings: Mapping[str, Any], model: Model[Any]) -> bool:
    """Return True if a call takes no sampling parameters since its model reasons."""
    profile, effort = cast("Mapping[str, Any]", model.profile), settings.get("thinking")
    by_default = profile.get("thinking_enabled_by_default") or profile.get("thinking_always_enabled")
    is_on = bool(by_default) if effort is None else effort is not False
    if model.system == "anthropic":
        return is_on or bool(profile.get("anthropic_disallows_sampling_settings"))
    can_stop = profile.get("openai_supports_reasoning_effort_none")
    return bool(profile.get("openai_supports_reasoning")) and (is_on or not can_stop)


def _thinking_within(settings: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return Anthropic's budget of thinking, as large as the answer's limit leaves room for.

    The API refuses a budget that is not below `max_tokens`; half of it is left for the answer.
    """
    effort = settings.get("thinking")
    if effort in (None, False) or profile.get("anthropic_supports_adaptive_thinking"):
        return {}
    budget = min(ANTHROPIC_THINKING_BUDGET_MAP[effort], int(settings.get("max_tokens", 0)) // 2)
    if not profile.get("supports_thinking") or budget < THINKING_TOKENS_MIN:
        return {"thinking": False}
    return {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}}


def output_of(request: ModelRequest, profile: Mapping[str, Any]) -> Output | None:
    """The most reliable way this model has to give the output asked for; None if none is asked."""
    if request.output_schema is None:
        return None
    model = request.model.rpartition(":")[2]
    if profile.get("supports_json_schema_output") and not _NO_NATIVE_OUTPUT.match(model):
        mode: OutputMode = "native"
    else:
        mode = "tool" if profile.get("supports_tools", True) else "prompted"
    schema, is_wrapped = _as_object(request.output_schema)
    return Output(mode=mode, schema=schema, is_wrapped=is_wrapped)


def parameters_of(request: ModelRequest, output: Output | None) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    if output is None:
        return ModelRequestParameters(function_tools=tools)
    title = _NAME.sub("_", str(output.schema.get("title") or "output"))[:60]
    if output.mode == "tool":
        answer = ToolDefinition(
            name=OUTPUT_TOOL,
            description="Give the final result. Call it once, when the result is complete.",
            parameters_json_schema=output.schema,
            kind="output",
        )
        return ModelRequestParameters(
            function_tools=tools, output_tools=[answer], output_mode="tool", allow_text_output=False
        )
    return ModelRequestParameters(
        function_tools=tools,
        output_mode=output.mode,
        output_object=OutputObjectDefinition(json_schema=output.schema, name=title),
    )


def cache_settings_of(request: ModelRequest) -> dict[str, Any]:
    """Return settings that put the mark behind tools and system text, for an adapter that takes marks."""
    if not takes_marks(request):
        return {}
    if request.model.startswith("anthropic:"):
        # Tools come first in its prefix: one mark behind the system text is behind them too.
        has_system = bool(leading_systems(request.messages))
        return {
            "anthropic_cache_instructions": has_system,
            "anthropic_cache_tool_definitions": bool(request.tools) and not has_system,
        }
    # Its own mark would stand behind the tail, and writing costs more than fresh input.
    return {"openai_prompt_cache_options": {"mode": "explicit"}, "openai_cache_instructions": True}


def takes_marks(request: ModelRequest) -> bool:
    """Return True if the provider caches where a request says, and this one is to be cached."""
    rules = cache_rules(request.model)
    return rules is not None and rules.is_marked and bool(marked_messages(request))


def messages_of(
    request: ModelRequest,
    profile: Mapping[str, Any],
    *,
    provider: str,
    media: Mapping[str, bytes] | None = None,
    hold: Callable[[str], str] = str,
) -> list[ModelMessage]:
    """The conversation. Everything between two assistant messages becomes one vendor request.

    A system message after the beginning stays in its place: as such where the provider takes it there,
    else as a user message inside `<system>` tags. Moved to the front, it would change the prefix that
    providers cache, and the meaning. Reasoning goes back to its own `provider` alone, as it came. `media` are
    the bytes of what the messages show, by reference. `hold` returns what is given to the SDK for a text.

    Errors: `InvalidRequest` for a part that cannot be sent, or a tool result that answers no call.
    """
    conversion = _Conversion(
        provider=provider,
        takes_late_system=bool(profile.get("supports_inline_system_prompts")),
        id_chars=cast("int | None", profile.get("tool_call_id_length")),
        media=media or {},
        hold=hold,
    )
    marked = marked_messages(request) if takes_marks(request) else ()
    for number, message in enumerate(request.messages):
        tail = tail_of(message) if message.role in ("user", "tool") else None
        conversion.add(message if tail is None else without_tail(message))
        conversion.add_behind(tail, is_marked=number in marked)
    return conversion.messages


class _Conversion:
    def __init__(
        self,
        *,
        provider: str,
        takes_late_system: bool,
        id_chars: int | None,
        media: Mapping[str, bytes],
        hold: Callable[[str], str],
    ) -> None:
        self._provider = provider
        self._media = media
        self._hold = hold
        self.messages: list[ModelMessage] = []
        self._takes_late_system = takes_late_system
        self._id_chars = id_chars
        self._has_begun = False
        self._tool_names: dict[str, str] = {}

    def add(self, message: ChatMessage) -> None:
        if message.role == "assistant":
            self._has_begun = True
            self.messages.append(ModelResponse(parts=self._response_parts(message)))
            return
        last = self.messages[-1] if self.messages else None
        part = self._request_part(message)
        if isinstance(last, VendorRequest):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(VendorRequest(parts=[part]))

    def add_behind(self, tail: str | None, *, is_marked: bool) -> None:
        """Put a cache mark and the tail, each where there is one, behind the message that came last.

        The tail is a piece of its own, so that what is before it stays the same from call to call.
        """
        pieces: list[UserContent] = [CachePoint()] if is_marked else []
        if tail is not None and (text := tail.strip()):
            pieces.append(self._hold(text))
        last = self.messages[-1]
        if pieces and isinstance(last, VendorRequest):
            last.parts = [*last.parts, UserPromptPart(content=pieces)]

    def _request_part(self, message: ChatMessage) -> ModelRequestPart:
        if message.role == "user" and has_media(message):
            self._has_begun = True
            return UserPromptPart(content=[self._user_piece(part) for part in message.content])
        text = self._hold(_text_of(message))
        if message.role == "system" and not self._has_begun:
            return SystemPromptPart(content=text)
        self._has_begun = True
        if message.role == "system":
            if self._takes_late_system:
                return SystemPromptPart(content=text)
            return UserPromptPart(content=f"<system>\n{text}\n</system>")
        if message.role == "tool":
            return self._tool_result(message, text)
        return UserPromptPart(content=text)

    def _user_piece(self, part: Part | str) -> UserContent:
        """Return a piece of what a person said: text, or the bytes of what they show."""
        if isinstance(part, str) or part.type != MEDIA:
            text = part if isinstance(part, str) else _text_of(ChatMessage(role="user", content=(part,)))
            return self._hold(text)
        medium = medium_of(part)
        if medium.blob not in self._media:
            raise InvalidRequest(
                "a message shows a medium, and nobody gave its bytes",
                expected="a call through `with_media`",
                got=medium.media_type,
            )
        return BinaryContent(data=self._media[medium.blob], media_type=medium.media_type)

    def _tool_result(self, message: ChatMessage, text: str) -> ToolReturnPart:
        name = self._tool_names.get(message.tool_call_id or "")
        if name is None or message.tool_call_id is None:
            raise InvalidRequest(
                "a tool message answers no tool call",
                expected="the id of a tool call in an earlier assistant message",
                got=repr(message.tool_call_id)[:80],
                hint="Keep a tool call and its result together when messages are left out.",
            )
        return ToolReturnPart(tool_name=name, content=text, tool_call_id=self._id(message.tool_call_id))

    def _response_parts(self, message: ChatMessage) -> Sequence[ModelResponsePart]:
        calls: list[ToolCallPart] = []
        for call in message.tool_calls:
            self._tool_names[call.id] = call.name
            calls.append(
                ToolCallPart(tool_name=call.name, args=_arguments(call), tool_call_id=self._id(call.id))
            )
        if isinstance(message.content, str) or not any(part.type == REASONING for part in message.content):
            if not isinstance(message.content, str):
                self._seal_calls(message.content, calls)
            text = _text_of(message)
            return [*([TextPart(content=self._hold(text))] if text else []), *calls]
        return self._in_order(message.content, calls)

    def _in_order(self, pieces: Sequence[Part], calls: list[ToolCallPart]) -> list[ModelResponsePart]:
        """Return reasoning, text and calls as the model gave them."""
        places = self._seal_calls(pieces, calls)
        parts: list[ModelResponsePart] = []
        for piece in pieces:
            if piece.type == REASONING:
                parts.extend(self._thinking(piece))
            elif piece.type == TOOL_REF:
                parts.extend([calls[place]] if (place := _place_of(piece)) in places else [])
            elif text := _text_of(ChatMessage(role="assistant", content=(piece,))):
                parts.append(TextPart(content=self._hold(text)))
        return [*parts, *(call for place, call in enumerate(calls) if place not in places)]

    def _seal_calls(self, pieces: Sequence[Part], calls: list[ToolCallPart]) -> set[int]:
        """Give calls back what their provider signed them with; return the places that are referred to."""
        places: set[int] = set()
        for piece in pieces:
            place = _place_of(piece) if piece.type == TOOL_REF else -1
            if not 0 <= place < len(calls):
                continue
            places.add(place)
            if is_of(piece, self._provider):
                data = data_of(piece)
                calls[place].id, calls[place].provider_name = data.get("id"), self._provider
                calls[place].provider_details = data.get("details")
        return places

    def _thinking(self, piece: Part) -> list[ThinkingPart]:
        """Return reasoning of this provider; that of another one, or that scrubbing changed, is left out."""
        if not is_of(piece, self._provider):
            return []
        data = data_of(piece)
        return [
            ThinkingPart(
                content=str(data.get("text", "")),
                id=data.get("id"),
                signature=data.get("signature"),
                provider_name=self._provider,
                provider_details=data.get("details"),
            )
        ]

    def _id(self, call_id: str) -> str:
        """An id that the provider takes; the same id always becomes the same."""
        if self._id_chars is not None:
            if len(call_id) == self._id_chars and call_id.isascii() and call_id.isalnum():
                return call_id
            return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[: self._id_chars]
        if _SAFE_ID.fullmatch(call_id):
            return call_id
        return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]


def _arguments(call: ToolCall) -> str | dict[str, Any]:
    """Arguments as the model sent them: an object, or broken text (which is sent back as such)."""
    arguments = cast(object, call.arguments)
    if isinstance(arguments, dict):
        return cast(dict[str, Any], arguments)
    return arguments if isinstance(arguments, str) else output_text(arguments)


def _place_of(piece: Part) -> int:
    place = data_of(piece).get("call")
    return place if isinstance(place, int) else -1


def _text_of(message: ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    texts: list[str] = []
    for part in message.content:
        if part.type == "text":
            texts.append(part.text or "")
        elif part.type == "json":
            texts.append(output_text(part.data))
        elif part.type not in (REASONING, TOOL_REF):
            raise InvalidRequest(
                "a message holds a part that providers are not sent",
                expected="parts of type text or json",
                got=repr(part.type)[:80],
            )
    return "".join(texts)


def _as_object(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A schema of an object: itself, or itself under one key, with its definitions at the top."""
    kind = schema.get("type")
    if kind == "object" or (kind is None and ("$ref" in schema or "properties" in schema)):
        return schema, False
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    return wrapped, True


# --------------------------------------------------------------------------- replies
# A vendor's response as a `ModelReply`. Imported only after a call was made.


_FINISH = {"stop": "stop", "length": "length", "content_filter": "content_filter", "tool_call": "tool_calls"}


def reply_of(
    response: ModelResponse, *, request: ModelRequest, output: Output | None, provider: str
) -> ModelReply:
    """Return what the model answered. A refusal is text with `content_filter`.

    Structured output that does not parse is None, with the text as it came: the caller judges it. A reply
    that calls tools has no output, whatever else it says.
    """
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    answers = [call for call in calls if output is not None and call.tool_name == OUTPUT_TOOL]
    wishes = tuple(
        ToolCall(id=call.tool_call_id, name=call.tool_name, arguments=_arguments_of_reply(call))
        for call in calls
        if call not in answers
    )
    value: Any = None
    if output is not None and not wishes:
        value = _arguments_of_reply(answers[0]) if answers else parse_output(text)
        if output.is_wrapped and isinstance(value, dict):
            value = cast(dict[str, Any], value).get(WRAPPED)
            text = output_text(value) if value is not None else text
        elif answers:
            text = output_text(value)
    refusal = (response.provider_details or {}).get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    parts = _parts_of(response, text=text, provider=provider, has_output=output is not None)
    return ModelReply(
        text=text,
        tool_calls=wishes,
        output=value,
        parts=parts,
        usage=_usage_of(
            response.usage, text=text, thought=reasoning_text(parts), calls=wishes, request=request
        ),
        finish_reason=_finish_of(response.finish_reason, has_calls=bool(wishes)),
    )


def _parts_of(response: ModelResponse, *, text: str, provider: str, has_output: bool) -> tuple[Part, ...]:
    """Return a reply's parts in order if something of it is sealed or thought; else none.

    Structured output is one text, whatever carried it.
    """
    parts: list[Part] = []
    count = 0
    for part in response.parts:
        if isinstance(part, ThinkingPart):
            parts.append(
                reasoning_part(
                    part.content,
                    provider=part.provider_name or provider,
                    signature=part.signature,
                    id_=part.id,
                    details=part.provider_details,
                )
            )
        elif isinstance(part, TextPart) and not has_output and part.content:
            parts.append(Part(text=part.content))
        elif isinstance(part, ToolCallPart) and not (has_output and part.tool_name == OUTPUT_TOOL):
            name = part.provider_name or provider
            parts.append(tool_ref_part(count, provider=name, id_=part.id, details=part.provider_details))
            count += 1
    is_sealed = any(part.type == TOOL_REF and data_of(part).get("details") for part in parts)
    if not is_sealed and not any(part.type == REASONING for part in parts):
        return ()
    if text and not any(part.type == "text" for part in parts):
        place = next((at for at, part in enumerate(parts) if part.type == TOOL_REF), len(parts))
        parts.insert(place, Part(text=text))
    return tuple(parts)


def _arguments_of_reply(call: ToolCallPart) -> object:
    if isinstance(call.args, str):
        return parse_arguments(call.args)
    return dict(call.args) if call.args else {}


def _finish_of(reason: str | None, *, has_calls: bool) -> str:
    if has_calls and reason in (None, "stop", "tool_call"):
        return "tool_calls"
    if reason in (None, "tool_call"):
        return "stop"
    return _FINISH.get(reason, "other")


def _usage_of(
    usage: RequestUsage, *, text: str, thought: str, calls: tuple[ToolCall, ...], request: ModelRequest
) -> Usage:
    """Counts as the provider gave them; where it gave none, an estimate, since no call is free.

    Anthropic counts what was thought with the output, and does not say how much that is: it is estimated.
    """
    input_tokens = max(0, usage.input_tokens)
    output_tokens = max(0, usage.output_tokens)
    if input_tokens == 0:
        input_tokens = estimate_tokens(request.canonical())
    thought_tokens = estimate_tokens(thought)
    if output_tokens == 0 and (text or calls or thought):
        output_tokens = (
            thought_tokens + estimate_tokens(text) + sum(estimate_tokens(call.canonical()) for call in calls)
        )
    if (input_tokens, output_tokens) != (usage.input_tokens, usage.output_tokens):
        if (sent := sending.get()) is not None:
            sent.is_counted = True
    cached_tokens = min(max(0, usage.cache_read_tokens), input_tokens)
    written_tokens = min(max(0, usage.cache_write_tokens), input_tokens - cached_tokens)
    reasoning_tokens = usage.output_reasoning_tokens or usage.details.get("reasoning_tokens", 0)
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=cached_tokens,
        output_tokens=output_tokens,
        cache_write_input_tokens=written_tokens,
        cache_write_long_input_tokens=min(max(0, usage.cache_write_1h_tokens), written_tokens),
        reasoning_tokens=min(max(0, reasoning_tokens or thought_tokens), output_tokens),
    )
