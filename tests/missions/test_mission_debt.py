"""A goal whose provider bills more than it may stops at once, with all of its tasks."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from artelier import Kernel, Limits, ModelReply, ModelRequest, Price
from artelier.ports.model import Usage
from tests.missions.mission_stage import FORK, MISSION, Team, launched, opened
from tests.missions.task_stage import play

PRICE = Price(output=Decimal(1))


class GreedyTeam:
    """A team whose provider claims 10**9 tokens for whatever is no plan."""

    price = PRICE

    def __init__(self, team: Team) -> None:
        self.team = team

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        reply = await self.team.model.complete(request)
        claimed = 10 if self.team.asked[-1][0] == "Plan" else 10**9
        return msgspec.structs.replace(reply, usage=Usage(input_tokens=10, output_tokens=claimed))


async def requested(kernel: Kernel) -> int:
    rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'model.requested'")
    return rows[0][0]


def test_a_goals_limit_that_is_exceeded_stops_every_task(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(FORK)
        more: dict[str, Any] = {"model": GreedyTeam(team), "prices": {"m": PRICE}}
        with opened(tmp_path, team, **more) as kernel:
            desk = kernel.for_tenant("acme")
            found = await launched(desk, limits=Limits(usd="1.00"))

            assert found["status"] == "budget_exhausted"
            # Two tasks begin side by side: no more than their first calls were in flight.
            made = await requested(kernel)
            assert len(team.requests) == made <= 3
            assert (await desk.drive_mission(MISSION)).status == "budget_exhausted"
            assert await requested(kernel) == made
            limits = await kernel.store.query(
                "SELECT cap, used FROM limits WHERE scope = ? AND unit = 'usd'", (f"run:{MISSION}",)
            )
            assert limits == [(1_000_000, 10 + (made - 1) * 10**9)]
            assert kernel.verify().ok

    play(scenario())
