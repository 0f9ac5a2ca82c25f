"""Real missions on the offline model: planned, launched, steered, and ended by the engine itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.missions.steering.store import SteeringStore
from artelier.tools.workspace.toolset import workspace_tools

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
HEADLINE = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."


def in_desk(path: Path, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        tools = workspace_tools(SALES, writable=False)
        with Kernel.open(path / "s.db", tools=tools) as kernel:
            return await work(kernel.for_tenant())

    return asyncio.run(scenario())


async def mission(desk: Any, goal: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A mission launched at once, and its tasks as they ended."""
    planned = await desk.plan(goal, mission_id="m", model="offline", workspace=str(SALES), auto_launch=True)
    shown = await desk.mission(planned["mission"])
    return shown, [await desk.tasks.show(task["id"]) for task in shown["tasks"]]


def actions(task: dict[str, Any]) -> list[str]:
    return [one["tool"] or one["action"] for one in task["iterations"]]


def test_the_headline_mission_ends_with_the_right_report(tmp_path: Path) -> None:
    shown, (figures, report) = in_desk(tmp_path, lambda desk: mission(desk, HEADLINE))

    assert shown["status"] == "completed"
    assert actions(figures) == ["describe_tables", "query_sql", "query_sql", "create_artifact"]
    assert (figures["status"], report["status"]) == ("done", "done")
    assert report["iteration_count"] == 1
    for figure in ("42983.02", "26819.64", "19748.24", "-2524.75"):
        assert figure in shown["text"]


def test_texts_and_tables_meet_in_a_letter(tmp_path: Path) -> None:
    goal = "What do the notes say about gaps? Which product sold best in May? Draft a letter to Ines Falk."

    shown, tasks = in_desk(tmp_path, lambda desk: mission(desk, goal))

    assert [task["status"] for task in tasks] == ["done", "done", "done"]
    assert "Dear Ines Falk," in shown["text"]
    assert "**Lantern** (3679.87)" in shown["text"]
    assert "The channel is empty where a shop forgot to say it." in shown["text"]


def test_what_it_cannot_do_fails_and_says_why(tmp_path: Path) -> None:
    shown, tasks = in_desk(tmp_path, lambda desk: mission(desk, "Write a poem about rugs"))

    assert shown["status"] == "failed"
    assert (tasks[0]["status"], tasks[0]["reason"]) == ("blocked", "missing_input")
    assert tasks[0]["message"].startswith("This cannot be answered with what is there: ")
    assert "Missing: data that answers: " in tasks[0]["message"]
    assert tasks[0]["outputs"] == []
    assert (tasks[1]["status"], tasks[1]["reason"]) == ("blocked", "dependency_failed")


GOAL = "Which product sold best in May?"


async def steered(desk: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """The task of one agent whose steering was changed before, as it ended."""
    tools = ["describe_tables", "query_sql"]
    await desk.create_agent("ada", name="Ada", model="offline", tools=tools)
    await SteeringStore(desk).change("ada", patch, by="user:ada")
    await desk.tasks.create(
        id="tasks/best",
        goal=GOAL,
        assigned_agent_id="ada",
        success_criteria=f"- Answers the question: {GOAL}\n- Names the sources.",
    )
    await desk.run_agent("ada")
    return await desk.tasks.show("tasks/best")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"xy": {"x": 0.0, "y": 0.0}}, ["describe_tables", "query_sql", "query_sql"]),
        ({"xy": {"x": 0.75, "y": 0.5}}, ["describe_tables", "query_sql", "query_sql", "query_sql"]),
        ({"tools": {"describe_tables": False}}, ["query_sql", "query_sql", "query_sql"]),
    ],
    ids=["focused", "exploratory", "a tool is off"],
)
def test_steering_changes_which_actions_are_chosen(
    tmp_path: Path, patch: dict[str, Any], expected: list[str]
) -> None:
    task = in_desk(tmp_path, lambda desk: steered(desk, patch))

    assert actions(task) == [*expected, "create_artifact"]
    assert task["status"] == "done"


def test_a_task_whose_tool_is_off_ends_without_an_output(tmp_path: Path) -> None:
    task = in_desk(tmp_path, lambda desk: steered(desk, {"tools": {"query_sql": False}}))

    assert (task["status"], task["reason"]) == ("blocked", "missing_input")
    assert "query_sql" in task["message"], "it says which tool it lacks"
    assert task["outputs"] == []
    assert "query_sql" not in actions(task)


def test_small_outputs_are_written_smaller(tmp_path: Path) -> None:
    async def work(desk: Any) -> tuple[dict[str, Any], str]:
        task = await steered(desk, {"xy": {"x": 0.5, "y": 1.0}, "sliders": {"output_bytes": 1_000}})
        (ref,) = task["outputs"]
        return task, (await desk.as_principal("operator").artifacts.read(ref)).content

    task, text = in_desk(tmp_path, work)

    assert task["status"] == "done"
    assert len(text.encode()) <= 1_000 and "**Lantern** (3679.87)" in text
