"""A mission whose process dies, or loses its store's ear, goes on without doing anything twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.agents import Worker
from artelier.app import TenantKernel
from tests.missions.mission_stage import FORK, GOAL, MISSION, Team, opened, ready, replayed, statuses
from tests.missions.task_stage import play


async def interrupted(desk: TenantKernel, *, at: int) -> bool:
    """Drive a mission, and cancel the drive after so many events of the store; whether it was in time."""
    driving = asyncio.ensure_future(desk.plan(GOAL, mission_id=MISSION, model="m", auto_launch=True))
    async with asyncio.timeout(30):
        while not driving.done():
            rows = await desk.services.store.query("SELECT count(*) FROM events")
            if rows[0][0] >= at:
                driving.cancel()
                break
            await asyncio.sleep(0)
    (outcome,) = await asyncio.gather(driving, return_exceptions=True)
    return isinstance(outcome, asyncio.CancelledError)


@pytest.mark.parametrize("at", [2, 5, 8, 12, 20, 28, 35, 45, 55, 65, 80, 95])
def test_an_interrupted_mission_goes_on_where_it_stopped(tmp_path: Path, at: int) -> None:
    team = Team(FORK, FORK)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            await interrupted(kernel.for_tenant("acme"), at=at)
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")

            result = await desk.plan(GOAL, mission_id=MISSION, model="m", auto_launch=True)

            assert result["status"] == "completed"
            assert statuses(await desk.mission(MISSION)) == {"a": "done", "b": "done", "end": "done"}
            artifacts = await desk.as_principal("operator").artifacts.list(kind="report")
            assert all(one.version == 1 for one in artifacts)
            assert len({one.id for one in artifacts}) == len(artifacts)
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_two_workers_drive_a_mission_once(tmp_path: Path) -> None:
    team = Team(FORK)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel, opened(tmp_path, team) as other:
            desk = kernel.for_tenant("acme")
            await ready(desk)

            workers = [Worker(one, one.services) for one in (kernel, other)]
            await asyncio.gather(*(worker.once() for worker in workers))

            mission = await desk.mission(MISSION)
            assert mission["status"] == "completed"
            assert [team.count("Decision", slug) for slug in ("a", "b", "end")] == [1, 1, 1]

    play(scenario())
