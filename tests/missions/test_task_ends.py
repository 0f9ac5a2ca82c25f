"""Where a task ends: done by a passed evaluation and by nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.missions.task_stage import (
    REPORT,
    Actor,
    kinds,
    look,
    opened,
    play,
    read,
    replayed,
    work,
    write,
)


def test_a_task_is_done_by_a_passed_evaluation(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()

            result = await work(desk)

            assert (result.status, result.reason, result.iterations) == ("done", "", 2)
            assert result.outputs == ("m/report@1",)
            assert result.text == REPORT
            assert await read(desk, "m/report@1") == REPORT
            assert [kind for kind in await kinds(kernel) if kind.startswith(("task", "decision"))] == [
                "task.begun", "decision.taken", "decision.executed", "decision.taken",
                "decision.executed", "task.evaluated", "task.ended",
            ]  # fmt: skip
            assert (await replayed(desk)).status == "completed"

    play(scenario())
