"""The cycle that is measured: a model that answers at once, then one read-only tool.

Each cycle appends the model's call and one 0.76 KB result to a conversation; a request shows its last 20
messages. The tokens and prices are those of a free model: what is measured is the kernel.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, ToolCall, Usage, tool
from artelier.kernel import Conversation, Run
from artelier.ports.model import FREE, Price

PAYLOAD_CHARS = 760
SHOWN = 20
"""Messages of the conversation that a request shows."""

_draw = random.Random(1)
_TEXTS = tuple(
    "".join(_draw.choices("abcdefghijklmnopqrstuvwxyz     ", k=PAYLOAD_CHARS - 8)) for _ in range(64)
)


@tool(side_effect=False)
async def fetch(n: int) -> str:
    """Fetch row n."""
    return f"{n:08d}{_TEXTS[n % len(_TEXTS)]}"


class CallingModel:
    """Answers every request with one call of `fetch`, after `delay_s`."""

    price: Price | None = FREE

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.calls = 0
        self._delay_s = delay_s

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        self.calls += 1
        call = ToolCall(id=f"c{self.calls}", name="fetch", arguments={"n": self.calls})
        usage = Usage(input_tokens=4_000, output_tokens=30)
        return ModelReply(tool_calls=(call,), usage=usage)


def open_kernel(path: Path | str, model: CallingModel, **more: Any) -> Kernel:
    return Kernel.open(path, models={"bench": model}, tools=[fetch], **more)


def begin(run: Run) -> Conversation:
    """The run's conversation with its first message."""
    conversation = run.conversation()
    conversation.append({"role": "user", "content": "Fetch the rows, one by one."})
    return conversation


async def cycles(run: Run, conversation: Conversation, count: int, *, shown: int = SHOWN) -> None:
    """Run `count` model+tool cycles whose requests show the last `shown` messages."""
    for _ in range(count):
        reply = await run.step_model(model="bench", messages=conversation.tail(shown), tools=["fetch"])
        conversation.append(reply)
        call = reply.tool_calls[0]
        conversation.append(await run.step_tool(call.name, call.arguments, call=call))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a stretch of cycles, per cycle."""

    wall_ms: float
    cpu_ms: float
    """Of the whole process: the event loop's thread and the writer's."""
    commits: float


class Meter:
    """Measures stretches of work on one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._wall_s = self._cpu_s = 0.0
        self._commits = 0

    def start(self) -> None:
        self._commits = self._kernel.store.commits
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def stop(self, count: int) -> Cost:
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        return Cost(
            wall_ms=wall_s / count * 1000,
            cpu_ms=cpu_s / count * 1000,
            commits=(self._kernel.store.commits - self._commits) / count,
        )
