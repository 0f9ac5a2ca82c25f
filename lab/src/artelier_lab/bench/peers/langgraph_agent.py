"""LangGraph: its prebuilt agent over the SQLite checkpointer; each step is durable before the next begins."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.prebuilt import create_react_agent

from artelier_lab.bench.peers.workload import TASK, Watch, following, note

PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite")


class _Model(BaseChatModel):
    turns: int
    watch: Any

    @property
    def _llm_type(self) -> str:
        return "function"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        number = following(str(messages[-1].content))
        self.watch.note_asked(number)
        calls: list[Any] = [{"name": "note", "args": {"number": number}, "id": f"c{number}"}]
        is_done = number > self.turns
        said = AIMessage(content="done") if is_done else AIMessage(content="", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


async def _run(graph: Any, thread: str, turns: int) -> None:
    config: dict[str, Any] = {"configurable": {"thread_id": thread}, "recursion_limit": 2 * turns + 10}
    known = (await graph.aget_state(config)).values
    state = await graph.ainvoke(None if known else {"messages": [("user", TASK)]}, config, durability="sync")
    assert state["messages"][-1].content == "done"


async def _with_graph(folder: Path, turns: int, watch: Watch, runs: Sequence[str]) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        graph = create_react_agent(_Model(turns=turns, watch=watch), [tool(note)], checkpointer=saver)
        await asyncio.gather(*(_run(graph, run, turns) for run in runs))


def converse(folder: Path, turns: int, watch: Watch) -> None:
    """Run one agent for so many turns, or go on with it."""
    asyncio.run(_with_graph(folder, turns, watch, ["r"]))


def crowd(folder: Path, runs: int, watch: Watch) -> None:
    """Run so many agents at once, one turn each."""
    asyncio.run(_with_graph(folder, 1, watch, [f"r{number}" for number in range(runs)]))
