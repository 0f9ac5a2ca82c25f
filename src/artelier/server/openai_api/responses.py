"""`/v1/responses`, as far as it needs no memory of ours: each request brings the whole conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, ValidationError

from artelier.ports.model import ChatMessage, ToolCall, ToolSchema
from artelier.server.openai_api.replies import (
    AnswerFacts,
    CachedTokens,
    ProgramAnswer,
    ReasoningTokens,
    arguments_text,
    frame,
)
from artelier.server.openai_api.requests import (
    MESSAGES_MAX,
    AskedCall,
    Listed,
    WireModel,
    arguments_of,
    check_arguments,
    check_refused,
    check_texts,
    check_values,
    choose_tools,
    message_parts,
    misfit,
    params_beyond,
    refuse,
    schema_of_tool,
)

INPUT_CHARS_MAX = 1_000_000
REFUSED = (
    *("previous_response_id", "conversation", "background", "prompt", "max_tool_calls"),
    "top_logprobs",
)
"""What needs answers to be kept for the client, is the provider's own, or is not passed on."""


INCLUDED = ("reasoning.encrypted_content",)
"""May be asked for: there is none, since reasoning is not given out."""


class _ResponsePiece(WireModel):
    type: str
    text: str | None = None
    image_url: str | None = None
    file_data: str | None = None

    @property
    def medium(self) -> tuple[str, str]:
        """No media type apart, and the data URL; empty for a text."""
        return "", self.image_url or self.file_data or ""


class _ResponseItem(WireModel):
    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | Listed[_ResponsePiece] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | Listed[_ResponsePiece] | None = None


class _ResponseTool(WireModel):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _ResponseFormat(WireModel):
    type: str = "text"
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")


class _ResponseText(WireModel):
    format: _ResponseFormat | None = None
    verbosity: str | None = None


class _ResponseReasoning(WireModel):
    effort: str | None = None


class ResponseRequest(WireModel):
    """The body of `POST /v1/responses`."""

    model: str = Field(min_length=1, max_length=300)
    input: (
        Annotated[str, Field(max_length=INPUT_CHARS_MAX)]
        | Annotated[Listed[_ResponseItem], Field(max_length=MESSAGES_MAX)]
    )
    instructions: str | None = None
    stream: bool | None = None
    include: list[str] | None = None
    tools: Listed[_ResponseTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: _ResponseText | None = None
    reasoning: _ResponseReasoning | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    parallel_tool_calls: bool | None = None


def read_response(body: bytes) -> AskedCall:
    """Return what a body of `/v1/responses` asks. Errors: `InvalidRequest` that names the parameter."""
    try:
        asked = ResponseRequest.model_validate_json(body)
    except ValidationError as error:
        raise misfit(error) from None
    check_refused(asked.model_extra or {}, REFUSED)
    if wanted := [one for one in asked.include or () if one not in INCLUDED]:
        raise refuse("include", "nothing can be included", expected=", ".join(INCLUDED), got=wanted[0][:80])
    messages = [] if asked.instructions is None else [ChatMessage(role="system", content=asked.instructions)]
    messages += _messages(asked.input)
    effort = asked.reasoning.effort if asked.reasoning is not None else None
    params: dict[str, Any] = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "parallel_tool_calls": asked.parallel_tool_calls,
        "max_output_tokens": asked.max_output_tokens,
        "thinking": False if effort == "none" else effort,
        "verbosity": asked.text.verbosity if asked.text is not None else None,
        **params_beyond(asked.model_extra or {}),
    }
    params = check_values(params, {"thinking": "reasoning.effort", "verbosity": "text.verbosity"})
    check_texts(messages, param="input")
    tools, params["tool_choice"] = choose_tools(_tools(asked.tools), asked.tool_choice)
    return AskedCall(
        model=asked.model,
        messages=tuple(messages),
        tools=tools,
        output_schema=_schema_of(asked.text),
        params={name: value for name, value in params.items() if value is not None},
        is_streamed=bool(asked.stream),
        wants_usage=True,
    )


def _messages(given: str | Sequence[_ResponseItem]) -> list[ChatMessage]:
    """Return items as messages: calls that stand in a row belong to one message of the assistant."""
    if isinstance(given, str):
        return [ChatMessage(role="user", content=given)]
    check_arguments((item.arguments for item in given), param="input")
    found: list[ChatMessage] = []
    for at, item in enumerate(given):
        param = f"input.{at}"
        if item.type == "message" and item.role is not None:
            role = "system" if item.role == "developer" else item.role
            content = message_parts(item.content, param=f"{param}.content", role=role)
            found.append(ChatMessage(role=role, content=content))
        elif item.type == "function_call" and item.call_id and item.name:
            call = ToolCall(id=item.call_id, name=item.name, arguments=arguments_of(item.arguments or "{}"))
            last = found[-1] if found and found[-1].role == "assistant" else None
            if last is not None:
                found[-1] = ChatMessage(
                    role="assistant", content=last.content, tool_calls=(*last.tool_calls, call)
                )
            else:
                found.append(ChatMessage(role="assistant", tool_calls=(call,)))
        elif item.type == "function_call_output" and item.call_id:
            content = message_parts(item.output, param=f"{param}.output", role="tool")
            found.append(ChatMessage(role="tool", content=content, tool_call_id=item.call_id))
        elif item.type != "reasoning":  # its text is the provider's, and was never kept here
            raise refuse(
                param,
                "an item of the input",
                expected="message, function_call or function_call_output",
                got=item.type[:40],
            )
    return found


