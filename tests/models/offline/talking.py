"""Drives the offline model with plain functions as tools: memory, skills, agents, and compaction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artelier.models.offline import OfflineModel
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall, ToolSchema

ROUNDS_MAX = 25
TEXT = {"type": "string"}
Function = Callable[..., Any]


def schema_of(name: str, description: str = "", /, **properties: Any) -> ToolSchema:
    """A tool whose parameters are all required but those that allow null."""
    required = [one for one, inner in properties.items() if "anyOf" not in inner]
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolSchema(name=name, description=description, parameters=parameters)


OPTIONAL_TEXT = {"anyOf": [TEXT, {"type": "null"}]}
MEMORY_TOOLS = (
    schema_of("core_memory_append", "Write into core memory.", content=TEXT, block=OPTIONAL_TEXT),
    schema_of("core_memory_search", "Search memory.", query=TEXT),
    schema_of("recall", "Search long-term memory.", query=TEXT),
)
SKILL_TOOLS = (
    schema_of("load_skill", "Load a skill.", skill_name=TEXT),
    schema_of("use_skill", "Use a loaded skill.", name=TEXT, arguments={"type": "object"}),
    schema_of("unload_skill", "Forget a skill.", skill_name=TEXT),
)


@dataclass
class Talk:
    """A conversation that grows with each turn of the model."""

    tools: Sequence[ToolSchema] = ()
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    system: Sequence[str] = ()
    schema: dict[str, Any] | None = None
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    compact: Callable[[list[ChatMessage]], list[ChatMessage]] | None = None
    """Changes what the model is shown before each call."""
    tail: str = ""
    """Facts below the last message."""
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def request(self) -> ModelRequest:
        shown = self.messages if self.compact is None else self.compact(self.messages)
        system = [ChatMessage(role="system", content=text) for text in self.system]
        messages = [*system, *shown]
        if self.tail:
            last = messages[-1]
            content = f"{last.text}\n\n{self.tail}"
            messages[-1] = ChatMessage(role=last.role, content=content, tool_call_id=last.tool_call_id)
        return ModelRequest(
            model="offline",
            messages=tuple(messages),
            tools=tuple(self.tools),
            output_schema=self.schema,
            params=self.params,
        )

    def once(self) -> ModelReply:
        return asyncio.run(OfflineModel().complete(self.request()))

    def say(self, text: str) -> ModelReply:
        """The final reply to a message; tools are called as the model wants."""
        self.messages.append(ChatMessage(role="user", content=text))
        for _ in range(ROUNDS_MAX):
            reply = self.once()
            self.messages.append(
                ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls)
            )
            if not reply.tool_calls:
                return reply
            for call in reply.tool_calls:
                self.calls.append(call)
                content = _shown(self.functions[call.name](**call.arguments))
                self.messages.append(ChatMessage(role="tool", content=content, tool_call_id=call.id))
        raise AssertionError(f"no answer after {ROUNDS_MAX} rounds: {text}")

    @property
    def called(self) -> list[str]:
        return [call.name for call in self.calls]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def answer(
    text: str, *, schema: dict[str, Any] | None = None, tools: Sequence[ToolSchema] = (), **params: Any
) -> ModelReply:
    """The reply to one message without any turn before it."""
    message = ChatMessage(role="user", content=text)
    request = ModelRequest(
        model="offline", messages=(message,), tools=tuple(tools), output_schema=schema, params=params
    )
    return asyncio.run(OfflineModel().complete(request))
