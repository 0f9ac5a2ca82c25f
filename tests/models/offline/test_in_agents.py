"""The offline model in real agents: structured output, skills, memory, compaction, chats, sub-agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, tool
from artelier.agents import SubAgentFactory
from artelier.memory import SQLiteMemoryStore
from artelier.tools.workspace.toolset import workspace_tools

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
SEED = "Analyze the Q3 sales data and write a report."
HEADLINE = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."


class ReportSchema(BaseModel):
    title: str
    summary: str
    findings: list[str]


def with_kernel(path: Path, work: Callable[[Kernel], Awaitable[Any]], *, tools: bool = True) -> Any:
    async def scenario() -> Any:
        ports = workspace_tools(SALES, writable=False) if tools else ()
        with Kernel.open(path / "s.db", tools=ports) as kernel:
            return await work(kernel)

    return asyncio.run(scenario())


def analyst(kernel: Kernel, path: Path, **more: Any) -> AutonomousAgent:
    return AutonomousAgent(
        kernel=kernel,
        context_builder=ContextBuilder(
            identity="You are a senior data analyst.",
            memory_store=SQLiteMemoryStore(db_path=str(path / "memory.db")),
            progressive_skills=True,
        ),
        **more,
    )


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_the_example_of_a_report_runs(tmp_path: Path, tools: bool) -> None:
    async def work(kernel: Kernel) -> Any:
        agent = analyst(kernel, tmp_path, compaction=CompactionStrategy())
        return await agent.run(run_id="r", model="offline", prompt=SEED, output_schema=ReportSchema)

    result = with_kernel(tmp_path, work, tools=tools)

    assert result.status == "completed", (result.reason, result.text)
    report = ReportSchema.model_validate(result.output)
    assert ("26594.32" in report.summary) == tools
    assert ("No data was looked at" in report.summary) == (not tools)


def test_the_headline_has_the_same_figures_through_skills_and_compactions(tmp_path: Path) -> None:
    async def plain(kernel: Kernel) -> Any:
        return await AutonomousAgent(kernel=kernel).run(run_id="plain", model="offline", prompt=HEADLINE)

    async def skilled(kernel: Kernel) -> Any:
        strategy = CompactionStrategy(trigger_at_messages=8, keep_recent_messages=3, summary_tokens_max=4_000)
        agent = analyst(kernel, tmp_path, compaction=strategy)
        result = await agent.run(run_id="skilled", model="offline", prompt=HEADLINE)
        return result, await kernel.for_tenant().compactions("skilled")

    (tmp_path / "a").mkdir()
    one = with_kernel(tmp_path / "a", plain)
    two, receipts = with_kernel(tmp_path, skilled)

    assert (one.status, two.status) == ("completed", "completed"), two.text
    assert one.text == two.text
    assert receipts
    assert all(receipt["how"] == "model" for receipt in receipts)


@pytest.mark.parametrize("summary_tokens", [60, 300])
def test_compactions_that_lose_results_end_the_run_in_time(tmp_path: Path, summary_tokens: int) -> None:
    async def work(kernel: Kernel) -> Any:
        strategy = CompactionStrategy(
            trigger_at_messages=6, keep_recent_messages=1, summary_tokens_max=summary_tokens
        )
        agent = AutonomousAgent(kernel=kernel, compaction=strategy, max_iterations=60)
        return await agent.run(run_id="r", model="offline", prompt=HEADLINE)

    result = with_kernel(tmp_path, work)

    assert result.status in ("completed", "failed")
    assert result.reason != "max_iterations"


def test_what_a_chat_remembers_is_known_in_a_later_session(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> list[str]:
        agent = analyst(kernel, tmp_path)
        first = agent.chat("monday", model="offline")
        told = [
            await first.send("Hello!"),
            await first.send("My name is Ada."),
            await first.send("Remember that I care about the northern harbours."),
            await first.send("What is my name?"),
        ]
        second = agent.chat("tuesday", model="offline")
        told += [
            await second.send("Which harbours do I care about?"),
            await second.send("What is the total revenue?"),
            await second.send("What is my shoe size?"),
            await second.send("My name is Bo."),
            await agent.chat("friday", model="offline").send("What is my name?"),
        ]
        assert all(one.status == "completed" for one in told), [one.text for one in told]
        return [one.text for one in told]

    texts = with_kernel(tmp_path, work)

    assert "Stored in memory" in texts[1] and "Stored in memory" in texts[2]
    assert "Your name is Ada." in texts[3]
    assert "northern harbours" in texts[4]
    assert "Stored in memory" in texts[7]
    assert "Your name is Bo." in texts[8]
    assert "**" in texts[5]
    assert "I do not know" in texts[6]


def test_a_sub_agent_does_the_work_and_its_answer_is_quoted(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> Any:
        ports = workspace_tools(SALES, writable=False)
        factory = SubAgentFactory(kernel=kernel, model="offline", tools=ports)
        child = factory.create(name="researcher", description="Delegates to an agent that reads tables.")
        agent = AutonomousAgent(kernel=kernel, tools=[child])
        return await agent.run(
            run_id="r", model="offline", prompt="Ask the researcher: what is the total revenue?"
        )

    result = with_kernel(tmp_path, work)

    assert result.status == "completed", result.text
    assert "researcher" in result.text
    assert "The total revenue is" in result.text.replace("`", "").replace("*", "")


def test_a_tool_that_must_pass_before_the_end_is_called(tmp_path: Path) -> None:
    checked: list[str] = []

    @tool(side_effect=False)
    def check_figures(area: str = "all") -> str:
        """Check the figures."""
        checked.append(area)
        return "fine"

    async def work(kernel: Kernel) -> Any:
        ports = [*workspace_tools(SALES, writable=False), check_figures]
        agent = AutonomousAgent(kernel=kernel, tools=ports, acceptance=["check_figures"])
        return await agent.run(run_id="r", model="offline", prompt="What is the total revenue?")

    result = with_kernel(tmp_path, work, tools=False)

    assert result.status == "completed", result.text
    assert checked == ["all"]


def test_a_note_in_the_middle_of_the_work_does_not_end_it(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> Any:
        agent = AutonomousAgent(kernel=kernel)
        items = []
        async for item in agent.stream(run_id="r", model="offline", prompt=HEADLINE):
            if not items:
                await kernel.for_tenant().inject("r", "Be quick, the board is waiting.")
            items.append(item)
        return items[-1]

    result = with_kernel(tmp_path, work)

    assert result.status == "completed", result.text
    assert "42983.02" in result.text
