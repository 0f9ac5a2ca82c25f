"""Answers as OpenAI's clients read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from artelier.kernel import ModelResult
from artelier.ports.model import ToolCall, Usage

FINISHES = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "cut": "length",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, of a model or of a chat."""

    run_id: str
    key: str
    model: str
    """As the program named it."""
    created_s: int
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    cost_microusd: int = 0
    replayed: bool = False

    @property
    def id(self) -> str:
        """The same for a recorded answer as when it was new."""
        return sha256(f"{self.run_id}:{self.key}".encode()).hexdigest()[:24]

    @property
    def facts(self) -> dict[str, Any]:
        """What this server knows besides: where the answer is recorded, and its price."""
        return {
            "run_id": self.run_id,
            "step": self.key,
            "cost_microusd": self.cost_microusd,
            "replayed": self.replayed,
        }

    @property
    def headers(self) -> dict[str, str]:
        return {"Artelier-Run": self.run_id, "Artelier-Replayed": "true" if self.replayed else "false"}


def answer_of(result: ModelResult, *, run_id: str, model: str, created_s: int) -> Answer:
    """Return the answer of a model step."""
    text = result.text
    if not text and result.output is not None and not result.tool_calls:
        text = json.dumps(result.output, ensure_ascii=False, separators=(",", ":"))
    return Answer(
        run_id=run_id,
        key=result.key,
        model=model,
        created_s=created_s,
        text=text,
        tool_calls=result.tool_calls,
        finish="tool_calls" if result.tool_calls else FINISHES.get(result.finish_reason, "stop"),
        usage=result.usage,
        cost_microusd=result.cost_microusd,
        replayed=result.replayed,
    )


def completion(answer: Answer) -> dict[str, Any]:
    """Return a `chat.completion`."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = [wire_call(one) for one in answer.tool_calls]
    elif message["content"] is None:
        message["content"] = ""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    return {
        **_head(answer, "chat.completion"),
        "choices": [choice],
        "usage": usage_of(answer.usage),
        "artelier": answer.facts,
    }


def wire_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_text(call)},
    }


def arguments_text(call: ToolCall) -> str:
    """Return arguments as the model wrote them: text that is no JSON as it is."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))


def usage_of(usage: Usage) -> dict[str, Any]:
    sent, came = usage.prompt_tokens, usage.output_tokens
    return {
        "prompt_tokens": sent,
        "completion_tokens": came,
        "total_tokens": sent + came,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": answer.created_s, "model": answer.model}


class CompletionChunks:
    """The pieces of one streamed completion, in the order in which a client wants them."""

    def __init__(self, head: Answer, *, wants_usage: bool) -> None:
        self._head = head
        self._wants_usage = wants_usage
        self._sent = ""

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, text: str) -> bytes:
        self._sent += text
        return self._chunk({"content": text})

    def end(self, answer: Answer) -> list[bytes]:
        """Return the rest of the text, calls of tools, why it ended, usage if it was wished, and the end."""
        found: list[bytes] = []
        if answer.text.startswith(self._sent) and (rest := answer.text[len(self._sent) :]):
            found.append(self.delta(rest))
        for index, call in enumerate(answer.tool_calls):
            found.append(self._chunk({"tool_calls": [{"index": index, **wire_call(call)}]}))
        found.append(self._chunk({}, finish=answer.finish, facts=answer.facts))
        if self._wants_usage:
            found.append(frame({**_head(self._head, CHUNK), "choices": [], "usage": usage_of(answer.usage)}))
        return [*found, b"data: [DONE]\n\n"]

    def _chunk(
        self, delta: Mapping[str, Any], *, finish: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more: dict[str, Any] = {} if facts is None else {"artelier": facts}
        return frame({**_head(self._head, CHUNK), "choices": [choice], **more})


CHUNK = "chat.completion.chunk"


def frame(value: Mapping[str, Any], *, event: str = "") -> bytes:
    """Return one server-sent event. What is no Unicode is replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + text + b"\n\n"
