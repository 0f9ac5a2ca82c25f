"""OpenAI Agents SDK with its `SQLiteSession`, which keeps what was said and not what was done."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from artelier_lab.bench.peers.workload import TASK, Watch, following, note

PACKAGES = ("openai-agents",)


class _Model(Model):
    def __init__(self, turns: int, watch: Watch) -> None:
        self._turns, self._watch = turns, watch

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        last = input if isinstance(input, str) else input[-1]
        number = following(
            last if isinstance(last, str) else str(last.get("output", last.get("content", "")))
        )
        self._watch.note_asked(number)
        if number > self._turns:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            said = ResponseFunctionToolCall(
                arguments=json.dumps({"number": number}),
                call_id=f"c{number}",
                name="note",
                type="function_call",
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("this model does not stream")


async def _run(folder: Path, run: str, turns: int, watch: Watch) -> None:
    session = SQLiteSession(run, folder / "agents.db")
    agent = Agent(name="peer", model=_Model(turns, watch), tools=[function_tool(note)])
    asked: Any = [] if await session.get_items(limit=1) else TASK
    result = await Runner.run(agent, asked, session=session, max_turns=turns + 2, run_config=RunConfig())
    assert result.final_output == "done"


def _work(folder: Path, runs: Sequence[str], turns: int, watch: Watch) -> None:
    set_tracing_disabled(True)

    async def all_of() -> None:
        await asyncio.gather(*(_run(folder, run, turns, watch) for run in runs))

    asyncio.run(all_of())


def converse(folder: Path, turns: int, watch: Watch) -> None:
    """Run one agent for so many turns, or go on with it."""
    _work(folder, ["r"], turns, watch)


def crowd(folder: Path, runs: int, watch: Watch) -> None:
    """Run so many agents at once, one turn each."""
    _work(folder, [f"r{number}" for number in range(runs)], 1, watch)
