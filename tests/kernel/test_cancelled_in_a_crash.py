"""A cancel is written at once; what the run's calls held comes back even if its process dies right then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import ArtelierError, Kernel, Run, RunStopped, Tenant
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    PRICE,
    GateModel,
    World,
    all_others_are_dead,
    assert_conserved,
    balances,
    drive,
    open_kernel,
    play,
    user,
)


async def code(run: Run) -> Any:
    return (await run.step_model(model="m", messages=[user("hold")], max_output_tokens=5)).text


def test_opening_a_cancelled_run_gives_back_what_its_dead_process_held(tmp_path: Path) -> None:
    async def scenario() -> int:
        deaths, gate = Deaths(tmp_path / "s.db", World()), GateModel()
        gate.price = PRICE
        kernel = open_kernel(tmp_path, model=gate, fault=deaths)
        runs = kernel.for_tenant(Tenant("acme", budget_usd="1.00"))
        driven = asyncio.ensure_future(drive_quietly(runs, "r"))
        await gate.asked("hold")
        await runs.cancel("r")
        await driven
        kernel.close()

        holding = 0
        for death in deaths.found:
            kernel = Kernel.open(death.path, models=gate)
            all_others_are_dead(kernel)
            runs = kernel.for_tenant("acme")
            if await is_cancelled(kernel):
                holding += bool((await balances(kernel, "acme")).get("hold:r"))
                await drive_quietly(runs, "r")
                await assert_conserved(kernel, "acme", held=0)
            kernel.close()
        return holding

    assert play(scenario()) >= 1, "no death came between the cancel and the end of the run"


async def drive_quietly(runs: Any, run_id: str) -> None:
    try:
        await drive(runs, code, run_id)
    except (RunStopped, ArtelierError) as error:
        assert "cancelled" in str(error), error


async def is_cancelled(kernel: Kernel) -> bool:
    rows = await kernel.store.query("SELECT 1 FROM runs WHERE status = 'cancelled'")
    return bool(rows)
