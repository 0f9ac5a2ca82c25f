"""Artelier: an `AutonomousAgent` over SQLite, with a manifest, a hold and a price for each call."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import AutonomousAgent, CompactionStrategy, Kernel, ModelReply, ModelRequest, tool
from artelier.ports.model import FREE, ToolCall, Usage
from artelier_lab.bench.peers.workload import TASK, Watch, following, note

PACKAGES = ("artelier",)


class _Model:
    price = FREE

    def __init__(self, turns: int, watch: Watch) -> None:
        self._turns, self._watch = turns, watch

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        number = following(request.messages[-1].text)
        self._watch.note_asked(number)
        usage = Usage(input_tokens=1, output_tokens=1)
        if number > self._turns:
            return ModelReply(text="done", usage=usage)
        call = ToolCall(id=f"c{number}", name="note", arguments={"number": number})
        return ModelReply(tool_calls=(call,), usage=usage)


def _opened(folder: Path, turns: int, watch: Watch) -> Kernel:
    noting = tool(side_effect=False)(note)
    return Kernel.open(folder / "artelier.db", models={"m": _Model(turns, watch)}, tools=[noting], environ={})


async def _run(kernel: Kernel, run: str, turns: int) -> None:
    # The peers show the model the whole conversation, so this one does not summarise it either.
    whole = CompactionStrategy(trigger_at_messages=None, trigger_at_fraction=None)
    agent = AutonomousAgent(kernel=kernel, max_iterations=turns + 2, compaction=whole)
    result = await agent.run(run_id=run, model="m", prompt=TASK)
    assert (result.status, result.text) == ("completed", "done"), result


def converse(folder: Path, turns: int, watch: Watch) -> None:
    """Run one agent for so many turns, or go on with it."""
    with _opened(folder, turns, watch) as kernel:
        asyncio.run(_run(kernel, "r", turns))


def crowd(folder: Path, runs: int, watch: Watch) -> None:
    """Run so many agents at once, one turn each."""

    async def all_of() -> None:
        await asyncio.gather(*(_run(kernel, f"r{number}", 1) for number in range(runs)))

    with _opened(folder, 1, watch) as kernel:
        asyncio.run(all_of())
