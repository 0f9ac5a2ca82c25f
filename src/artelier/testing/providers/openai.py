"""Chat Completions and Responses of OpenAI, as strict as the real ones.

Sources: developers.openai.com/api/docs/guides/prompt-caching, .../function-calling, .../reasoning and the
reference of both APIs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from artelier.models.params import output_text
from artelier.models.scripted import PlainStep
from artelier.ports.model import ModelReply
from artelier.testing import openai_wire as wire
from artelier.testing.faults import Fault
from artelier.testing.providers.bills import (
    CachedBlock,
    CallBill,
    Json,
    PromptCache,
    Refusal,
    StrictProvider,
    check_papers,
    check_pictures,
    content_bytes,
    medium_of_url,
    objects,
    server_sent,
    sign,
    tile_tokens,
    tokens_of,
)

IMAGE_BYTES_MAX = 50 * 1024 * 1024
IMAGE_PIXELS_MAX = 65_535
PDF_PAGES_MAX = 100
PAGE_TOKENS = 1_500
"""Of a page of a PDF: its text, and an image."""
MARKS_MAX = 4
PREFIX_TOKENS_MIN = 1024
STEP_TOKENS = 128
"""What an automatic cache reads is a multiple of this."""
TOOLS_MAX = 128
CALL_ID_CHARS = 64
STOPS_MAX = 4
MESSAGE_TOKENS = 4
LIFETIME_S = 1800

_TOOL_NAME = re.compile(r"\A[a-zA-Z0-9_-]{1,64}\Z")
_REASONS = re.compile(r"\A(o\d|gpt-5|gpt-6)")
_MARKED = re.compile(r"\A(gpt-5\.[6-9]|gpt-6)")


class _StrictOpenAI(StrictProvider):
    """The part that both APIs share: the cache, the bill, the form of an error."""

    def __init__(
        self,
        script: Sequence[PlainStep | Fault] | Callable[[Json], PlainStep | Fault],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(script, now_s=now_s)
        self._cache = PromptCache(lookback_blocks=None, prefix_tokens_min=PREFIX_TOKENS_MIN, now_s=now_s)
        self._seen: list[list[CachedBlock]] = []

    def blocks(self, body: Json) -> list[CachedBlock]:
        """Return the prompt as blocks in the order of its prefix."""
        raise NotImplementedError

    def bill(self, body: Json) -> CallBill:
        blocks = self.blocks(body)
        if _MARKED.match(str(body["model"])):
            return self._cache.bill(str(body["model"]), blocks)
        read = max((_shared(blocks, before) for before in self._seen), default=0)
        read = read // STEP_TOKENS * STEP_TOKENS if read >= PREFIX_TOKENS_MIN else 0
        self._seen.append(blocks)
        return CallBill(read_tokens=read, fresh_tokens=sum(block.tokens for block in blocks) - read)

    def refuse(self, refusal: Refusal) -> Fault:
        error = wire.error(str(refusal), kind="invalid_request_error", code=None)
        return Fault.raw(json.dumps(error).encode(), status_code=refusal.status_code)

    def counted(self, bill: CallBill, *, output_tokens: int, reasoning_tokens: int = 0) -> CallBill:
        """Return the whole bill, and keep it."""
        whole = CallBill(
            fresh_tokens=bill.fresh_tokens,
            read_tokens=bill.read_tokens,
            written_tokens=bill.written_tokens,
            output_tokens=output_tokens,
            reasoning_tokens=reasoning_tokens,
        )
        self.bills.append(whole)
        return whole


class StrictOpenAIChat(_StrictOpenAI):
    """A double of `POST /v1/chat/completions`."""

    def check(self, body: Json) -> None:
        """Refuse what the API refuses. Errors: `Refusal`."""
        _check_common(body, [tool.get("function", {}) for tool in objects(body.get("tools", []))])
        if _REASONS.match(str(body["model"])) and "max_tokens" in body:
            raise Refusal(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
                " 'max_completion_tokens' instead."
            )
        stops = body.get("stop")
        if isinstance(stops, list) and len(cast(list[object], stops)) > STOPS_MAX:
            raise Refusal(f"Invalid 'stop': array too long. Expected a maximum length of {STOPS_MAX}")
        open_calls: list[str] = []
        for number, message in enumerate(objects(body.get("messages", []))):
            role = message.get("role")
            if role not in ("system", "developer", "user", "assistant", "tool"):
                raise Refusal(f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user'")
            if role == "tool":
                call = str(message.get("tool_call_id"))
                if call not in open_calls:
                    raise Refusal(
                        f"Invalid parameter: messages with role 'tool' must be a response to a preceeding"
                        f" message with 'tool_calls' (messages[{number}])"
                    )
                open_calls.remove(call)
                continue
            _check_open(open_calls)
            open_calls = [str(call.get("id")) for call in objects(message.get("tool_calls") or [])]
            if any(len(call) > CALL_ID_CHARS for call in open_calls):
                raise Refusal(f"Invalid 'tool_calls.id': string too long, maximum length {CALL_ID_CHARS}")
        _check_open(open_calls)

    def blocks(self, body: Json) -> list[CachedBlock]:
        found = [_block(tool) for tool in objects(body.get("tools", []))]
        for message in objects(body["messages"]):
            content = message.get("content")
            rest = {name: value for name, value in message.items() if name != "content"}
            found += _content_blocks(content, rest)
        return found

    def answer(self, body: Json, reply: ModelReply, bill: CallBill) -> Fault:
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 1 << 30)
        written = tokens_of(reply.text) + sum(tokens_of(call.arguments) for call in reply.tool_calls)
        whole = self.counted(bill, output_tokens=min(limit, written))
        usage: Json = {
            "prompt_tokens": whole.input_tokens,
            "completion_tokens": whole.output_tokens,
            "total_tokens": whole.input_tokens + whole.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": whole.read_tokens,
                "cache_write_tokens": whole.written_tokens,
            },
        }
        if written > limit:
            reply = ModelReply(text=reply.text[: limit * 4], finish_reason="length")
        number = len(self.bodies)
        if not body.get("stream"):
            return Fault.raw(
                json.dumps({**wire.completion(reply, body, number=number), "usage": usage}).encode()
            )
        chunks = [*wire.chunks(reply, body, number=number)]
        events = [{**chunk, "usage": usage} if "usage" in chunk else chunk for chunk in chunks]
        return server_sent([*((None, event) for event in events), (None, "[DONE]")])


class StrictOpenAIResponses(_StrictOpenAI):
    """A double of `POST /v1/responses` that keeps nothing between calls."""

    def __init__(
        self,
        script: Sequence[PlainStep | Fault] | Callable[[Json], PlainStep | Fault],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(script, now_s=now_s)
        self._thought: set[int] = set()
        """Answers that began with reasoning."""

    def check(self, body: Json) -> None:
        """Refuse what the API refuses. Errors: `Refusal`."""
        _check_common(body, objects(body.get("tools", [])))
        if isinstance(limit := body.get("max_output_tokens"), int) and limit < 16:
            raise Refusal("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
        if _REASONS.match(str(body["model"])) and "temperature" in body:
            raise Refusal("Unsupported parameter: 'temperature' is not supported with this model.")
        called: list[str] = []
        answered: set[str] = set()
        reasoned: str | None = None
        for item in _items(body):
            kind = item.get("type", "message")
            if kind == "reasoning":
                if item.get("encrypted_content") != sign(str(item.get("id"))):
                    raise Refusal(f"The encrypted content for item {item.get('id')} could not be verified.")
                reasoned = str(item.get("id"))
                continue
            if kind == "function_call":
                called.append(str(item.get("call_id")))
                first = re.fullmatch(r"fc_(\d+)_0", str(item.get("id")))
                if first is not None and int(first[1]) in self._thought and reasoned != f"rs_{first[1]}":
                    raise Refusal(
                        f"Item '{item['id']}' of type 'function_call' was provided without its required"
                        f" 'reasoning' item: 'rs_{first[1]}'."
                    )
            elif kind == "function_call_output":
                if item.get("call_id") not in called:
                    raise Refusal(
                        f"No tool call found for function call output with call_id {item.get('call_id')}."
                    )
                answered.add(str(item.get("call_id")))
            if reasoned is not None and kind == "message" and item.get("role") == "user":
                raise Refusal(
                    f"Item '{reasoned}' of type 'reasoning' was provided without its required following item."
                )
            reasoned = None
        if missing := [call for call in called if call not in answered]:
            raise Refusal(f"No tool output found for function call {missing[0]}.")

    def blocks(self, body: Json) -> list[CachedBlock]:
        found = [_block(tool) for tool in objects(body.get("tools", []))]
        if body.get("instructions"):
            found.append(_block(body["instructions"]))
        for item in _items(body):
            rest = {
                name: value
                for name, value in item.items()
                if name not in ("content", "output", "encrypted_content")
            }
            found += _content_blocks(item.get("content") or item.get("output"), rest)
        return found

    def answer(self, body: Json, reply: ModelReply, bill: CallBill) -> Fault:
        number = len(self.bodies)
        limit = int(body.get("max_output_tokens") or 1 << 30)
        text = reply.text if not reply.tool_calls or reply.text else ""
        output: list[Json] = []
        reasoning_tokens = 0
        if "reasoning" in body:
            key = f"rs_{number}"
            self._thought.add(number)
            output.append({"type": "reasoning", "id": key, "summary": [], "encrypted_content": sign(key)})
            reasoning_tokens = 8
        if text:
            part: Json = {"type": "output_text", "text": text[: limit * 4], "annotations": [], "logprobs": []}
            output.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        for index, call in enumerate(reply.tool_calls):
            output.append(
                {
                    "type": "function_call",
                    "id": f"fc_{number}_{index}",
                    "call_id": call.id or f"call_{number}_{index}",
                    "name": call.name,
                    "arguments": output_text(call.arguments),
                    "status": "completed",
                }
            )
        written = tokens_of(text) + sum(tokens_of(call.arguments) for call in reply.tool_calls)
        is_cut = written > limit
        whole = self.counted(
            bill, output_tokens=min(limit, written + reasoning_tokens), reasoning_tokens=reasoning_tokens
        )
        response: Json = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": body["model"],
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": output,
            "usage": {
                "input_tokens": whole.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": whole.read_tokens,
                    "cache_write_tokens": whole.written_tokens,
                },
                "output_tokens": whole.output_tokens,
                "output_tokens_details": {"reasoning_tokens": whole.reasoning_tokens},
                "total_tokens": whole.input_tokens + whole.output_tokens,
            },
        }
        if not body.get("stream"):
            return Fault.raw(json.dumps(response).encode())
        return server_sent([*response_events(response)])


def response_events(response: Json) -> Iterator[tuple[str | None, Json]]:
    """Yield the events of a streamed response, each with its name."""
    begun: Json = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(objects(response["output"])):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"}
        empty |= {"content": []} if item["type"] == "message" else {}
        empty |= {"arguments": ""} if item["type"] == "function_call" else {}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if item["type"] == "message":
            for number, part in enumerate(objects(item["content"])):
                here = {**place, "content_index": number}
                bare = {**part, "text": ""}
                events.append({"type": "response.content_part.added", **here, "part": bare})
                said: Json = {"delta": part["text"], "logprobs": []}
                events.append({"type": "response.output_text.delta", **here, **said})
                whole: Json = {"text": part["text"], "logprobs": []}
                events.append({"type": "response.output_text.done", **here, **whole})
                events.append({"type": "response.content_part.done", **here, "part": part})
        elif item["type"] == "function_call":
            told = item["arguments"]
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": told})
            done = {"arguments": told, "name": item["name"]}
            events.append({"type": "response.function_call_arguments.done", **place, **done})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    end = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
    events.append({"type": end, "response": response})
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def completion_events(completion: Json) -> Iterator[tuple[str | None, Json | str]]:
    """Yield the chunks of a whole chat completion, as a server streams it."""
    head: Json = {**{k: v for k, v in completion.items() if k not in ("choices", "usage")}}
    head["object"] = "chat.completion.chunk"
    choices = objects(completion["choices"])
    yield None, {**head, "choices": [{"index": c["index"], "delta": c["message"]} for c in choices]}
    ends: list[Json] = [
        {"index": c["index"], "delta": {}, "finish_reason": c["finish_reason"]} for c in choices
    ]
    yield None, {**head, "choices": ends}
    if "usage" in completion:
        yield None, {**head, "choices": [], "usage": completion["usage"]}
    yield None, "[DONE]"


# What both check


def _check_common(body: Json, functions: Sequence[Json]) -> None:
    if "model" not in body:
        raise Refusal("you must provide a model parameter")
    if len(functions) > TOOLS_MAX:
        raise Refusal(f"Invalid 'tools': array too long. Expected an array with maximum length {TOOLS_MAX}")
    for function in functions:
        if not _TOOL_NAME.match(str(function.get("name", ""))):
            raise Refusal("Invalid 'tools.name': string does not match pattern '^[a-zA-Z0-9_-]+$'")
    if (count := json.dumps(body).count('"prompt_cache_breakpoint"')) and not _MARKED.match(
        str(body["model"])
    ):
        raise Refusal("Unknown parameter: 'prompt_cache_breakpoint'.")
    if count > MARKS_MAX and body.get("prompt_cache_options", {}).get("mode") == "explicit":
        raise Refusal(f"At most {MARKS_MAX} prompt cache breakpoints may be provided. Found {count}.")


def _check_open(calls: Sequence[str]) -> None:
    if calls:
        raise Refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(calls)}"
        )


def _items(body: Json) -> list[Json]:
    given = body.get("input", [])
    return [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)


def _content_blocks(content: object, rest: Json) -> list[CachedBlock]:
    """Return the blocks of one message; a text alone is the same as a list of it."""
    parts = [{"text": content}] if isinstance(content, str) else objects(content or [])
    found = (
        [_block(rest, mark=False, extra=MESSAGE_TOKENS)] if set(rest) - {"role", "type"} or not parts else []
    )
    for number, part in enumerate(parts):
        text = part.get("text", part)
        shown = _shown_tokens(part)
        found.append(
            _block(
                [rest.get("role"), text],
                mark="prompt_cache_breakpoint" in part,
                extra=0 if number else 4,
                tokens=shown,
            )
        )
    return found


def _shown_tokens(part: Json) -> int | None:
    """Return the tokens of an image or a PDF; None for what is text. Errors: `Refusal`."""
    kind = part.get("type")
    if kind in ("image_url", "input_image"):
        stated: object = part.get("image_url")
        url = cast(Json, stated).get("url") if isinstance(stated, dict) else stated
        image = medium_of_url(str(url))
        check_pictures([image], count_max=1, bytes_max=IMAGE_BYTES_MAX, side_max=IMAGE_PIXELS_MAX)
        return tile_tokens(image, base=85, tile=170)
    if kind in ("file", "input_file"):
        named = cast(Json, part.get("file") or part)
        if not named.get("filename"):
            raise Refusal("Missing required parameter: 'filename'.")
        paper = medium_of_url(str(named.get("file_data", "")))
        check_papers([paper], pages_max=PDF_PAGES_MAX)
        return paper.pages * PAGE_TOKENS
    return None


def _block(value: object, *, mark: bool = False, extra: int = 0, tokens: int | None = None) -> CachedBlock:
    return CachedBlock(
        content=content_bytes(value),
        tokens=(tokens_of(value) if tokens is None else tokens) + extra,
        lifetime_s=LIFETIME_S if mark else None,
    )


def _shared(blocks: Sequence[CachedBlock], before: Sequence[CachedBlock]) -> int:
    shared = 0
    for mine, theirs in zip(blocks, before, strict=False):
        if mine.content != theirs.content:
            break
        shared += mine.tokens
    return shared
