"""A mission whose process dies, or loses its store's ear, goes on without doing anything twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.agents import Worker
from artelier.app import Kernel, TenantKernel
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World
from tests.missions.mission_stage import (
    FORK,
    GOAL,
    MISSION,
    Team,
    opened,
    ready,
    replayed,
    sales_of,
    statuses,
)
from tests.missions.task_stage import play

DEATHS_MAX = 400


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


def test_a_mission_killed_at_any_point_leaves_no_run_open(tmp_path: Path) -> None:
    """A process may die between the end of a task and that of its run: the mission lets it end, too."""
    team = Team(FORK, *[FORK] * DEATHS_MAX)

    async def driven(path: Path, **more: Any) -> set[tuple[str, str]]:
        with Kernel.open(path, models={"m": team.model}, tools=[sales_of], environ={}, **more) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m", auto_launch=True)
            assert kernel.verify().findings == []
            assert set(statuses(await desk.mission(MISSION)).values()) == {"done"}
            return {(one["id"], one["status"]) for one in (await desk.runs())["items"]}

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World())
        whole = await driven(tmp_path / "s.db", fault=deaths)
        assert {status for _, status in whole} == {"completed"}
        assert 20 < len(deaths.found) <= DEATHS_MAX
        for death in deaths.found:
            assert await driven(death.path) == whole, (death.number, death.point)

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
