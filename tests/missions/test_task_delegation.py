"""A task that hands a part of its work on: how deep, what comes back, and what a stop does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import ModelRequest
from artelier.missions.steering_document import SteeringStore
from artelier.missions.task.task_runner import drive_task
from tests.missions.task_stage import (
    AGENT,
    REPORT,
    TASK,
    THINK,
    Actor,
    as_json,
    decide,
    kinds,
    look,
    opened,
    play,
    replayed,
    text_of,
    work,
    write,
)
from tests.missions.test_task_acts import agent

PART = "Find out what Oslo sold in 2025."
HAND = decide("use_tool", tool="delegate_task", input={"goal": PART, "success_criteria": "- The amount."})
CHILD = f"{TASK}/1"


def by_task(parent: list[Any], child: list[Any]) -> Any:
    """A model that decides for the parent and for its child by two scripts."""

    def decided(request: ModelRequest) -> Any:
        script = child if f"## Task\n\n{PART}" in text_of(request) else parent
        step = script.pop(0) if len(script) > 1 else script[0]
        return step(request) if callable(step) else step

    return decided


async def deep(desk: Any, depth: int) -> None:
    await agent(desk)
    patch = {"sliders": {"delegation_depth": depth}, "xy": {"x": 1.0, "y": 0.5}}
    await SteeringStore(desk).change(AGENT, patch, by="operator")


def test_outputs_of_a_delegated_task_become_inputs(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(by_task([HAND, write("Whole")], [look(), write("Part")]))
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await deep(desk, 1)
            result = await work(desk)

            assert (result.status, result.outputs) == ("done", ("m/whole@1",))
            child = await drive_task(desk, CHILD)
            assert (child.status, child.outputs) == ("done", (f"{CHILD}/part@1",))
            last = [one for one in actor.requests() if "## Inputs" in text_of(one)][-1]
            assert f"{CHILD}/part@1" in text_of(last) and REPORT in text_of(last)
            tree = await desk.tree(TASK)
            assert CHILD in as_json(tree)
            rows = await kernel.store.query("SELECT parent, mission FROM tasks WHERE task = ?", (CHILD,))
            assert rows == [(TASK, "")]
            assert (await replayed(desk)).status == "completed"
            assert (await replayed(desk, CHILD)).status == "completed"

    play(scenario())


def test_the_depth_of_delegation_is_a_hard_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        for depth in (0, 1):
            actor = Actor(by_task([HAND, look(), write()], [HAND, look(), write("Part")]))
            (folder := tmp_path / str(depth)).mkdir()
            with opened(folder, actor) as kernel:
                desk = kernel.for_tenant()
                await deep(desk, depth)
                await work(desk)

                runs = await kernel.store.query("SELECT run FROM runs ORDER BY run")
                listed = ["### delegate_task" in text_of(one) for one in actor.requests()]
                assert len(runs) == depth + 1
                assert listed[0] == bool(depth)
                if depth:
                    seen = [one for one in actor.requests() if f"## Task\n\n{PART}" in text_of(one)]
                    assert all("### delegate_task" not in text_of(one) for one in seen)
                refused = await kinds(kernel, CHILD if depth else TASK)
                assert "tool.refused" in refused

    play(scenario())


def test_a_delegated_task_that_fails_is_a_result_that_the_task_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(by_task([HAND, look(), write()], [THINK]))
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await deep(desk, 1)
            result = await work(desk)

            assert result.status == "done"
            assert (await drive_task(desk, CHILD)).reason == "stuck"
            told = [one for one in actor.requests() if "the task is not done" in text_of(one)]
            assert told

    play(scenario())


def test_a_task_waits_with_its_part_and_goes_on_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def pause(_: ModelRequest) -> str:
            await desk.pause(TASK)
            return as_json(look())

        actor = Actor(by_task([HAND, write("Whole")], [pause, write("Part")]))
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await deep(desk, 1)
            first = await work(desk)
            assert (first.status, first.run_status) == ("active", "paused")
            await desk.resume(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert second.status == "done"
            assert (await kinds(kernel, CHILD)).count("run.started") == 1
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_figure_that_a_part_was_told_is_no_finding_of_it(tmp_path: Path) -> None:
    """Not in what it came to, nor in what it made, whoever reads it."""
    goal = "Write that Oslo sold 5200."
    told = decide("use_tool", tool="delegate_task", input={"goal": goal, "success_criteria": "It."})
    reads = decide("use_tool", tool="read_artifact", input={"ref": f"{CHILD}/part@1"})

    def decided(request: ModelRequest) -> Any:
        return write("Part") if f"## Task\n\n{goal}" in text_of(request) else script.pop(0)

    script = [told, reads, write("Whole"), THINK]

    async def scenario() -> None:
        actor = Actor(decided, content="# Oslo\n\nOslo sold 5200.")
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await deep(desk, 1)
            result = await work(desk, max_iterations=4)

            assert (await desk.tasks.show(CHILD))["status"] == "done"
            assert (result.status, result.reason) == ("failed", "max_iterations")
            iterations = (await desk.tasks.show(TASK))["iterations"]
            assert [one["is_error"] for one in iterations] == [False] * 4
            assert iterations[2]["void"] == "unfounded_figure"
            assert (await replayed(desk)).reason == "max_iterations"

    play(scenario())
