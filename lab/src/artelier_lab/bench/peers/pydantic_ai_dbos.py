"""PydanticAI with its own integration of DBOS, over the SQLite system database."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from artelier_lab.bench.peers.dbos_workflow import launch
from artelier_lab.bench.peers.workload import TASK, Watch, following, note

PACKAGES = ("pydantic-ai-slim", "dbos")

_state: dict[str, Any] = {"watch": Watch(), "turns": 0}


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    number = following(str(getattr(messages[-1].parts[-1], "content", "")))
    _state["watch"].note_asked(number)
    if number > _state["turns"]:
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("note", {"number": number}, tool_call_id=f"c{number}")])


_agent = Agent(FunctionModel(_answer), name="peer", capabilities=[DBOSDurability()])


@_agent.tool_plain(name="note")
@DBOS.step(name="peer_note")
async def _note(number: int) -> str:
    """Note a number."""
    return note(number)


@DBOS.workflow()
async def _whole(turns: int) -> str:
    limits = UsageLimits(request_limit=turns + 2)
    return (await _agent.run(TASK, usage_limits=limits)).output


async def _run(run: str, turns: int) -> None:
    with SetWorkflowID(run):
        handle = await DBOS.start_workflow_async(_whole, turns)
    assert await handle.get_result() == "done"


def _work(folder: Path, runs: Sequence[str], turns: int, watch: Watch) -> None:
    _state.update(watch=watch, turns=turns)

    async def all_of() -> None:
        await asyncio.gather(*(_run(run, turns) for run in runs))

    launch(folder)
    asyncio.run(all_of())
    DBOS.destroy()


def converse(folder: Path, turns: int, watch: Watch) -> None:
    """Run one agent for so many turns, or go on with it."""
    _work(folder, ["r"], turns, watch)


def crowd(folder: Path, runs: int, watch: Watch) -> None:
    """Run so many agents at once, one turn each."""
    _work(folder, [f"r{number}" for number in range(runs)], 1, watch)
