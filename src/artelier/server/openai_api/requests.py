"""Requests as OpenAI's clients send them, read into what the kernel takes.

Whatever would change the answer and cannot be passed on is refused by its name; what only concerns OpenAI's
own service (`user`, `metadata`, `store`, ...) is let through without effect. What other providers know beyond
OpenAI, such as `repetition_penalty`, joins the body that they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artelier.artifacts.json_items import ITEMS_MAX, count_items
from artelier.errors import InvalidRequest
from artelier.ports.media import MEDIUM_BYTES_MAX
from artelier.ports.model import ChatMessage, Part, ToolCall, ToolSchema
from artelier.ports.model_params import OWNED, check_params

MESSAGES_MAX = 2_048
"""Of one request. An SDK takes 0.12 ms of the event loop for each when it makes a provider's body."""
TEXT_CHARS_MAX = 8_000_000
"""Of all texts of one request: two million tokens, the most that a model takes (2026)."""
AGENTS = "artelier/"
"""What stands before the name of a chat or profile, in place of a provider."""


class WireModel(BaseModel):
    """A part of a request; what it says besides is kept, to be refused or ignored by name."""

    model_config = ConfigDict(extra="allow")


ItemT = TypeVar("ItemT")
Listed = Annotated[list[ItemT], Field(fail_fast=True)]
"""A list of which the first item that does not fit is told: 20,000 of them are 0.2 s of errors."""


class _CompletionCallFunction(WireModel):
    name: str = Field(min_length=1, max_length=200)
    arguments: str = "{}"


class _CompletionCall(WireModel):
    id: str = Field(max_length=500)
    type: Literal["function"] = "function"
    function: _CompletionCallFunction


class _CompletionPiece(WireModel):
    type: str
    text: str | None = None
    image_url: dict[str, Any] | None = None
    input_audio: dict[str, Any] | None = None
    file: dict[str, Any] | None = None

    @property
    def medium(self) -> tuple[str, str]:
        """The media type, where it is said apart, and base64 or a data URL; empty for a text."""
        if self.input_audio is not None:
            return f"audio/{self.input_audio.get('format')}", str(self.input_audio.get("data", ""))
        held = self.image_url or self.file or {}
        return "", str(held.get("url") or held.get("file_data") or "")


