"""What tests of sub-agents stand on: a boss whose model delegates, and workers that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, ModelRequest, ToolContext, tool
from artelier.agents import SubAgentFactory
from artelier.ports.model import ToolCall
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import EAGER

CHILD = "r::sub_agent::default/r:c1/tool/0"
"""The child of the first call of run `r`."""


def hand(prompt: str, *, to: str = "worker") -> ToolCall:
    """A call that hands a task over."""
    return tool_call(to, {"prompt": prompt})


def open_family(folder: Path, models: dict[str, Any], **more: Any) -> Kernel:
    """A kernel with one scripted model per role."""
    more.setdefault("policy", EAGER)
    return Kernel.open(folder / "s.db", models=models, **more)


def worker(kernel: Kernel, factory: dict[str, Any] | None = None, **more: Any) -> Any:
    """A sub-agent called `worker`, answered by the model of that name."""
    wish: dict[str, Any] = {
        "name": "worker",
        "description": "Works.",
        "system_prompt": "You work.",
        "model": "worker",
        **more,
    }
    return SubAgentFactory(kernel=kernel, **(factory or {})).create(**wish)


def boss(kernel: Kernel, *tools: Any, **more: Any) -> AutonomousAgent:
    more.setdefault("agent_id", "boss")
    return AutonomousAgent(kernel=kernel, tools=tools, **more)


async def work(agent: AutonomousAgent, run_id: str = "r", **more: Any) -> Any:
    """Have the boss's run driven; it is started or goes on."""
    more.setdefault("on_wait", "return")
    return await agent.run(run_id=run_id, model="boss", prompt="Have it done.", **more)


def told(model: ScriptedModel, number: int = -1) -> list[str]:
    """The tool results that a model saw in one of its requests, in order."""
    return [message.text for message in model.requests[number].messages if message.role == "tool"]


def task_of(request: ModelRequest) -> str:
    """What a worker was told to do."""
    return next(message.text for message in request.messages if message.role == "user")


async def statuses(kernel: Kernel, tenant: str | None = None) -> dict[str, str]:
    items = (await kernel.for_tenant(tenant).runs())["items"]
    return {item["id"]: item["status"] for item in items}


def shape(tree: Mapping[str, Any]) -> Any:
    """A tree of runs as nested names and statuses."""
    return (tree["id"], tree["status"], [shape(child) for child in tree["children"]])


class Gate:
    """A model's step that answers when the test says so; `asked` tells that it was called."""

    def __init__(self, reply: Any = "late") -> None:
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()
        self._reply = reply

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.set()
        await self.opened.wait()
        return self._reply(request) if callable(self._reply) else self._reply


class Bank:
    """The outside: payments that a tool makes, each once; `entered` tells that one is under way."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.paid: list[str] = []

    def tool(self) -> Any:
        async def pay(to: str, ctx: ToolContext) -> str:
            "Pay."
            self.entered.set()
            await self.opened.wait()
            self.paid.append(ctx.idempotency_key)
            return f"paid {to}"

        return tool(side_effect=True)(pay)


def asking(question: str = "Sure?") -> Any:
    """A tool that asks a person."""

    async def sure(ctx: ToolContext) -> str:
        "Ask."
        return (await ctx.ask(question)).decision

    return tool(side_effect=False)(sure)


def all_in(found: dict[str, str], status: str) -> bool:
    return set(found.values()) == {status}


async def at_work(kernel: Kernel, agent: Any, gate: asyncio.Event, **more: Any) -> Any:
    """The task of a boss whose child has come to a gate."""
    task = asyncio.ensure_future(work(agent, **more))
    await gate.wait()
    return task
