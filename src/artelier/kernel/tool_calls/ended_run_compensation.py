"""Undoing what a run has done after it has ended: its lease is taken, its status stays what it is."""

from __future__ import annotations

from collections.abc import Mapping

from artelier.errors import Conflict
from artelier.kernel.run.context import ResultStore, TenantState, is_final, run_row
from artelier.kernel.run.lifecycle import Opening, OpenRun
from artelier.kernel.run.results import DRIFTED, Compensated
from artelier.kernel.run.services import Services
from artelier.kernel.tool_calls.compensation import compensate
from artelier.ports.tool import ToolPort


async def compensate_ended(
    services: Services,
    tenant: TenantState,
    run_id: str,
    *,
    tools: Mapping[str, ToolPort] | None = None,
    upto: str | None = None,
    since: int = 0,
    note: str = "",
    by: str = "operator",
    on_wait: str = "await",
    store_result: ResultStore | None = None,
) -> Compensated:
    """Errors: see `TenantKernel.compensate`."""
    row = await run_row(services, tenant.id, run_id)
    if not is_final(row["status"]):
        raise Conflict(
            f"run {run_id!r} has not ended, and would go on as if nothing had been undone",
            expected="a run that is completed, failed or cancelled",
            got=row["status"],
            hint="Cancel it first, or call `run.compensate()` in its code.",
        )
    if row["status"] == "cancelled" and row["reason"] == DRIFTED:
        raise Conflict(
            f"run {run_id!r} goes on as a fork of itself, which answers for what it has done",
            hint=f"Compensate the newest of `{run_id}.drift-1`, ...",
        )

    async def found() -> TenantState:
        return tenant

    opening = Opening(run_id=run_id, on_wait=on_wait, principal=by, tools=tools, compensating=True)
    async with OpenRun(services, found, opening, store_result) as run:
        core = run.core
        head, _ = await core.store.head(core.stream)
        return await compensate(core, f"compensate/{head}", upto=upto, since=since, note=note, asked=True)
