"""A task under crashes, forks, exports and other processes: nothing twice, nothing otherwise."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest
from artelier.errors import InvalidRequest, NotFound
from artelier.missions.steering_document import SteeringStore
from artelier.missions.task.task_runner import code_needed, drive_task
from tests.end_to_end.test_kill_agent import kill_at
from tests.missions import task_program
from tests.missions.task_stage import (
    AGENT,
    REPORT,
    TASK,
    THINK,
    Actor,
    as_json,
    events,
    kinds,
    look,
    make_task,
    opened,
    play,
    read,
    replayed,
    text_of,
    work,
    write,
)
from tests.missions.test_task_acts import agent
from tests.processes import WarmPython

ENDED = {"status": "done", "reason": "", "outputs": ["m/report@2"], "text": REPORT}


def start(folder: Path, *deadly: str) -> subprocess.Popen[str]:
    return WarmPython(
        [sys.executable, "-m", "tests.missions.task_program", str(folder), *deadly],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def deeds(folder: Path) -> Counter[str]:
    lines = (folder / "world").read_text().splitlines()
    return Counter(line.partition(" ")[0] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 40])
def test_a_task_killed_at_any_event_goes_on_and_does_nothing_twice(tmp_path: Path, count: int) -> None:
    kill_at(start(tmp_path), tmp_path / "state.db", count)

    ended = json.loads(json.dumps(asyncio.run(task_program.main(tmp_path))))

    assert ended == ENDED
    assert deeds(tmp_path)["pay"] == 1
    again = asyncio.run(_replayed(tmp_path))
    assert again.status == "completed"


@pytest.mark.slow
def test_a_task_killed_again_and_again_still_ends(tmp_path: Path) -> None:
    database, kills = tmp_path / "state.db", 0
    for _ in range(20):
        seen = _events(database)
        if not kill_at(start(tmp_path), database, seen + 6):
            break
        kills += 1

    ended = json.loads(json.dumps(asyncio.run(task_program.main(tmp_path))))

    assert kills >= 2
    assert ended == ENDED
    assert deeds(tmp_path)["pay"] == 1


@pytest.mark.slow
def test_a_call_that_was_cut_off_again_and_again_is_no_circle(tmp_path: Path) -> None:
    """Each death comes before the call has done anything; the same decision is the right one then."""
    for _ in range(4):
        process = start(tmp_path, "tool.requested")
        process.communicate(timeout=90)
        assert process.returncode == -signal.SIGKILL

    ended = json.loads(json.dumps(asyncio.run(task_program.main(tmp_path))))

    assert ended == ENDED
    assert deeds(tmp_path)["pay"] == 1
    again = asyncio.run(_replayed(tmp_path))
    assert (again.status, again.result["iterations"]) == ("completed", 8)


def _events(database: Path) -> int:
    try:
        with sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5) as db:
            return db.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.Error:
        return 0


async def _replayed(folder: Path) -> Any:
    with task_program.opened(folder) as kernel:
        return await replayed(kernel.for_tenant())


def test_an_interrupted_task_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    """What was asked before is not asked again, and the conversation is the same."""

    async def scenario() -> None:
        reached = asyncio.Event()

        async def hang(_: ModelRequest) -> Any:
            reached.set()
            await asyncio.Event().wait()

        first = Actor(look(), THINK, hang)
        with opened(tmp_path, first) as kernel:
            desk = kernel.for_tenant()
            working = asyncio.ensure_future(work(desk))
            await reached.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        second = Actor(write())
        with opened(tmp_path, second) as kernel:
            desk = kernel.for_tenant()
            result = await drive_task(desk, TASK)

            assert (result.status, result.iterations) == ("done", 3)
            assert second.requests()[0].canonical() == first.requests()[2].canonical()
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_fork_with_other_steering_decides_by_it_and_writes_beside_its_origin(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), write(), content=[REPORT, REPORT + " Again."])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await agent(desk)
            await SteeringStore(desk).change(AGENT, {"xy": {"x": 1.0, "y": 0.5}}, by="operator")
            await work(desk)
            cycles = [one.seq for one in await events(kernel) if one.kind == "cycle.completed"]
            changed = {"xy": {"x": 0.0, "y": 0.5}, "tools": {"sales_of": False}}

            name = await desk.fork(TASK, at=cycles[0], with_={"steering": changed})
            result = await drive_task(desk, name, on_wait="return")

            assert (result.status, result.iterations) == ("done", 2)
            assert result.outputs == (f"forks/{name}/m/report@1",)
            with pytest.raises(InvalidRequest, match="assigned when it began"):
                await desk.fork(TASK, with_={AGENT: "m/other"})
            assert [one.params["temperature"] for one in actor.requests()] == [1.0, 1.0, 0.0]
            assert "### sales_of" not in text_of(actor.requests()[2])
            assert await read(desk, "m/report") == REPORT
            assert (await desk.as_principal("operator").artifacts.read("m/report")).version == 1
            assert (await replayed(desk, name)).status == "completed"
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_fork_of_a_finished_task_with_other_steering_begins_with_its_first_decision(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), look(), write(), content=[REPORT, REPORT + " Again."])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await agent(desk)
            await SteeringStore(desk).change(AGENT, {"xy": {"x": 1.0, "y": 0.5}}, by="operator")
            await work(desk)
            last = [one.seq for one in await events(kernel) if one.kind == "model.completed"][-1]
            changed = {"xy": {"x": 0.0, "y": 0.5}}

            name = await desk.fork(TASK, with_={"steering": changed})
            result = await drive_task(desk, name, on_wait="return")

            assert (result.status, result.iterations) == ("done", 2)
            assert [one.params["temperature"] for one in actor.requests()] == [1.0, 1.0, 0.0, 0.0]
            assert (await replayed(desk, name)).status == "completed"
            with pytest.raises(NotFound, match="no step of it would be another") as told:
                await desk.fork(TASK, at=last, with_={"steering": changed})
            assert f"--at {last - 1}" in str(told.value.hint)
            with pytest.raises(InvalidRequest):
                await desk.fork(TASK, with_={"steering": {"xy": 7}})

    play(scenario())


def test_a_fork_has_of_its_origin_what_had_come_of_it_by_then(tmp_path: Path) -> None:
    """Of a decision that it shares a fork knows no outcome that came later, nor does a fork of it."""

    async def scenario() -> None:
        actor = Actor(look(), write(), content=[REPORT])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await agent(desk)
            await work(desk)
            seqs = {one.kind: one.seq for one in await events(kernel) if one.stream.id == TASK}

            async def told(run_id: str) -> list[tuple[int, str, bool | None]]:
                shown = await desk.tasks.show(run_id)
                return [(one["iteration"], one["step"], one["passed"]) for one in shown["iterations"]]

            whole = await told(TASK)
            judged = await desk.fork(TASK, at=seqs["task.evaluated"])
            acted = await desk.fork(TASK, at=seqs["task.evaluated"] - 1)
            decided = await desk.fork(TASK, at=seqs["decision.taken"])
            again = await desk.fork(acted, at=1)

            (first, last) = whole
            assert (last[0], last[2]) == (2, True) and last[1]
            assert await told(judged) == whole
            assert await told(acted) == [first, (2, last[1], None)]
            assert await told(decided) == [first, (2, "", None)]
            assert await told(again) == await told(acted)
            shown = [await desk.tasks.show(one) for one in (judged, decided, again)]
            assert [one["iteration_count"] for one in shown] == [2, 2, 2]
            steering = [one["steering"] for one in (await desk.tasks.show(TASK))["iterations"]]
            assert [one["steering"] for one in shown[2]["iterations"]] == steering

    play(scenario())


def test_a_fork_from_behind_the_end_of_a_task_has_ended_as_it_has(tmp_path: Path) -> None:
    """It was `failed`: its run is completed, and the end stands in the history that it shares."""

    async def scenario() -> None:
        actor = Actor(look(), write(), content=[REPORT])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await agent(desk)
            await work(desk)
            ended = next(one.seq for one in await events(kernel) if one.kind == "task.ended")

            forks = [await desk.fork(TASK, at=ended + later) for later in (-1, 0, 1)]
            again = await desk.fork(forks[1], at=1)

            assert [(await desk.tasks.show(one))["status"] for one in forks] == ["active", "done", "done"]
            for name in (*forks, again):
                assert (await drive_task(desk, name)).status == "done"
                shown = await desk.tasks.show(name)
                assert (shown["status"], shown["outputs"]) == ("done", ["m/report@1"])
            assert len(actor.requests()) == 2
            assert kernel.verify().ok

    play(scenario())


def test_a_fork_with_another_model_asks_that_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor, other = Actor(look(), write()), Actor(write("Other"))
        models = {"m": actor.model, "n": other.model}
        from tests.missions.task_stage import sales_of

        with Kernel.open(tmp_path / "s.db", models=models, tools=[sales_of], environ={}) as kernel:
            desk = kernel.for_tenant()
            await work(desk)
            cycles = [one.seq for one in await events(kernel) if one.kind == "cycle.completed"]
            name = await desk.fork(TASK, at=cycles[0], with_={"model": "n"})
            result = await drive_task(desk, name, on_wait="return")

            assert result.outputs == (f"forks/{name}/m/other@1",)
            assert len(actor.requests()) == 2 and len(other.requests()) == 1
            shown, origin = await desk.tasks.show(name), await desk.tasks.show(TASK)
            for said in ("goal", "success_criteria", "version"):
                assert shown[said] and shown[said] == origin[said]

    play(scenario())


def test_an_exported_task_replays_elsewhere_and_is_driven_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "task.artelier"

    async def scenario() -> None:
        (tmp_path / "b").mkdir()
        with opened(tmp_path, Actor(look(), write())) as kernel:
            await work(kernel.for_tenant())
            await kernel.for_tenant().export(TASK, path)
        with opened(tmp_path / "b", Actor("no")) as kernel:
            desk = kernel.for_tenant()
            await desk.import_(path)

            assert (await replayed(desk)).result["text"] == REPORT
            result = await drive_task(desk, TASK)
            assert (result.status, result.outputs) == ("done", ("m/report@1",))

    play(scenario())


def test_a_task_whose_tools_are_not_here_is_left_as_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def pause(_: ModelRequest) -> str:
            await desk.pause(TASK)
            return as_json(look())

        with opened(tmp_path, Actor(pause)) as kernel:
            desk = kernel.for_tenant()
            await work(desk)
            await desk.resume(TASK)
        with opened(tmp_path, Actor(write()), tools=[]) as kernel:
            desk = kernel.for_tenant()
            before = await kinds(kernel)

            needed = await code_needed(desk, TASK)
            assert needed is not None and "sales_of" in str(needed)
            with pytest.raises(InvalidRequest, match="not loaded here"):
                await drive_task(desk, TASK)
            assert await kinds(kernel) == before
            with pytest.raises(NotFound):
                await drive_task(desk, "m/nothing")

    play(scenario())


def test_an_iteration_costs_the_same_however_many_there_were(tmp_path: Path) -> None:
    """Events and bytes that an iteration adds: its own, and nothing of the history."""

    async def scenario() -> None:
        actor = Actor(*[one for n in range(10) for one in (look(f"city-{n:02}"), THINK)])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            job = await make_task(desk, max_iterations=20)
            await work(desk, job)
            rows = await kernel.store.query(
                "SELECT e.seq, e.kind, length(e.data) FROM events e JOIN streams s ON s.id = e.stream"
                " WHERE s.name LIKE ? ORDER BY e.seq",
                (f"%run:{TASK}",),
            )
            sizes: list[tuple[int, int]] = []
            count = size = 0
            for _, kind, length in rows:
                count, size = count + 1, size + (length if kind != "cycle.completed" else 0)
                if kind == "cycle.completed":
                    sizes.append((count, size))
                    count = size = 0

            assert len(sizes) == 20
            assert {count for count, _ in sizes[2::2]} == {sizes[2][0]}
            early, late = sizes[2][1], sizes[18][1]
            assert late <= early + 64

    play(scenario())
