"""Runs whose database, or whose file of memories, is removed while they are at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, tool
from artelier.context import ContextBuilder
from artelier.errors import StoreUnavailable
from artelier.memory import SQLiteMemoryStore
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import told
from tests.kernel.stage import EAGER, play


def test_a_run_whose_database_is_removed_does_not_report_completed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    @tool(side_effect=False)
    async def tidy() -> str:
        """Remove what is in the way."""
        path.unlink()
        return "tidy"

    async def scenario() -> None:
        model = ScriptedModel([tool_call("tidy", {}), "all is well"])
        with Kernel.open(path, models={"m": model}, policy=EAGER) as kernel:
            agent = AutonomousAgent(kernel=kernel, tools=[tidy], agent_id="ana")
            with pytest.raises(StoreUnavailable, match="removed or replaced"):
                await agent.run(run_id="r", model="m", prompt="Tidy up.")

    play(scenario())


def test_a_memory_tool_says_that_its_file_was_removed(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"

    async def scenario() -> None:
        note = tool_call("core_memory_append", {"content": "Ana likes tea"})
        model = ScriptedModel([note, "I could not note it"])
        with (
            SQLiteMemoryStore(file) as memories,
            Kernel.open(tmp_path / "s.db", models={"m": model}, policy=EAGER) as kernel,
        ):
            memory = memories.for_agent("default", "ana")
            await memory.append("first", key="1")
            file.unlink()
            builder = ContextBuilder(identity="You remember.", memory_store=memories)
            agent = AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="ana")
            result = await agent.run(run_id="r", model="m", prompt="Note that I like tea.")

            assert result.text == "I could not note it"
            said: dict[str, Any] = json.loads(told(model)[0])
            assert "removed or replaced" in json.dumps(said["error"])
            blocks = await memory.blocks()
            assert not any("tea" in block.text for block in blocks)

    play(scenario())