class _CompletionMessage(WireModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Listed[_CompletionPiece] | None = None
    tool_calls: Listed[_CompletionCall] | None = None
    tool_call_id: str | None = None


class _CompletionFunction(WireModel):
    name: str = Field(min_length=1, max_length=200)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _CompletionTool(WireModel):
    type: str
    function: _CompletionFunction | None = None


class _StreamOptions(WireModel):
    include_usage: bool = False


class CompletionRequest(WireModel):
    """The body of `POST /v1/chat/completions`."""

    model: str = Field(min_length=1, max_length=300)
    messages: Listed[_CompletionMessage] = Field(min_length=1, max_length=MESSAGES_MAX)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: Listed[_CompletionTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    n: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None


PASSED = (
    "temperature",
    "top_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "parallel_tool_calls",
)
"""Parameters that have the same name here."""

OWN = ("top_k", "min_p", "verbosity", "service_tier")
"""Others that have it, and that not every client of OpenAI knows."""

SERVICE = (
    "user",
    "metadata",
    "store",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "stream_options",
    "truncation",
    "modalities",
)
"""What only concerns OpenAI's own service, and changes no answer here."""

REFUSED = (
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "modalities",
    "audio",
    "prediction",
    "functions",
    "function_call",
    "web_search_options",
)
"""Parameters that change an answer and that no door here passes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """One call of a model, as both kinds of request ask for it."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    output_schema: dict[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_streamed: bool = False
    wants_usage: bool = False

    @property
    def chat(self) -> str | None:
        """The name behind `artelier/`; None for a model."""
        return self.model.removeprefix(AGENTS) if self.model.startswith(AGENTS) else None


def refuse(param: str | None, message: str, **facts: Any) -> InvalidRequest:
    """Return the error about one parameter of a request."""
    return InvalidRequest(message, param=param, **facts)


def check_values(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters that are given, before anything is recorded. `names`: those that a client calls
    otherwise. Errors: `InvalidRequest` that names the parameter as the client does.
    """
    try:
        return check_params(params)
    except InvalidRequest as error:
        own: str = error.facts["param"]
        name = next(iter(params[own])) if own == "extra" else names.get(own, own)
        raise refuse(
            name, f"{name[:80]} has a wrong value", expected=error.expected, got=error.got, hint=error.hint
        ) from None


def read_completion(body: bytes) -> AskedCall:
    """Return what a body of `/v1/chat/completions` asks. Errors: `InvalidRequest` naming the parameter."""
    try:
        asked = CompletionRequest.model_validate_json(body)
    except ValidationError as error:
        raise misfit(error) from None
    check_refused(asked.model_extra or {}, REFUSED)
    calls = (one for message in asked.messages for one in message.tool_calls or ())
    check_arguments((one.function.arguments for one in calls), param="messages")
    if asked.n not in (None, 1):
        raise refuse("n", "one answer is made for a request", expected="n of 1", got=asked.n)
    params: dict[str, Any] = {name: getattr(asked, name) for name in PASSED}
    params |= params_beyond(asked.model_extra or {})
    params["max_output_tokens"] = asked.max_completion_tokens or asked.max_tokens
    params["thinking"] = False if asked.reasoning_effort == "none" else asked.reasoning_effort
    limit = "max_tokens" if asked.max_completion_tokens is None else "max_completion_tokens"
    params = check_values(params, {"thinking": "reasoning_effort", "max_output_tokens": limit})
    tools, params["tool_choice"] = choose_tools(_tools(asked.tools), asked.tool_choice)
    messages = tuple(_message(one, at) for at, one in enumerate(asked.messages))
    check_texts(messages, param="messages")
    return AskedCall(
        model=asked.model,
        messages=messages,
        tools=tools,
        output_schema=_schema_of(asked.response_format),
        params={name: value for name, value in params.items() if value is not None},
        is_streamed=bool(asked.stream),
        wants_usage=asked.stream_options is not None and asked.stream_options.include_usage,
    )


def misfit(error: ValidationError) -> InvalidRequest:
    """Return what is wrong with a body, with its first place as the parameter. What came is not repeated.

    Where one of several forms would do, the form that fits furthest says what is missing.
    """
    found = [
        (tuple(step for step in one["loc"] if not _is_form(step)), one)
        for one in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    first, _ = found[0]
    steps, furthest = max(
        (one for one in found if one[0][: len(first)] == first),
        key=lambda one: (len(one[0]), not one[1]["type"].endswith("_type")),
    )
    place = ".".join(str(step)[:80] for step in steps)
    return refuse(place or None, f"{place or 'the body'}: {furthest['msg'][:300]}")


def _is_form(step: int | str) -> bool:
    """Return True for a step of an error's place that names one of several forms, and no member."""
    return isinstance(step, str) and (step in ("str", "constrained-str") or "[" in step)


def check_refused(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Errors: `InvalidRequest` for a parameter that changes an answer and that no door passes on."""
    for name in names:
        if given.get(name) not in (None, False, [], {}, ["text"]):
            raise refuse(name, f"{name} is not supported here", hint="Leave the parameter out.")


def params_beyond(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that no field reads. Errors: `InvalidRequest` for what is recorded and paid."""
    beyond = {name: value for name, value in given.items() if value is not None and name not in SERVICE}
    params = {name: beyond.pop(name) for name in OWN if name in beyond}
    check_refused(beyond, sorted(OWNED))
    return params | ({"extra": beyond} if beyond else {})


def refuse_extra(asked: AskedCall, why: str) -> None:
    """Refuse what goes to a provider as it stands. Errors: `InvalidRequest` naming the first parameter."""
    for name in asked.params.get("extra") or ():
        raise refuse(name, f"{name[:80]} {why}", hint="Leave the parameter out.")


def choose_tools(
    tools: tuple[ToolSchema, ...], given: str | Mapping[str, Any] | None
) -> tuple[tuple[ToolSchema, ...], str | None]:
    """Return the tools that a model is shown, and `auto` or `required`; None for its own way.

    A choice by names leaves the others out, since no parameter of all providers names tools: a model that is
    shown one tool, and must call one, calls this one. Errors: `InvalidRequest` for a tool that is not there.
    """
    mode, names = _choice_of(given)
    if names is not None:
        known = {one.name for one in tools}
        if not names or not known.issuperset(names):
            raise refuse(
                "tool_choice",
                "tool_choice names a tool that is not in tools",
                expected=", ".join(sorted(known))[:300] or "tools",
                got=", ".join(sorted(names - known))[:100] or "no name",
            )
        tools = tuple(one for one in tools if one.name in names)
    if mode == "required" and not tools:
        raise refuse("tool_choice", "tool_choice needs tools", got=str(given)[:100])
    return ((), None) if mode == "none" or not tools else (tools, mode)


def _choice_of(given: str | Mapping[str, Any] | None) -> tuple[str | None, set[str] | None]:
    """Return how a model must choose, and from which tools; None for all. Errors: `InvalidRequest`."""
    mode: object = given
    named: object = None
    if isinstance(given, Mapping):
        stated = _object_in(given, "allowed_tools")  # within it in completions, beside it in responses
        if given.get("type") == "function":
            mode, named = "required", [given]
        elif given.get("type") == "allowed_tools" and isinstance(stated.get("tools"), list):
            mode, named = stated.get("mode"), stated.get("tools")
    if mode not in (None, "auto", "none", "required"):
        expected = "auto, none, required or tools by name"
        raise refuse("tool_choice", "tool_choice", expected=expected, got=str(given)[:100])
    tools = cast("list[object] | None", named)
    return cast("str | None", mode), None if tools is None else {_name_in(one) for one in tools}


def _name_in(choice: object) -> str:
    """Return the name of the tool in `{"function": {"name": ...}}` or `{"name": ...}`; empty if none is."""
    if not isinstance(choice, Mapping):
        return ""
    return str(_object_in(cast("Mapping[str, Any]", choice), "function").get("name") or "")


def _object_in(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object of this name, or else the one it would stand in."""
    inner: object = given.get(name)
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else given


class MessagePiece(Protocol):
    """A piece of a message, of either address."""

    type: str
    text: str | None

    @property
    def medium(self) -> tuple[str, str]: ...


INLINE = "inline"
"""The type of a part that holds base64 as it came, until it is stored; `data` is an `InlineMedium`."""

BASE64_CHARS_MAX = 4 * (MEDIUM_BYTES_MAX // 3 + 1)
_DATA_URL = "data:"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineMedium:
    """An image, a sound or a PDF as it stands in a request."""

    param: str
    media_type: str
    """As the client says; empty where it says none."""
    encoded: str


def message_parts(
    content: str | Sequence[MessagePiece] | None, *, param: str, role: str
) -> str | tuple[Part, ...]:
    """Return a message's content. Errors: `InvalidRequest` for a piece that cannot be passed on."""
    if content is None or isinstance(content, str):
        return content or ""
    pieces = [_part_of(one, param=f"{param}.{at}", role=role) for at, one in enumerate(content)]
    is_text = len(pieces) == 1 and pieces[0].type == "text"
    return pieces[0].text or "" if is_text else tuple(pieces)


def _part_of(piece: MessagePiece, *, param: str, role: str) -> Part:
    kind, text = piece.type, piece.text
    if kind in ("text", "input_text", "output_text", "refusal") and text is not None:
        return Part(text=text)
    media_type, encoded = piece.medium
    if kind not in _MEDIA_PIECES or role != "user" or not encoded:
        raise refuse(
            param,
            f"a piece of type {kind[:40]!r} cannot be passed on",
            expected="text, or in a message of the user an image, a sound or a PDF with its content",
            got=f"{kind[:40]} in a message of role {role}",
        )
    if kind in ("image_url", "input_image", "file", "input_file"):
        return Part(type=INLINE, data=parse_data_url(encoded, param=param))
    return Part(type=INLINE, data=inline_medium(media_type, encoded, param=param))


def inline_medium(media_type: str, encoded: str, *, param: str) -> InlineMedium:
    """Return a medium in base64, not decoded yet. Errors: `InvalidRequest` for a large one."""
    if len(encoded) > BASE64_CHARS_MAX:
        raise refuse(param, "this is too large to be sent to a model", expected=f"{MEDIUM_BYTES_MAX} bytes")
    return InlineMedium(param=param, media_type=media_type, encoded=encoded)


_MEDIA_PIECES = frozenset(("image_url", "input_image", "input_audio", "file", "input_file"))


def parse_data_url(url: str, *, param: str) -> InlineMedium:
    """Return the medium of a data URL. Errors: `InvalidRequest` for any other URL, or for a large one."""
    head, comma, encoded = url.partition(",")
    media_type, _, form = head.removeprefix(_DATA_URL).rpartition(";")
    if not head.startswith(_DATA_URL) or not comma or form != "base64":
        is_remote = url.startswith(("http:", "https:"))
        raise refuse(
            param,
            "an image or a file comes as a data URL"
            + ("; addresses are not fetched here" if is_remote else ""),
            expected="data:image/png;base64,...",
            got=url[:40],
            hint="Read the file and send its content." if is_remote else None,
        )
    return inline_medium(media_type, encoded, param=param)


def check_texts(messages: Sequence[ChatMessage], *, param: str) -> None:
    """Refuse texts that no model reads, before they are searched and stored. Errors: `InvalidRequest`."""
    chars = sum(len(one.text) for one in messages)
    if chars > TEXT_CHARS_MAX:
        raise refuse(
            param,
            "the texts are too long for any model",
            expected=f"at most {TEXT_CHARS_MAX:,} characters",
            got=f"{chars:,}",
            hint="Leave out what is long ago, or send files as media.",
        )


def check_arguments(arguments: Iterable[str | None], *, param: str) -> None:
    """Refuse arguments of calls that make too many items: they are JSON inside of texts, which count as one.

    Errors: `InvalidRequest`.
    """
    count = sum(count_items(text.encode(errors="replace")) for text in arguments if text)
    if count > ITEMS_MAX:
        raise refuse(
            param,
            "the arguments of tool calls have too many items",
            expected=f"at most {ITEMS_MAX:,} elements and fields",
            got=f"{count:,}",
            hint="Leave out calls that are long ago, or shorten what they were given.",
        )


def arguments_of(text: str) -> Any:
    """Return a call's arguments: parsed, or the text itself if a model broke it."""
    try:
        return json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text


def _message(stated: _CompletionMessage, at: int) -> ChatMessage:
    param = f"messages.{at}"
    role = "system" if stated.role == "developer" else stated.role
    content = message_parts(stated.content, param=f"{param}.content", role=role)
    calls = tuple(
        ToolCall(id=one.id, name=one.function.name, arguments=arguments_of(one.function.arguments))
        for one in stated.tool_calls or ()
    )
    if calls and role != "assistant":
        raise refuse(f"{param}.tool_calls", "only an assistant calls tools", got=role)
    if (role == "tool") != (stated.tool_call_id is not None):
        raise refuse(f"{param}.tool_call_id", "a message of role tool, and no other, answers a call")
    return ChatMessage(role=role, content=content, tool_calls=calls, tool_call_id=stated.tool_call_id)


def _tools(given: Sequence[_CompletionTool] | None) -> tuple[ToolSchema, ...]:
    found: list[ToolSchema] = []
    for at, one in enumerate(given or ()):
        if one.type != "function" or one.function is None:
            raise refuse(f"tools.{at}", "a tool is a function", expected="function", got=one.type[:40])
        found.append(schema_of_tool(one.function.name, one.function.description, one.function.parameters))
    return tuple(found)


def schema_of_tool(name: str, description: str | None, parameters: dict[str, Any] | None) -> ToolSchema:
    """Return a tool as a model sees it."""
    return ToolSchema(
        name=name,
        description=description or "",
        parameters=parameters or {"type": "object", "properties": {}},
    )


def _schema_of(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    kind = (given or {}).get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    stated: object = given.get("json_schema")
    schema: object = cast("dict[str, Any]", stated).get("schema") if isinstance(stated, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise refuse("response_format", "response_format", expected="text, json_object or json_schema")
    return cast("dict[str, Any]", schema)
