"""Drives the offline model with real workspace tools, as an agent's loop would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artelier.errors import ArtelierError
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall
from artelier.ports.tool import ToolContext
from artelier.tools.built_in import workspace_tools
from artelier.tools.function import Tool
from artelier_offline import OfflineModel

ROUNDS_MAX = 12
SYSTEM = "You are an analyst. Use the tools and report only what they return."


@dataclass
class Asked:
    """A finished conversation."""

    reply: ModelReply
    messages: list[ChatMessage]

    @property
    def text(self) -> str:
        return self.reply.text

    @property
    def calls(self) -> list[ToolCall]:
        return [call for message in self.messages for call in message.tool_calls]


class Workspace:
    """The tools of one folder, kept open over many questions."""

    def __init__(self, root: Path) -> None:
        self._tools = {tool.name: tool for tool in workspace_tools(root, writable=False)}

    def ask(
        self,
        question: str,
        *,
        schema: dict[str, Any] | None = None,
        without: Sequence[str] = (),
        params: dict[str, Any] | None = None,
    ) -> Asked:
        return asyncio.run(self._ask(question, schema=schema, without=without, params=params or {}))

    async def _ask(
        self, question: str, *, schema: dict[str, Any] | None, without: Sequence[str], params: dict[str, Any]
    ) -> Asked:
        model = OfflineModel()
        tools = tuple(tool.schema for name, tool in self._tools.items() if name not in without)
        messages = [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=question)]
        for _ in range(ROUNDS_MAX):
            request = ModelRequest(
                model="offline", messages=tuple(messages), tools=tools, output_schema=schema, params=params
            )
            reply = await model.complete(request)
            assert (await model.complete(request)).canonical() == reply.canonical()
            messages.append(ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls))
            if not reply.tool_calls:
                return Asked(reply=reply, messages=messages)
            for call in reply.tool_calls:
                content = msgspec.json.encode(await self._call(call)).decode()
                messages.append(ChatMessage(role="tool", content=content, tool_call_id=call.id))
        raise AssertionError(f"no answer after {ROUNDS_MAX} rounds: {question}")

    async def _call(self, call: ToolCall) -> Any:
        tool: Tool[..., Any] = self._tools[call.name]
        try:
            return await tool.call(tool.validate(call.arguments), context_of(call.id))
        except ArtelierError as error:
            return {"error": error.to_wire()}


def context_of(key: str) -> ToolContext:
    async def spend(micro: int) -> None:
        raise AssertionError("nothing is spent")

    async def ask(question: str, details: Any, before_acting: bool) -> Any:
        raise AssertionError("nobody is asked")

    return ToolContext(
        run_id="r1",
        tenant_id="t1",
        principal="tester",
        idempotency_key=key,
        deadline_us=None,
        progress=lambda note: None,
        spend=spend,
        cancelled=lambda: False,
        ask=ask,
    )
