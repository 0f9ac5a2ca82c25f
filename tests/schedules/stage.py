"""What tests of schedules stand on: a clock moved by hand, a model that can hold or refuse, a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, Price, Usage
from artelier.agents import Worker
from artelier.agents.schedules.queries import FiringView, ScheduleDetail
from artelier.app import TenantKernel
from artelier.errors import ModelRefusedCall
from artelier.ports.model import FREE
from artelier.testing import ManualClock

PATIENCE_S = 60.0
TENANT = "acme"
MINUTE_S = 60
START = "2026-03-28T12:00:00"
"""The day before clocks go forward in Berlin."""


def us(moment: str) -> int:
    """Microseconds of a moment in UTC, such as `2026-03-28T12:00:00`."""
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000


def utc(time_us: int | None) -> str:
    """A time as people write it."""
    assert time_us is not None
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Teller:
    """Says "done" to everything, unless it was told to hold or to refuse."""

    price: Price | None = FREE

    def __init__(self) -> None:
        self.asked = 0
        self.refuses = False
        self.holds: asyncio.Event | None = None

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        if self.holds is not None:
            await self.holds.wait()
        if self.refuses:
            raise ModelRefusedCall("no")
        return ModelReply(text="done", usage=Usage(input_tokens=10, output_tokens=1))


class Stage:
    """One kernel on a file, its clock and its worker."""

    def __init__(self, folder: Path, *, clock: ManualClock | None = None, fault: Any = None) -> None:
        self.clock = clock or ManualClock(start_us=us(START))
        self.model = Teller()
        self.kernel = Kernel.open(
            folder / "state.db", models={"m": self.model}, clock=self.clock, environ={}, fault=fault
        )
        self.reported: dict[str, Any] = {}
        self.worker = Worker(self.kernel, self.kernel.services, report=self._report)

    def _report(self, tenant: str, run_id: str, outcome: Any) -> None:
        self.reported[run_id] = outcome

    @property
    def desk(self) -> TenantKernel:
        return self.kernel.for_tenant(TENANT)

    async def add(self, name: str = "s", **options: Any) -> ScheduleDetail:
        """A schedule of a solo agent; every hour unless said."""
        if "cron" not in options:
            options.setdefault("every", "1h")
        what: dict[str, Any] = {"goal": "Say done.", "model": "m", "solo": True}
        if "loop" in options:
            what = {}
        return await self.desk.schedules.add(name, **{**what, **options})

    async def last_run(self, name: str = "s") -> FiringView:
        """Its newest firing."""
        found = (await self.desk.schedules.get(name))["last_run"]
        assert found is not None
        return found

    async def passes(self, seconds: float) -> int:
        """Time passes, then the worker looks once and drives what it finds; how many runs."""
        self.clock.advance(seconds)
        return await self.worker.once()

    async def runs(self, name: str = "s") -> list[str]:
        """When its firings were due, oldest first."""
        shown = await self.desk.schedules.get(name)
        return [utc(one["due_us"]) for one in reversed(shown["runs"])]

    async def events(self, name: str = "s") -> list[tuple[str, dict[str, Any]]]:
        """Kind and data of everything in the schedule's stream."""
        rows = await self.kernel.store.query(
            "SELECT e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE s.name = ? ORDER BY e.seq",
            (f"schedule:{name}",),
        )
        import json

        return [(kind, json.loads(data)) for kind, data in rows]

    async def kinds(self, name: str = "s") -> list[str]:
        return [kind.removeprefix("schedule.") for kind, _ in await self.events(name)]

    def close(self) -> None:
        self.kernel.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def play(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario

    asyncio.run(bounded())