def _tools(given: Sequence[_ResponseTool] | None) -> tuple[ToolSchema, ...]:
    found: list[ToolSchema] = []
    for at, one in enumerate(given or ()):
        if one.type != "function" or not one.name:
            raise refuse(f"tools.{at}", "a tool is a function", expected="function", got=one.type[:40])
        found.append(schema_of_tool(one.name, one.description, one.parameters))
    return tuple(found)


def _schema_of(text: _ResponseText | None) -> dict[str, Any] | None:
    stated = text.format if text is not None else None
    if stated is None or stated.type == "text":
        return None
    if stated.type == "json_object":
        return {"type": "object"}
    if stated.type != "json_schema" or stated.json_schema is None:
        raise refuse("text.format", "text.format", expected="text, json_object or json_schema")
    return stated.json_schema


# Answers


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text of a message."""

    text: str
    type: str = "output_text"
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    status: str
    content: list[OutputText]
    type: str = "message"
    role: str = "assistant"


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    call_id: str
    name: str
    arguments: str
    status: str
    type: str = "function_call"


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class CutDetails(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = "max_output_tokens"


class WireResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A `response`; it is not kept under its id."""

    id: str
    created_at: int
    model: str
    status: str
    output: list[MessageItem | CallItem]
    usage: ResponseUsage
    artelier: AnswerFacts
    incomplete_details: CutDetails | None = None
    object: str = "response"
    error: None = None
    instructions: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    tool_choice: str = "auto"
    tools: tuple[()] = ()
    temperature: None = None
    top_p: None = None
    store: bool = False


def response(answer: ProgramAnswer, *, is_begun: bool = False) -> WireResponse:
    """Return an answer as a `response`; `is_begun`: nothing of it is there yet."""
    is_cut = answer.finish == "length"
    usage = answer.usage
    return WireResponse(
        id=f"resp_{answer.id}",
        created_at=answer.created_s,
        model=answer.model,
        status="in_progress" if is_begun else "incomplete" if is_cut else "completed",
        incomplete_details=CutDetails() if is_cut else None,
        output=[] if is_begun else _output(answer),
        usage=ResponseUsage(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=CachedTokens(cached_tokens=usage.cached_input_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=ReasoningTokens(reasoning_tokens=usage.reasoning_tokens),
            total_tokens=usage.prompt_tokens + usage.output_tokens,
        ),
        artelier=answer.facts,
    )


def _output(answer: ProgramAnswer) -> list[MessageItem | CallItem]:
    items: list[MessageItem | CallItem] = []
    if answer.text or not answer.tool_calls:
        text = OutputText(text=answer.text)
        items.append(MessageItem(id=f"msg_{answer.id}", status="completed", content=[text]))
    for index, call in enumerate(answer.tool_calls):
        items.append(
            CallItem(
                id=f"fc_{answer.id}_{index}",
                call_id=call.id,
                name=call.name,
                arguments=arguments_text(call),
                status="completed",
            )
        )
    return items


class ResponseEvents:
    """The events of one streamed response."""

    def __init__(self, head: ProgramAnswer) -> None:
        self._head = head
        self._item_id = f"msg_{head.id}"
        self._number = 0
        self._sent = ""
        self._has_item = False

    def begin(self) -> bytes:
        shown = response(self._head, is_begun=True)
        return self._event("response.created", response=shown) + self._event(
            "response.in_progress", response=shown
        )

    def delta(self, text: str) -> bytes:
        found = b"" if self._has_item else self._begin_item()
        self._sent += text
        return found + self._text_event("response.output_text.delta", delta=text, logprobs=())

    def end(self, answer: ProgramAnswer) -> list[bytes]:
        """Return the rest of the text, calls of tools, and the whole response."""
        found: list[bytes] = []
        if answer.text.startswith(self._sent) and (rest := answer.text[len(self._sent) :]):
            found.append(self.delta(rest))
        elif not answer.tool_calls and not self._has_item:
            found.append(self._begin_item())
        if self._has_item:
            piece = OutputText(text=answer.text)
            found.append(self._text_event("response.output_text.done", text=answer.text, logprobs=()))
            found.append(self._text_event("response.content_part.done", part=piece))
        for index, item in enumerate(_output(answer)):
            if isinstance(item, CallItem):
                found += self._call_events(index, item)
            found.append(self._event("response.output_item.done", output_index=index, item=item))
        whole = response(answer)
        return [*found, self._event(f"response.{whole.status}", response=whole)]

    def _call_events(self, index: int, item: CallItem) -> list[bytes]:
        begun = msgspec.structs.replace(item, arguments="", status="in_progress")
        place = {"item_id": item.id, "output_index": index}
        kind = "response.function_call_arguments"
        return [
            self._event("response.output_item.added", output_index=index, item=begun),
            self._event(f"{kind}.delta", **place, delta=item.arguments),
            self._event(f"{kind}.done", **place, name=item.name, arguments=item.arguments),
        ]

    def _begin_item(self) -> bytes:
        self._has_item = True
        item = MessageItem(id=self._item_id, status="in_progress", content=[])
        added = self._event("response.output_item.added", output_index=0, item=item)
        return added + self._text_event("response.content_part.added", part=OutputText(text=""))

    def _text_event(self, kind: str, **fields: object) -> bytes:
        return self._event(kind, item_id=self._item_id, output_index=0, content_index=0, **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        value = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return frame(value, event=kind)
